"""The server's port: owners, endpoints by release, how often they are asked, and peers of every kind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from launchmon_agent.sensors import http as http_sensor
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.http import ASK_READY_S, ASK_S, HttpSensor, info_paths, parse_metrics, version_number
from launchmon_agent.sensors.httpget import Answer, get
from tests.support.peers import Behaviour, answers, drips, peer, says, until_gone
from tests.support.waiting import until

INFO = '{"model_path": "/models/llama", "is_generation": true}'
UP = answers(model_info=(200, INFO), get_model_info=(200, INFO), ready=(200, "{}"))


def sensor(port: int, version: str | None = "0.5.23", **how: object) -> HttpSensor:
    settings = {"host": "127.0.0.1", "api_key": None, "is_ours": lambda pid: True, "metrics": False, **how}
    pid = settings.pop("pid", os.getpid())
    return HttpSensor(pid, port, version=version, **settings)  # type: ignore[arg-type]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sensor waits a tenth of a second only."""
    monkeypatch.setattr(http_sensor, "get", lambda *where, **how: get(*where, **how, timeout=0.1))


# ---------------------------------------------------------------------------------------------------------- one request


@pytest.mark.parametrize(
    "behaviour, answer",
    [
        (answers(x=(200, "hello")), Answer(200, b"hello")),
        (answers(x=(503, "")), Answer(503)),
        (says(b"HTTP/1.0 200 OK\r\n\r\nto the end"), Answer(200, b"to the end")),
        (says(b"HTTP/1.1 204 No Content\r\n\r\n"), Answer(204)),
        (says(b"HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"), Answer(307)),
        (says(b"HTTP/1.1 200 OK\r\ncontent-length:3\r\n\r\nabcdef"), Answer(200, b"abcdef")),
        (says(b"SSH-2.0-OpenSSH_9.6 and more of it\r\n"), Answer(None)),
        (says(b"\x15\x03\x01\x00\x02\x02\x46"), Answer(None)),
        (says(b"no"), Answer(None)),
        (says(b"HTTP/1.1 2"), Answer(0)),
        (says(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20000 + b"\r\n"), Answer(0)),
        (says(b""), Answer(0)),
        (says(b"\0" * 10_000_000), Answer(None)),
    ],
)
def test_answers(behaviour: Behaviour, answer: Answer) -> None:
    with peer(behaviour) as one:
        assert get("127.0.0.1", one.port, "/x") == answer


def test_a_body_is_bounded() -> None:
    with peer(says(b"HTTP/1.1 200 OK\r\n\r\n" + b"z" * 10_000_000)) as one:
        assert len(get("127.0.0.1", one.port, "/x", limit=1000).body) == 1000


@pytest.mark.parametrize(
    "behaviour, answer",
    [
        (until_gone, Answer(0)),
        (drips(b""), Answer(None)),
        (drips(b"HTTP/1.1 200 OK\r\nX: "), Answer(0)),
    ],
)
def test_a_peer_that_goes_on_for_ever_is_left_in_time(behaviour: Behaviour, answer: Answer) -> None:
    with peer(behaviour) as one:
        assert get("127.0.0.1", one.port, "/x", timeout=1.0) == answer


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert get("127.0.0.1", port, "/x") == Answer(0)


def test_the_request_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with peer(answers(x=(200, ""))) as one:
        get("127.0.0.1", one.port, "/x", api_key="k\r\nEvil: 1")
        lines = one.requests[0].split("\r\n")
    assert lines[0] == "GET /x HTTP/1.0"
    assert f"Host: 127.0.0.1:{one.port}" in lines
    assert "Authorization: Bearer kEvil: 1" in lines, "a key cannot add a header"


# --------------------------------------------------------------------------------------------------- what releases have


@pytest.mark.parametrize(
    "version, number, paths",
    [
        ("0.5.23", (0, 5, 23), ("/model_info",)),
        ("0.5.6.post1", (0, 5, 6), ("/model_info",)),
        ("0.5.5", (0, 5, 5), ("/get_model_info",)),
        ("0.5.5rc2", (0, 5, 5), ("/get_model_info",)),
        ("0.3.6", (0, 3, 6), ("/get_model_info",)),
        ("0.0.0.dev1+gabc", None, ("/model_info", "/get_model_info")),
        ("main", None, ("/model_info", "/get_model_info")),
        (None, None, ("/model_info", "/get_model_info")),
    ],
)
def test_versions(version: str | None, number: tuple[int, ...] | None, paths: tuple[str, ...]) -> None:
    assert version_number(version) == number
    assert info_paths(number) == paths


