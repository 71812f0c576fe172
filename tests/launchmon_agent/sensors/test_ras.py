"""The RAS sensor against a server that speaks NCCL's protocol."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

import pytest

from launchmon_agent.events import Process
from launchmon_agent.judge.collectives import late_ranks
from launchmon_agent.sensors import proc, ras
from launchmon_agent.sensors.ras import POLL_S, RasSensor, ask, split_address
from tests.support.fake_ras import HASH, FakeRas, fake_ras, json_answer, json_missing, json_rank, text_answer

ME = os.getpid()
RANKS = [Process(ME, proc.start_time(ME) or 0.0, "scheduler", rank="TP0")]


def sensor(server: FakeRas, **more: str) -> RasSensor:
    variables = {"NCCL_RAS_ADDR": server.address, **more}
    return RasSensor(None, environ=lambda pid: variables, addresses=lambda: frozenset({"10.0.0.1"}))


def test_json_is_asked_for_and_read() -> None:
    with fake_ras(json=json_answer({HASH: [json_rank(0, ME), json_rank(1, ME + 1)]})) as server:
        said = sensor(server).sample(100.0, RANKS, outstanding=True)
    assert server.commands == ["timeout 1", "set format json", "verbose status"]
    assert said is not None and (said.error, said.form, said.address) == (None, "json", server.address)
    assert [rank.ours for rank in said.communicators[0].ranks] == [True, False]


def test_an_older_nccl_answers_in_text() -> None:
    warnings = """\
#0-0 (00005bd3c1e2a0f4) MISMATCH
  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 7
  Rank 2 has launched up to operation 6 -- GPU 2 managed by process %d on node 127.0.0.1

