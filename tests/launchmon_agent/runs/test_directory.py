"""A run's directory, the list of runs, and the socket's place."""

from __future__ import annotations

import json
import os
import stat

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.runs import directory as directories
from launchmon_agent.runs.directory import ProcessId, RunFile, create, find, runs, slug, state_root
from launchmon_agent.runs.sockets import socket_directory, socket_path
from launchmon_agent.runs.whereabouts import this_machine

ARGV = ("python", "-m", "sglang.launch_server", "--model-path", "/models/Kimi-K2.5", "--api-key", "k")
NOON = 1764417600.0  # 2025-11-29 12:00:00 UTC


@pytest.fixture
def root(tmp_path) -> str:
    return str(tmp_path / "state" / "launchmon" / "runs")


def mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_an_id_is_time_and_model_and_everything_is_private(root: str) -> None:
    made = create(ARGV, root=root, clock=lambda: NOON)
    assert made.id == "20251129-120000-kimi-k2-5"
    assert [mode(path) for path in (root, made.path)] == [0o700, 0o700]
    assert mode(os.path.join(made.path, "run.json")) == 0o600


def test_two_runs_of_one_second_are_two_runs(root: str) -> None:
    first = create(ARGV, root=root, clock=lambda: NOON)
    second = create(ARGV, root=root, clock=lambda: NOON)
    assert second.id == f"{first.id}-2"
    assert [found.id for found, _ in runs(root)] == [second.id, first.id]


def test_what_is_written_is_read_back(root: str) -> None:
    made = create(ARGV, name="night", root=root, clock=lambda: NOON, cwd="/w", env={"A": "1", "B": None})
    made.update(server=ProcessId(7, 1.5), attempt=2)
    assert made.read() == RunFile(
        id="20251129-120000-night",
        argv=ARGV,
        created=NOON,
        name="night",
        series="20251129-120000-night",
        cwd="/w",
        env={"A": "1", "B": None},
        server=ProcessId(7, 1.5),
        attempt=2,
        machine=this_machine(),
    )


def test_a_failed_write_keeps_the_old_file(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = create(ARGV, root=root)
    before = made.read()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(directories.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        made.update(attempt=9)
    assert made.read() == before
    assert os.listdir(made.path) == ["run.json"]


def test_garbage_is_passed_over(root: str) -> None:
    good = create(ARGV, root=root, clock=lambda: NOON)
    for name, content in {
        "20251130-120000-empty": None,
        "20251130-120001-torn": '{"id": "x", "ar',
        "20251130-120002-wrong": json.dumps({"id": 3, "argv": "no", "created": None}),
        "20251130-120003-list": "[]",
    }.items():
        os.mkdir(os.path.join(root, name))
        if content is not None:
            with open(os.path.join(root, name, "run.json"), "w") as file:
                file.write(content)
    with open(os.path.join(root, "20251130-120004-file"), "w") as file:
        file.write("")
    os.mkdir(os.path.join(root, "notes"))
    os.symlink("/nonexistent", os.path.join(root, "20251130-120005-link"))
    assert [found.id for found, _ in runs(root)] == [good.id]


def test_fields_of_a_newer_version_are_no_hindrance(root: str) -> None:
    made = create(ARGV, root=root)
    path = os.path.join(made.path, "run.json")
    with open(path) as file:
        body = json.load(file)
    body["from_the_future"] = {"a": 1}
    with open(path, "w") as file:
        json.dump(body, file)
    found = made.read()
    assert found is not None
    assert found.argv == ARGV


def test_finding_by_id_name_or_part(root: str) -> None:
    first = create(ARGV, name="night", root=root, clock=lambda: NOON)
    second = create(ARGV, name="night", root=root, clock=lambda: NOON + 60)
    other = create(ARGV, name="day", root=root, clock=lambda: NOON + 120)

    def found(text: str) -> str | None:
        directory = find(text, root)
        return directory.id if directory else None

    assert found(first.id) == first.id
    assert found("night") == second.id, "the newest of a name"
    assert found("120200") == other.id
    assert found("20251129") is None, "a part that several share names none"
    assert found("nothing") is None


def test_no_runs_yet(root: str) -> None:
    assert list(runs(root)) == []
    assert find("x", root) is None


def test_a_place_that_cannot_be_written_is_refused(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused) as refused:
        create(ARGV, root=str(tmp_path / "file" / "runs"))
    assert "XDG_STATE_HOME" in refused.value.try_


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_STATE_HOME": "/s"}, "/s/launchmon/runs"),
        ({"XDG_STATE_HOME": "relative"}, os.path.expanduser("~/.local/state/launchmon/runs")),
        ({}, os.path.expanduser("~/.local/state/launchmon/runs")),
    ],
)
def test_state_root(environ: dict[str, str], expected: str) -> None:
    assert state_root(environ) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/models/Kimi-K2.5/", "kimi-k2-5"),
        ("org/Qwen3_8B", "qwen3-8b"),
        ("../..", "run"),
        ("é", "run"),
        ("a" * 99, "a" * 32),
    ],
)
def test_slug(text: str, expected: str) -> None:
    assert slug(text) == expected


def test_the_socket_lies_in_the_runtime_directory(tmp_path) -> None:
    made = socket_directory({"XDG_RUNTIME_DIR": str(tmp_path)})
    assert made == str(tmp_path / "launchmon")
    assert mode(made) == 0o700


def test_a_socket_is_named_by_the_directory_of_its_run() -> None:
    made = "/run/user/1000/launchmon"
    path = socket_path("/s/20251129-120000-x", made)
    assert path.startswith(f"{made}/20251129-120000-x-") and path.endswith(".sock")
    assert path == socket_path("/s/20251129-120000-x", made)
    assert path != socket_path("/t/20251129-120000-x", made), "a run of the same id in another state directory"


@pytest.mark.parametrize("runtime", ["", "/nonexistent/runtime", "relative"])
def test_without_a_runtime_directory_it_lies_in_tmp(tmp_path, runtime: str) -> None:
    made = socket_directory({"XDG_RUNTIME_DIR": runtime}, tmp=str(tmp_path))
    assert made == str(tmp_path / f"launchmon-{os.geteuid()}")


def test_a_directory_left_open_is_closed(tmp_path) -> None:
    path = tmp_path / f"launchmon-{os.geteuid()}"
    path.mkdir(mode=0o777)
    path.chmod(0o777)
    assert mode(socket_directory({}, tmp=str(tmp_path))) == 0o700


def test_a_link_in_its_place_is_refused(tmp_path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"launchmon-{os.geteuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused):
        socket_directory({}, tmp=str(tmp_path))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to someone else")
def test_a_directory_of_someone_else_is_refused(tmp_path) -> None:
    path = tmp_path / f"launchmon-{os.geteuid()}"
    path.mkdir(mode=0o700)
    os.chown(path, 65534, 65534)
    with pytest.raises(Refused) as refused:
        socket_directory({}, tmp=str(tmp_path))
    assert str(path) in refused.value.what


def test_a_path_too_long_for_a_socket_is_shortened_or_refused(tmp_path) -> None:
    long_id = "20251129-120000-" + "x" * 100
    short = socket_path(long_id, "/run/user/1000/launchmon")
    assert len(short) <= 107
    assert short == socket_path(long_id, "/run/user/1000/launchmon"), "the same id has the same socket"
    with pytest.raises(Refused):
        socket_path("20251129-120000-x", "/" + "d" * 100)