@pytest.mark.parametrize(
    "version, asked",
    [
        ("0.5.23", ["/ready", "/model_info"]),
        ("0.5.20", ["/ready", "/model_info"]),
        ("0.5.19", ["/model_info"]),
        ("0.4.9", ["/get_model_info"]),
    ],
)
def test_the_endpoints_of_a_release(version: str, asked: list[str]) -> None:
    with peer(UP) as one:
        found = sensor(one.port, version).sample(100.0)
        assert one.paths == asked
    assert (found.listening, found.ours, found.owner_pid) == (True, True, os.getpid())
    assert (found.model_info, found.model_path, found.error) == (200, "/models/llama", None)
    assert found.ready == (200 if "/ready" in asked else None)


def test_an_unknown_release_is_found_out_by_asking_once() -> None:
    with peer(answers(get_model_info=(200, INFO))) as one:
        server = sensor(one.port, None)
        found = server.sample(100.0)
        assert one.paths == ["/ready", "/model_info", "/get_model_info"]
        assert (found.model_info, found.ready, found.error) == (200, None, None)
        server.sample(100.0 + ASK_READY_S)
        assert one.paths[3:] == ["/get_model_info"]


def test_health_is_never_asked() -> None:
    with peer(UP) as one:
        server = sensor(one.port, metrics=True)
        for now in range(0, 300, 5):
            server.sample(float(now))
        assert not [path for path in one.paths if "health" in path or "generate" in path]


def test_metrics_only_where_they_are_enabled() -> None:
    body = (
        '# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs{dp_rank="0"} 3.0\n'
        'sglang:num_running_reqs{dp_rank="1"} 4.0\nsglang:num_queue_reqs{dp_rank="0"} 1e1\n'
    )
    with peer(answers(model_info=(200, INFO), ready=(200, ""), metrics=(200, body))) as one:
        found = sensor(one.port, metrics=True).sample(1.0)
        assert (found.running, found.queued) == (7, 10)
        one.requests.clear()
        assert sensor(one.port).sample(1.0).running is None
        assert "/metrics" not in one.paths


@pytest.mark.parametrize(
    "body, counts",
    [
        (b'sglang:num_running_reqs{a="b"} 2\nsglang:num_running_reqs{a="b",priority="5"} 2\n', {"num_running_reqs": 2}),
        (b"sglang:num_queue_reqs 7.0", {"num_queue_reqs": 7}),
        (b"sglang:num_queue_reqs 1e999\nsglang:num_queue_reqs ..\n", {}),
        (b"sglang:num_queue_reqs_total 7\nnonsense", {}),
        (b"\xff\xfe", {}),
    ],
)
def test_metrics_of_every_shape(body: bytes, counts: dict[str, int]) -> None:
    assert parse_metrics(body) == counts


# ------------------------------------------------------------------------------------------------------------ how often


def test_requests_are_rare_and_rarer_once_ready() -> None:
    with peer(answers(model_info=(200, INFO), ready=(503, ""))) as one:
        server = sensor(one.port)
        for tenth in range(100):
            found = server.sample(tenth / 10)
        assert (found.ready, found.model_info) == (503, 200)
        assert one.paths.count("/ready") == 10 / ASK_S
        assert one.paths.count("/model_info") == 1, "what it serves is known"
        one.behaviour = UP
        assert server.sample(10.0).ready == 200
        one.requests.clear()
        for second in range(11, 130):
            server.sample(float(second))
        assert one.paths.count("/ready") == one.paths.count("/model_info") == 120 // ASK_READY_S - 1


def test_a_server_that_was_ready_and_is_not_any_more_is_not_pestered() -> None:
    with peer(UP) as one:
        server = sensor(one.port)
        server.sample(0.0)
        one.behaviour = answers(model_info=(200, INFO), ready=(503, ""))
        assert server.sample(ASK_READY_S).ready == 503
        one.requests.clear()
        for second in range(30, 59):
            server.sample(float(second))
        assert one.requests == []


def test_a_look_is_worth_less_often_once_ready() -> None:
    with peer(answers(model_info=(200, INFO), ready=(503, ""))) as one:
        server = sensor(one.port)
        server.sample(100.0)
        before = server.pause_s
        one.behaviour = UP
        server.sample(100.0 + ASK_S)
        assert before < server.pause_s


# ---------------------------------------------------------------------------------------------------------------- peers


@pytest.mark.parametrize("behaviour", [says(b"\0" * 10_000_000), says(b"220 smtp.example ESMTP ready\r\n")])
def test_garbage_is_said_to_be_garbage(behaviour: Behaviour) -> None:
    with peer(behaviour) as one:
        found = sensor(one.port).sample(1.0)
    assert (found.listening, found.model_info, found.ready) == (True, None, None)
    assert found.error == f"what listens on port {one.port} does not speak HTTP"


