"""One path, many fates of the file behind it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.log.source import PATIENCE_S, LogFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def read(log: LogFile) -> bytes:
    return log.content.read_at(0, 1 << 20)


def test_growth_is_no_new_generation(path: Path) -> None:
    path.write_bytes(b"one\n")
    log = LogFile(str(path))
    with path.open("ab") as file:
        file.write(b"two\n" * 1000)
    assert not log.refresh(4, 0.0)
    assert (log.generation, log.content.size(), log.problem) == (0, 4004, None)


def test_a_file_that_comes_late_is_read_then(path: Path) -> None:
    log = LogFile(str(path))
    assert log.problem and "does not exist (yet)" in log.problem
    assert not log.refresh(0, 0.0)
    path.write_bytes(b"here\n")
    assert log.refresh(0, 1.0)
    assert (read(log), log.problem) == (b"here\n", None)


def test_a_renamed_file_is_read_to_its_end_first(path: Path) -> None:
    path.write_bytes(b"old 1\n")
    log = LogFile(str(path))
    with path.open("ab") as writer:
        path.rename(path.with_suffix(".1"))
        path.write_bytes(b"new\n")
        writer.write(b"old 2\n")
        writer.flush()
        assert not log.refresh(consumed=6, now=0.0)
        assert read(log) == b"old 1\nold 2\n"
        assert not log.refresh(consumed=12, now=0.1)  # the first look at the end: it may still move
        writer.write(b"old 3\n")
        writer.flush()
        assert not log.refresh(consumed=12, now=0.2)
    assert not log.refresh(consumed=18, now=0.3)
    assert log.refresh(consumed=18, now=0.4)
    assert (log.generation, read(log)) == (1, b"new\n")


def test_a_replaced_file_that_never_stops_growing_is_left_after_a_while(path: Path) -> None:
    path.write_bytes(b"old\n")
    log = LogFile(str(path))
    with path.open("ab") as writer:
        path.unlink()
        path.write_bytes(b"new\n")
        for second in range(int(PATIENCE_S) + 1):
            assert not log.refresh(log.content.size(), float(second))
            writer.write(b"more\n")
            writer.flush()
        assert log.refresh(log.content.size(), PATIENCE_S + 1)
    assert read(log) == b"new\n"


def test_a_deleted_file_is_read_on(path: Path) -> None:
    path.write_bytes(b"one\n")
    log = LogFile(str(path))
    with path.open("ab") as writer:
        path.unlink()
        writer.write(b"two\n")
    assert not log.refresh(4, 0.0)
    assert read(log) == b"one\ntwo\n"
    assert log.problem and "deleted or moved" in log.problem


def test_a_truncated_file_begins_again(path: Path) -> None:
    path.write_bytes(b"a longer first text\n")
    log = LogFile(str(path))
    path.write_bytes(b"short\n")  # same inode
    assert log.refresh(20, 0.0)
    assert (log.generation, read(log)) == (1, b"short\n")
    assert not log.refresh(6, 0.1)


@pytest.mark.parametrize("length", [20, 21, 5000])
def test_a_file_truncated_and_grown_again_between_two_looks_is_noticed(path: Path, length: int) -> None:
    path.write_bytes(b"[18:00:01] the first\n"[:20])
    log = LogFile(str(path))
    path.write_bytes((b"[18:00:09] another text\n" * 1000)[:length])
    assert log.refresh(20, 0.0)
    assert log.generation == 1


def test_a_hole_left_by_a_writer_that_does_not_append_is_noticed(path: Path) -> None:
    with path.open("wb") as writer:
        writer.write(b"x" * 8192 + b"\n")
        writer.flush()
        log = LogFile(str(path))
        os.truncate(path, 0)
        writer.write(b"after\n")
        writer.flush()
        assert log.refresh(8193, 0.0)
    assert read(log)[log.content.floor :].lstrip(b"\0") == b"after\n"


def test_the_head_is_remembered_while_the_file_is_short(path: Path) -> None:
    path.write_bytes(b"")
    log = LogFile(str(path))
    for part in (b"a\n", b"b\n", b"c\n"):
        with path.open("ab") as file:
            file.write(part)
        assert not log.refresh(0, 0.0)
    path.write_bytes(b"A\nb\nc\n")
    assert log.refresh(0, 0.0)


def test_a_path_of_proc_works_also_when_its_file_is_deleted(path: Path) -> None:
    with path.open("wb") as writer:
        writer.write(b"by descriptor\n")
        writer.flush()
        path.unlink()
        log = LogFile(f"/proc/{os.getpid()}/fd/{writer.fileno()}")
        assert not log.refresh(0, 0.0)
        assert read(log) == b"by descriptor\n"
        assert log.problem is None
    assert not log.refresh(14, 1.0)
    assert read(log) == b"by descriptor\n"


def test_a_reader_of_the_old_generation_is_not_disturbed(path: Path) -> None:
    path.write_bytes(b"old\n")
    log = LogFile(str(path))
    before = log.content
    path.unlink()
    path.write_bytes(b"new\n")
    log.refresh(4, 0.0)
    assert log.refresh(4, 0.1)
    assert (before.generation, before.read_at(0, 10)) == (0, b"old\n")
    assert (log.content.generation, read(log)) == (1, b"new\n")


# ------------------------------------------------------------------------------------------------------------- refused


@pytest.fixture
def sock(tmp_path: Path) -> Iterator[Path]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        yield tmp_path / "s"


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is a directory, not a file") as refused:
        LogFile(str(tmp_path))
    assert refused.value.cause and refused.value.try_.startswith("ls -l ")


def test_a_fifo_is_refused_and_not_opened(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(Refused, match="is a pipe, not a file") as refused:
        LogFile(str(fifo))
    assert "--log-command" in refused.value.try_
    with pytest.raises(OSError, match="No such device or address"):  # ENXIO: nobody has it open for reading
        os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)


def test_other_things_are_refused_by_name(sock: Path) -> None:
    with pytest.raises(Refused, match="is a socket"):
        LogFile(str(sock))
    with pytest.raises(Refused, match="is a terminal or device"):
        LogFile("/dev/null")


def test_an_unreadable_file_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"x")

    def denied(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", denied)  # root, who may run the tests, may read everything
    with pytest.raises(Refused, match="is not readable") as refused:
        LogFile(str(path))
    assert "ls -ld" in refused.value.try_


def test_what_replaces_the_file_later_is_explained_and_the_old_one_kept(path: Path) -> None:
    path.write_bytes(b"old\n")
    log = LogFile(str(path))
    path.unlink()
    path.mkdir()
    for look in range(4):
        assert not log.refresh(4, float(look))
    assert log.problem and "not a regular file" in log.problem
    assert read(log) == b"old\n"


def test_a_loop_of_links_is_refused(path: Path) -> None:
    path.symlink_to(path)
    with pytest.raises(Refused, match="too many levels"):
        LogFile(str(path))


def test_the_name_of_a_file_is_the_same_for_every_reader_and_another_for_another_beginning(path: Path) -> None:
    path.write_bytes(b"unfinished")
    log = LogFile(str(path))
    assert log.identity is None
    path.write_bytes(b"unfinished line\nand more\n")
    log.refresh(0, 0.0)
    assert log.identity is not None and log.identity == LogFile(str(path)).identity
    before = log.identity
    path.write_bytes(b"another line\n" * 9)  # truncated in place: the inode is the same
    assert LogFile(str(path)).identity not in (None, before)
