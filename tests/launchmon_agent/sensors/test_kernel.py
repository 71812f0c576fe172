"""Kernel messages: what they say, whose they are, and where they come from."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from launchmon_agent.events import Kernel, Notice
from launchmon_agent.sensors import kernel, proc
from launchmon_agent.sensors.kernel import (
    JOURNAL_S,
    Journal,
    KernelSensor,
    Kmsg,
    Message,
    classify,
    parse_journal,
    parse_record,
)
from launchmon_agent.sensors.tables import rows
from tests.support.waiting import until

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=sglang::schedul, GPU has fallen off the bus."
OOM = "Out of memory: Killed process 4711 (sglang::schedul) total-vm:1kB, anon-rss:2kB, UID:0 oom_score_adj:0"
OOM_DETAIL = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,global_oom,task=python3,pid=4711,uid=0"
SEGFAULT = "python3[4711]: segfault at 8 ip 00007f3 sp 00007ff error 4 in libtorch_cpu.so[7f0+1] likely on CPU 3"


@pytest.mark.parametrize(
    "text, what, pid",
    [
        (XID, "xid", 4711),
        ("NVRM: Xid (PCI:0000:3b:00): 13, pid='<unknown>', name=<unknown>, Graphics Exception", "xid", None),
        ("NVRM: Xid (PCI:0000:3b:00): 119, Timeout after 6s of waiting for RPC response", "xid", None),
        ("[  9.1] NVRM: Xid (0000:3b:00): 48, DBE", "xid", None),
        ("NVRM: GPU at PCI:0000:3b:00: GPU-x has fallen off the bus.", "nvrm", None),
        ("NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x65:1457)", "nvrm", None),
        ("NVRM: API mismatch: the client has the version 1, but", "nvrm", None),
        ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05", None, None),
        (OOM, "oom-kill", 4711),
        ("Memory cgroup out of memory: Killed process 99 (python3) total-vm:1kB", "oom-kill", 99),
        ("Out of memory: Kill process 99 (a (b) c) score 900 or sacrifice child", "oom-kill", 99),
        (OOM_DETAIL, "oom-kill", 4711),
        (SEGFAULT, "segfault", 4711),
        ("traps: python3[12] general protection fault ip:7f sp:7f error:0 in libc.so.6", "segfault", 12),
        ("traps: pt_main_thread[12] trap invalid opcode ip:7f sp:7f error:0", "segfault", 12),
        ("eth0: link up", None, None),
        ("", None, None),
    ],
)
def test_messages(text: str, what: str | None, pid: int | None) -> None:
    found = classify(text)
    assert (found[0], found[2]) == (what, pid) if what else found is None, found


@pytest.mark.parametrize("row", rows("kernel.table", 3), ids=lambda row: f"{row[0]}-{row[2][:20]}")
def test_each_row(row: list[str]) -> None:
    what, whose, expression = row
    assert what in ("xid", "nvrm", "oom-kill", "segfault")
    assert whose in ("any", "ours")
    assert (whose == "any") == (what in ("xid", "nvrm"))
    assert ("(?P<pid>" in expression) or whose == "any", "whose it is can be told"


class Given:
    """A reader that has these messages, a list for each read."""

    def __init__(self, *messages: list[Message], failure: str | None = None) -> None:
        self.messages = list(messages)
        self.failure = failure
        self.closed = False

    def read(self, now: float) -> Iterable[Message]:
        return self.messages.pop(0) if self.messages else []

    def close(self) -> None:
        self.closed = True


def test_trouble_of_the_machine_is_always_told_and_that_of_others_never() -> None:
    texts = [XID, OOM.replace("sglang::schedul", "postgres"), SEGFAULT, "eth0: link up"]
    reader = Given([Message(5.0, text) for text in texts])
    assert KernelSensor(readers=[reader]).poll(9.0, [1, 2]) == [Kernel(5.0, what="xid", text=XID, pid=4711)]


def test_our_processes_also_after_their_end() -> None:
    sensor = KernelSensor(readers=[Given([], [Message(5.0, SEGFAULT)])])
    assert sensor.poll(1.0, [4711]) == []
    assert sensor.poll(6.0, []) == [Kernel(5.0, what="segfault", text=SEGFAULT, pid=4711)]


def test_a_title_tells_ours_where_pids_differ() -> None:
    sensor = KernelSensor(readers=[Given([Message(5.0, OOM)])])
    assert [event.text for event in sensor.poll(6.0, [17])] == [OOM]


def test_one_kill_is_told_once() -> None:
    pair = [Message(5.0, OOM_DETAIL), Message(5.01, OOM)]
    sensor = KernelSensor(readers=[Given(pair, [Message(500.0, OOM)])])
    assert [event.text for event in sensor.poll(6.0, [4711])] == [OOM_DETAIL]
    assert len(sensor.poll(501.0, [4711])) == 1, "a later process with the same pid"


def test_messages_from_before_the_run_are_left_out() -> None:
    sensor = KernelSensor(since=100.0, readers=[Given([Message(99.0, XID), Message(101.0, XID)])])
    assert [event.at for event in sensor.poll(200.0, [])] == [101.0]


def test_a_long_message_is_cut() -> None:
    (event,) = KernelSensor(readers=[Given([Message(1.0, XID + "x" * 5000)])]).poll(2.0, [])
    assert isinstance(event, Kernel)
    assert len(event.text) == 500


def test_the_next_reader_is_tried_and_the_last_failure_is_told_once() -> None:
    first, second = Given(failure="refused"), Given([Message(1.0, XID)])
    sensor = KernelSensor(readers=[first, second])
    assert len(sensor.poll(2.0, [])) == 1
    assert first.closed
    second.failure = "journalctl: not there"
    (notice,) = sensor.poll(3.0, [])
    assert notice == Notice(
        3.0, source="kernel", text="kernel messages (Xid, OOM kills) cannot be read: refused; journalctl: not there"
    )
    assert sensor.poll(4.0, []) == []
    sensor.close()


# ----------------------------------------------------------------------------------------------------------- the device


@pytest.mark.parametrize(
    "record, message",
    [
        ("6,339,5140900,-;NVRM: loading\n SUBSYSTEM=pci\n DEVICE=+pci:0000\n", Message(1005.1409, "NVRM: loading")),
        ("4,340,1000000,c;a;b\\x09c\n", Message(1001.0, "a;b\tc")),
        ("12,341,1000000,-;NVRM: Xid written by root\n", None),
        ("no record", None),
        (";", None),
        ("x,1,y,-;z", None),
    ],
)
def test_records(record: str, message: Message | None) -> None:
    assert parse_record(record, 1000.0) == message


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, Kmsg]]:
    """Reads as from the device: a record each, and none without waiting."""
    writer, reader = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reader.setblocking(False)
    with monkeypatch.context() as patch:
        patch.setattr(kernel.os, "open", lambda path, flags: os.dup(reader.fileno()))
        patch.setattr(kernel.os, "lseek", lambda *where: 0)
        source = Kmsg()
    yield writer, source
    source.close()
    source.close()
    writer.close()
    reader.close()


def test_new_messages_come_one_by_one(device: tuple[socket.socket, Kmsg]) -> None:
    writer, source = device
    now, running = 2000.0, time.clock_gettime(time.CLOCK_MONOTONIC)
    assert list(source.read(now)) == []
    for text in (XID, OOM):
        writer.send(f"4,1,{int((running - 10) * 1e6)},-;{text}\n".encode())
    found = list(source.read(now))
    assert [message.text for message in found] == [XID, OOM]
    assert found[0].at == pytest.approx(now - 10, abs=5)
    assert list(source.read(now)) == []
    assert source.failure is None


def test_overwritten_messages_are_skipped(device: tuple[socket.socket, Kmsg], monkeypatch: pytest.MonkeyPatch) -> None:
    _, source = device
    results = iter([BrokenPipeError(), b"4,1,1,-;a\n", BlockingIOError()])

    def read(descriptor: int, size: int) -> bytes:
        result = next(results)
        if isinstance(result, OSError):
            raise result
        return result

    monkeypatch.setattr(kernel.os, "read", read)
    assert [message.text for message in source.read(1.0)] == ["a"]


def test_a_device_that_is_refused_or_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    absent = Kmsg(path=str(tmp_path / "none"))
    assert absent.failure is not None and "No such file" in absent.failure
    assert list(absent.read(1.0)) == []
    directory = Kmsg(path=str(tmp_path))
    assert list(directory.read(1.0)) == []
    assert directory.failure is not None
    directory.close()


def test_a_device_that_nobody_reads_any_more_is_let_go(tmp_path: Path) -> None:
    (tmp_path / "kmsg").write_bytes(b"")
    source = Kmsg(path=str(tmp_path / "kmsg"))
    held = [path for path in (proc.fd_links(os.getpid()) or {}).values() if path == str(tmp_path / "kmsg")]
    assert source.failure is None and len(held) == 1
    del source
    assert str(tmp_path / "kmsg") not in (proc.fd_links(os.getpid()) or {}).values()


def test_this_machines_device() -> None:
    source = Kmsg(since=0.0)
    if source.failure:
        pytest.skip(source.failure)
    found = list(source.read(time.time()))
    source.close()
    assert found
    assert all(message.at <= time.time() + 5 for message in found)


# ---------------------------------------------------------------------------------------------------------- the journal


def journalctl(folder: Path, script: str) -> str:
    path = folder / "journalctl"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def read(source: Journal, now: float) -> list[Message]:
    """Start, and fetch what it finds."""
    assert list(source.read(now)) == []
    found: list[Message] = []

    def finished() -> bool:
        found.extend(source.read(now))
        return source._running is None

    until(finished)
    return found


def test_the_journal(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text(f"-- Boot x --\n1000.5 host kernel: {XID}\n990.0 host kernel: old\n")
    script = f'echo "$@" >> {tmp_path}/asked; cat {tmp_path}/lines'
    source = Journal(since=995.0, command=journalctl(tmp_path, script))
    assert read(source, 2000.0) == [Message(1000.5, XID)]
    assert list(source.read(2001.0)) == [], "not each second"
    assert read(source, 2000.0 + JOURNAL_S) == [], "what was told is not told again"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split("--since=")[1] for line in asked] == ["@995.000000", "@1000.500000"]
    assert "-k" in asked[0]


@pytest.mark.parametrize(
    "script, words",
    [
        ("echo 'No journal files were found.' >&2", "No journal files were found"),
        ("echo 'Hint: You are currently not seeing messages from other users and the system.' >&2", "not seeing"),
        ("exit 1", "it fails"),
    ],
)
def test_a_journal_that_is_of_no_use(tmp_path: Path, script: str, words: str) -> None:
    source = Journal(command=journalctl(tmp_path, script))
    assert read(source, 1.0) == []
    assert source.failure is not None and words in source.failure


def test_a_journal_that_is_not_there(tmp_path: Path) -> None:
    source = Journal(command=str(tmp_path / "journalctl"))
    assert list(source.read(1.0)) == []
    assert source.failure is not None and "No such file" in source.failure
    source.close()


def test_a_journal_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    source = Journal(command=journalctl(tmp_path, "exec sleep 60"))
    source.read(1.0)
    running = source._running
    assert running is not None
    assert list(source.read(2.0)) == []
    assert source.failure is None
    source.read(20.0)
    assert source.failure is not None and "too long" in source.failure
    source.close()
    assert running.process.returncode == -9


@pytest.mark.parametrize(
    "line, message",
    [
        ("1764439200.123456 gpu7 kernel: NVRM: x: y", Message(1764439200.123456, "NVRM: x: y")),
        ("1764439200.123456 gpu7 systemd[1]: kernel: no", None),
        ("-- No entries --", None),
        ("", None),
    ],
)
def test_lines_of_the_journal(line: str, message: Message | None) -> None:
    assert parse_journal(line) == message