def test_a_server_that_never_answers(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with peer(until_gone) as one:
        server = sensor(one.port, metrics=True)
        found = server.sample(1.0)
        assert (found.listening, found.model_info, found.ready, found.error) == (True, 0, 0, None)
        until(lambda: one.paths == ["/ready", "/model_info"])
        one.behaviour = UP
        monkeypatch.undo()
        assert server.sample(1.0 + ASK_S).ready == 200


@pytest.mark.parametrize("body", ["", "null", "[]", "{", '{"model_path": 5}', '{"model_path": null}'])
def test_a_model_info_without_a_model(body: str) -> None:
    with peer(answers(model_info=(200, body), ready=(200, ""))) as one:
        found = sensor(one.port).sample(1.0)
    assert (found.model_info, found.model_path, found.error) == (200, None, None)


def test_a_key_that_is_wrong() -> None:
    with peer(answers(model_info=(401, ""), ready=(200, ""))) as one:
        found = sensor(one.port, api_key="k").sample(1.0)
        assert all("Authorization: Bearer k" in head for head in one.requests)
    assert (found.model_info, found.ready, found.model_path) == (401, 200, None)


# --------------------------------------------------------------------------------------------------------------- owners


@pytest.fixture
def other() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that listens, and the port."""
    script = "import socket\ns = socket.create_server(('127.0.0.1', 0))\nprint(s.getsockname()[1], flush=True)\ninput()"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process, int(process.stdout.readline())
    process.kill()
    process.communicate()


def test_a_port_of_another_process_is_not_asked(other: tuple[subprocess.Popen[str], int]) -> None:
    process, port = other
    found = sensor(port, is_ours=lambda pid: pid == os.getpid()).sample(1.0)
    assert (found.listening, found.ours, found.owner_pid) == (True, False, process.pid)
    assert (found.model_info, found.ready) == (None, None)
    assert found.error == f"port {port} belongs to process {process.pid}, which is not of this run"


def test_a_port_changes_hands(other: tuple[subprocess.Popen[str], int], impatient: None) -> None:
    process, port = other
    server = sensor(port, is_ours=lambda pid: pid == os.getpid())
    assert server.sample(1.0).ours is False
    process.kill()
    process.wait()
    found = server.sample(2.0)
    assert (found.listening, found.owner_pid, found.ours, found.error) == (False, None, None, None)
    with socket.create_server(("127.0.0.1", port)) as mine:
        mine.settimeout(0)
        found = server.sample(3.0)
        assert (found.ours, found.owner_pid, found.ready) == (True, os.getpid(), 0)


def test_what_the_last_owner_said_is_forgotten() -> None:
    with peer(UP) as one:
        server = sensor(one.port)
        assert server.sample(1.0).ready == 200
    until(lambda: proc.listeners("self", one.port) == {})
    found = server.sample(100.0)
    assert (found.listening, found.ready, found.model_path) == (False, None, None)


def test_an_owner_whom_we_may_not_see_is_asked_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[set[int]] = []
    monkeypatch.setattr(proc, "socket_owner", lambda inodes, likely=(): searches.append(inodes))
    with peer(UP) as one:
        server = sensor(one.port)
        for now in range(25):
            found = server.sample(float(now))
    assert (found.listening, found.owner_pid, found.ours, found.ready) == (True, None, None, 200)
    assert len(searches) == 1, "not searched for each second"


def test_another_network_namespace_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "namespace", lambda pid, kind: f"{kind}:[{pid}]")
    with peer(UP) as one:
        found = sensor(one.port).sample(1.0)
        assert one.requests == []
    assert (found.listening, found.ours) == (True, True)
    assert found.error is not None and "another network namespace" in found.error


def test_a_launcher_that_has_ended_leaves_the_port_in_sight() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with peer(UP) as one:
        assert sensor(one.port, pid=gone.pid).sample(1.0).owner_pid == os.getpid()


def test_a_network_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "listeners", lambda pid, port: None)
    found = sensor(1234).sample(1.0)
    assert (found.listening, found.port) == (None, 1234)
    assert found.error == "which process listens on the port cannot be read"


def test_no_port_is_nothing_known() -> None:
    found = HttpSensor(1, None, None, None, None, lambda pid: True).sample(1.0)
    assert (found.port, found.listening, found.error) == (None, None, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "server.example", None])
def test_a_server_that_listens_everywhere_is_asked_here(host: str | None, impatient: None) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        server.settimeout(5)
        assert sensor(server.getsockname()[1], host=host).sample(1.0).listening
        connection, _ = server.accept()
        with connection:
            assert connection.getsockname()[0] == "127.0.0.1"