"""
    with fake_ras(text=text_answer(warnings=warnings % ME, what="MISMATCH")) as server:
        watched = sensor(server)
        first = watched.sample(100.0, RANKS, outstanding=True)
        second = watched.sample(100.0 + POLL_S, RANKS, outstanding=True)
    assert first is not None and second is not None and second.form == "text"
    (late,) = late_ranks(first, second)
    assert (late.rank, late.ours, late.launched, late.most) == (2, True, 6, 7)


def test_a_stopped_peer_is_named() -> None:
    answer = json_answer({HASH: [json_rank(0, ME)]}, {HASH: [json_missing(1, ME + 1)]})
    with fake_ras(json=answer) as server:
        said = sensor(server).sample(100.0, RANKS, outstanding=True)
    assert said is not None and said.timeouts == 1
    assert [rank.state for rank in said.communicators[0].ranks] == ["running", "no-answer"]


def test_it_is_asked_only_while_something_is_outstanding_and_not_too_often() -> None:
    with fake_ras(json=json_answer({HASH: [json_rank(0, ME)]})) as server:
        watched = sensor(server)
        assert watched.sample(100.0, RANKS, outstanding=False) is None
        assert watched.sample(100.0, [], outstanding=True) is None
        assert server.commands == []
        first = watched.sample(100.0, RANKS, outstanding=True)
        assert watched.sample(100.0 + POLL_S - 0.1, RANKS, outstanding=True) is first
        assert watched.sample(100.0 + POLL_S, RANKS, outstanding=False) is first
        assert server.commands.count("verbose status") == 1
        watched.sample(100.0 + POLL_S, RANKS, outstanding=True)
        assert server.commands.count("verbose status") == 2


def test_another_jobs_answer_is_not_believed() -> None:
    with fake_ras(json=json_answer({HASH: [json_rank(0, ME + 1)]})) as server:
        said = sensor(server).sample(100.0, RANKS, outstanding=True)
    assert said is not None and said.communicators == ()
    assert said.error is not None and "another job" in said.error


def test_another_jobs_communicators_are_left_out() -> None:
    answer = json_answer({"0xaa": [json_rank(0, ME + 1)], "0xbb": [json_rank(0, ME)]})
    with fake_ras(json=answer) as server:
        said = sensor(server).sample(100.0, RANKS, outstanding=True)
    assert said is not None and said.error is None
    assert [one.id[-2:] for one in said.communicators] == ["bb"]


def test_processes_of_other_nodes_cannot_be_told() -> None:
    ranks = [json_rank(0, ME, host="10.0.0.1"), json_rank(1, ME, host="10.0.0.2")]
    with fake_ras(json=json_answer({HASH: ranks})) as server:
        said = sensor(server).sample(100.0, RANKS, outstanding=True)
    assert said is not None
    assert [rank.ours for rank in said.communicators[0].ranks] == [True, None]


def test_the_address_is_read_from_the_environment_of_a_real_process() -> None:
    with fake_ras(json=json_answer({HASH: [json_rank(0, ME)]})) as server:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", "print(flush=True); input()"],
            env={"NCCL_RAS_ADDR": server.address},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            process.stdout.readline()
            rank = Process(process.pid, proc.start_time(process.pid) or 0.0, "scheduler", rank="TP0")
            said = RasSensor(None).sample(100.0, [rank], outstanding=True)
        finally:
            process.kill()
            process.communicate()
    assert said is not None and said.address == server.address
    assert said.error is not None and "another job" in said.error, "the answer names us, not that process"


def test_the_launcher_is_asked_where_a_title_has_wiped_the_ranks_environment() -> None:
    with fake_ras(json=json_answer({HASH: [json_rank(0, ME)]})) as server:
        environs = {1: {"NCCL_RAS_ADDR": server.address}}
        said = RasSensor(1, environ=environs.get).sample(100.0, RANKS, outstanding=True)
    assert said is not None and said.address == server.address and said.error is None


def test_without_a_variable_the_default_address_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuse(address: str) -> str:
        asked.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(ras, "ask", refuse)
    said = RasSensor(None, environ=lambda pid: None).sample(100.0, RANKS, outstanding=True)
    assert asked == ["localhost:28028"]
    assert said is not None and said.error is not None and "2.24" in said.error


def test_a_ras_that_is_turned_off_is_not_asked() -> None:
    with fake_ras() as server:
        said = sensor(server, NCCL_RAS_ENABLE="0").sample(100.0, RANKS, outstanding=True)
        assert server.commands == []
    assert said is not None and said.error is not None and "NCCL_RAS_ENABLE=0" in said.error


def test_another_network_namespace_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "namespace", lambda pid, kind: f"net:[{pid}]")
    with fake_ras() as server:
        said = sensor(server).sample(100.0, RANKS, outstanding=True)
        assert server.commands == []
    assert said is not None and said.error is not None and "namespace" in said.error


def closes(connection: socket.socket) -> None:
    connection.recv(100)


def speaks_http(connection: socket.socket) -> None:
    connection.recv(100)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def never_ends_a_line(connection: socket.socket) -> None:
    connection.sendall(b"x" * 10_000)
    connection.recv(100)


def speaks_no_status(connection: socket.socket) -> None:
    for _ in range(2):
        connection.recv(100)
        connection.sendall(b"OK\n")
    connection.recv(100)


@pytest.mark.parametrize(
    "behaviour, words",
    [
        (closes, "does not speak"),
        (speaks_http, "does not speak"),
        (never_ends_a_line, "does not speak"),
        (speaks_no_status, "empty answer"),
    ],
)
def test_strangers_at_the_port(behaviour: object, words: str) -> None:
    with fake_ras() as server:
        server.raw = behaviour  # type: ignore[assignment]
        said = sensor(server).sample(100.0, RANKS, outstanding=True)
    assert said is not None and said.error is not None and words in said.error


def test_a_server_that_never_answers_ends_by_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ras, "ANSWER_S", 0.05)
    with fake_ras(json="{}") as server:
        server.hold = threading.Event()
        said = sensor(server).sample(100.0, RANKS, outstanding=True)
    assert said is not None and said.error == "no answer in time"


def test_a_server_that_never_says_ok_ends_by_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ras, "REPLY_S", 0.05)
    held = threading.Event()
    with fake_ras() as server:
        server.raw = lambda connection: held.wait() and None
        said = sensor(server).sample(100.0, RANKS, outstanding=True)
        held.set()
    assert said is not None and said.error == "no answer in time"


def test_a_port_where_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            ask(f"127.0.0.1:{free.getsockname()[1]}")


@pytest.mark.parametrize(
    "address, wanted",
    [("localhost:28028", ("localhost", 28028)), ("[::1]:5", ("::1", 5)), ("10.0.0.1:65535", ("10.0.0.1", 65535))],
)
def test_addresses(address: str, wanted: tuple[str, int]) -> None:
    assert split_address(address) == wanted


@pytest.mark.parametrize("address", ["", "localhost", ":1", "h:", "h:0", "h:65536", "h:x"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="no host:port"):
        split_address(address)
