"""Readers of ``/proc``: each answers about one process or one socket, and none raises for a process that is gone.

psutil does the same more slowly, hides fields needed here (field 52 of ``stat``, RssAnon, the session) and differs
between the versions found on servers. Layouts are those of proc(5).
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Container
from typing import NamedTuple

from launchmon_agent.machine import boot_time
from launchmon_agent.sensors import sockdiag

TICKS = os.sysconf("SC_CLK_TCK")
"""Clock ticks a second: the unit of times in ``stat``."""

PROC = "/proc"

SAME_S = 1.5
"""Seconds by which one process's start time may differ between two readers: each derives it from its own reading of the
boot time, which the kernel gives in whole seconds."""

_CHUNK = 64 * 1024


class Stat(NamedTuple):
    """``/proc/PID/stat``. Times are in :data:`TICKS`, ``c…`` counts belong to children that were waited for."""

    pid: int
    comm: str
    state: str
    ppid: int
    pgrp: int
    session: int
    major_faults: int
    utime: int
    stime: int
    cutime: int
    cstime: int
    threads: int
    start_ticks: int
    readable: bool  # the kernel shows us the fields that need permission (field 35 of a sleeper or a zombie is then 1)
    exit_status: int  # as from wait(2); 0 also where it is not shown

    @property
    def dead(self) -> bool:
        """Ended, though its entry is still there. A main thread that ended before its other threads is Z and alive."""
        return self.state in "ZX" and self.threads <= 1

    @property
    def start_time(self) -> float:
        return boot_time() + self.start_ticks / TICKS

    @property
    def exit_code(self) -> int | None:
        """Of a zombie: as the shell gives it, -N for signal N. None where the kernel hides it (another user's)."""
        if not self.dead or (self.exit_status == 0 and not self.readable):
            return None
        return os.waitstatus_to_exitcode(self.exit_status)


class Memory(NamedTuple):
    """What is of use in ``/proc/PID/status``. Sizes in bytes; the kernel leaves the sizes out for a zombie."""

    anon: int | None
    file: int | None
    shmem: int | None
    context_switches: int | None  # of the main thread, voluntary and not
    nspid: tuple[int, ...]  # the pid as each nested pid namespace sees it, ours first


def read(path: str, limit: int | None = None) -> bytes | None:
    """The content of a file, at most ``limit`` bytes. None when it cannot be read, for whatever reason."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    parts, size = [], 0
    try:
        while limit is None or size < limit:
            part = os.read(descriptor, _CHUNK)
            if not part:
                break
            parts.append(part)
            size += len(part)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return b"".join(parts)[:limit]


def pids() -> list[int]:
    """Every process that this pid namespace shows, unordered."""
    return [int(name) for name in os.listdir(PROC) if name.isdigit()]


def newest_pid() -> int | None:
    """The pid, of a thread too, that was given out last in our namespace (proc_loadavg(5)). None: not told."""
    last = (read(f"{PROC}/loadavg") or b"").split()[4:5]
    return int(last[0]) or None if last and last[0].isdigit() else None


def stat(pid: int) -> Stat | None:
    """None when the process is gone."""
    return stat_of(f"{PROC}/{pid}")


def stat_of(folder: str) -> Stat | None:
    """Of a process or of one thread (``/proc/PID/task/TID``). None when it is gone."""
    data = read(f"{folder}/stat")
    return None if not data else parse_stat(data)


def foreground(pid: int) -> int | None:
    """The process group in the foreground of this process's terminal; None where it has none, or cannot be seen."""
    fields = (read(f"{PROC}/{pid}/stat") or b"").rpartition(b")")[2].split()
    group = int(fields[5]) if len(fields) > 5 else 0
    return group if group > 0 else None


def parse_stat(data: bytes) -> Stat | None:
    """``data`` is the whole file. The name may hold spaces and brackets, hence the search for the last one."""
    opening, closing = data.find(b"("), data.rfind(b")")
    fields = data[closing + 2 :].split()
    if opening < 0 or closing < 0 or len(fields) < 20:
        return None
    return Stat(
        pid=int(data[:opening]),
        comm=data[opening + 1 : closing].decode("utf-8", "replace"),
        state=fields[0].decode("ascii"),
        ppid=int(fields[1]),
        pgrp=int(fields[2]),
        session=int(fields[3]),
        major_faults=int(fields[9]),
        utime=int(fields[11]),
        stime=int(fields[12]),
        cutime=int(fields[13]),
        cstime=int(fields[14]),
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
        readable=len(fields) > 32 and fields[32] == b"1",
        exit_status=int(fields[49]) if len(fields) > 49 else 0,
    )


def start_time(pid: int) -> float | None:
    """Seconds since the epoch, to the tick. With the pid it names one process for ever. None: gone."""
    found = stat(pid)
    return None if found is None else found.start_time


def same_process(pid: int, start_time: float) -> bool:
    """Whether ``pid`` still is (perhaps as a zombie) the process that began at ``start_time``."""
    found = stat(pid)
    return found is not None and abs(found.start_time - start_time) < SAME_S


def alive(pid: int, start_time: float) -> bool:
    """As :func:`same_process`, and not a zombie."""
    found = stat(pid)
    return found is not None and not found.dead and abs(found.start_time - start_time) < SAME_S


def cmdline(pid: int) -> list[str]:
    """The arguments; after setproctitle, the title alone. Empty for a kernel thread, a zombie and what is gone."""
    data = read(f"{PROC}/{pid}/cmdline")
    if not data:
        return []
    return data.rstrip(b"\0").decode("utf-8", "surrogateescape").split("\0") if data.strip(b"\0") else []


def wait_for_exec(pid: int, timeout_s: float = 1.0) -> None:
    """Until the arguments and the environment of a process that was started a moment ago can be read, or it is dead.

    ``subprocess.Popen`` returns when the kernel closes the descriptors of the child, in the middle of its exec: for
    some microseconds, and longer on a busy machine, ``/proc/PID/cmdline`` and ``environ`` are empty then.
    """
    end = time.monotonic() + timeout_s
    while not cmdline(pid) and time.monotonic() < end:
        found = stat(pid)
        if found is None or found.dead:
            return
        time.sleep(0.001)


def environ(pid: int) -> dict[str, str] | None:
    """None when it is not known: refused, gone, or overwritten by setproctitle, which may use its memory."""
    data = read(f"{PROC}/{pid}/environ")
    if not data or b"=" not in data:
        return None
    pairs = (entry.partition("=") for entry in data.decode("utf-8", "surrogateescape").split("\0"))
    return {name: value for name, equals, value in pairs if name and equals}


def limits(pid: int) -> dict[str, int]:
    """Limits of a process that keep a server from working, by name; one that is not set or not readable is left out.

    Of open files the hard one, up to which SGLang raises the other; of locked memory the one in force, in bytes.
    """
    found = {}
    for line in (read(f"{PROC}/{pid}/limits") or b"").decode("ascii", "replace").splitlines():
        for title, name, column in (("Max open files", "open-files", 1), ("Max locked memory", "locked-memory", 0)):
            if line.startswith(title):
                value = line[len(title) :].split()[column]
                if value.isdigit():
                    found[name] = int(value)
    return found


def memory(pid: int) -> Memory | None:
    """From ``status``: cheap at any size of process, which ``smaps`` is not. None when the process is gone."""
    data = read(f"{PROC}/{pid}/status")
    return None if not data else parse_memory(data)


def parse_memory(data: bytes) -> Memory:
    """``data`` is the whole file."""

    def size(name: bytes) -> int | None:
        kilobytes = number_after(data, name)
        return None if kilobytes is None else kilobytes * 1024

    voluntary, other = (
        number_after(data, b"\nvoluntary_ctxt_switches:"),
        number_after(data, b"\nnonvoluntary_ctxt_switches:"),
    )
    place = data.find(b"\nNSpid:")
    return Memory(
        size(b"\nRssAnon:"),
        size(b"\nRssFile:"),
        size(b"\nRssShmem:"),
        None if voluntary is None or other is None else voluntary + other,
        () if place < 0 else tuple(map(int, data[place + 7 : data.find(b"\n", place + 1)].split())),
    )


def io_bytes(pid: int) -> tuple[int, int] | None:
    """Bytes read from and written to storage so far, page cache excluded. None: refused (another user's) or gone."""
    return parse_io(read(f"{PROC}/{pid}/io"))


def parse_io(data: bytes | None) -> tuple[int, int] | None:
    """``data`` is the whole file; see :func:`io_bytes`."""
    read_bytes, written = number_after(data or b"", b"\nread_bytes:"), number_after(data or b"", b"\nwrite_bytes:")
    return None if read_bytes is None or written is None else (read_bytes, written)


def number_after(data: bytes, name: bytes) -> int | None:
    """The number that stands after these words. A few searches from C are far faster than a loop over all lines."""
    place = data.find(name)
    return None if place < 0 else int(data[place + len(name) : data.find(b"\n", place + 1)].split(None, 1)[0])


def wchan(pid: int) -> str | None:
    """The kernel function the main thread sleeps in. None: it runs, or the kernel does not say."""
    return parse_wchan(read(f"{PROC}/{pid}/wchan"))


def parse_wchan(data: bytes | None) -> str | None:
    """``data`` is the whole file; see :func:`wchan`."""
    name = (data or b"").strip().decode("ascii", "replace")
    return None if name in ("", "0") else name


def syscall(pid: int) -> int | None:
    """Number of the system call the main thread is in. None: it runs, or we may not trace it."""
    return parse_syscall(read(f"{PROC}/{pid}/syscall"))


def parse_syscall(data: bytes | None) -> int | None:
    """``data`` is the whole file; see :func:`syscall`."""
    first = (data or b"").split(None, 1)[:1]
    return int(first[0]) if first and first[0].isdigit() else None


def fd_links(pid: int, besides: Container[int] = ()) -> dict[int, str] | None:
    """What each descriptor points to: a path, ``pipe:[…]``, ``socket:[…]``. None when refused or gone.

    ``besides``: those that need not be looked at.
    """
    folder = f"{PROC}/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    links = {int(name): _link(f"{folder}/{name}") for name in names if int(name) not in besides}
    return {number: link for number, link in links.items() if link is not None}  # without those closed since


def namespace(pid: int | str, kind: str) -> str | None:
    """``net:[4026531833]``: equal for processes that share the namespace. None when refused or gone."""
    return _link(f"{PROC}/{pid}/ns/{kind}")


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


# ---------------------------------------------------------------------------------------------------------------- scans


def table() -> dict[int, Stat]:
    """All processes at about one moment. 10 µs each: for actions, not for the loop."""
    rows = ((pid, stat(pid)) for pid in pids())
    return {pid: row for pid, row in rows if row is not None}


def children(pid: int, rows: dict[int, Stat] | None = None) -> list[Stat]:
    """Direct children in the order in which they were started."""
    rows = table() if rows is None else rows
    return sorted((row for row in rows.values() if row.ppid == pid), key=lambda row: (row.start_ticks, row.pid))


# -------------------------------------------------------------------------------------------------------------- sockets

_LISTEN = b"0A"


def listeners(pid_for_netns: int | str, port: int) -> dict[int, str] | None:
    """TCP sockets that listen on ``port`` in the network namespace of that process: inode → local address.

    None when that cannot be read. Several inodes: several addresses, or SO_REUSEPORT.
    """
    if pid_for_netns == "self" or namespace(pid_for_netns, "net") == namespace("self", "net"):
        found_here = sockdiag.listeners(port)
        if found_here is not None:
            return found_here
    return _listeners_by_text(pid_for_netns, port)


def _listeners_by_text(pid_for_netns: int | str, port: int) -> dict[int, str] | None:
    """In another network namespace, and where there is no netlink: milliseconds, as all connections are listed."""
    wanted = b":%04X" % port
    found: dict[int, str] = {}
    readable = False
    for family in ("tcp", "tcp6"):
        data = read(f"{PROC}/{pid_for_netns}/net/{family}")
        if data is None:
            continue
        readable = True
        if wanted not in data:
            continue
        for line in data.split(b"\n")[1:]:
            fields = line.split(None, 10)
            if len(fields) > 9 and fields[3] == _LISTEN and fields[1].endswith(wanted):
                found[int(fields[9])] = _address(fields[1].partition(b":")[0])
    return found if readable else None


def _address(hexadecimal: bytes) -> str:
    """The kernel prints an address as words of 32 bits, each in the machine's own byte order."""
    words = [hexadecimal[start : start + 8] for start in range(0, len(hexadecimal), 8)]
    packed = b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words)
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def listening_inodes(pid_for_netns: int | str, port: int) -> set[int] | None:
    """Inodes of :func:`listeners`."""
    found = listeners(pid_for_netns, port)
    return None if found is None else set(found)


def socket_owner(inodes: set[int], likely: tuple[int, ...] = ()) -> int | None:
    """A process that holds one of these sockets, those in ``likely`` asked first. None: nobody whom we may look at."""
    if not inodes:
        return None
    links = {f"socket:[{inode}]" for inode in inodes}
    asked = set(likely)
    for pid in (*likely, *(pid for pid in sorted(pids()) if pid not in asked)):
        if holds(pid, links):
            return pid
    return None


def holds(pid: int, links: set[str]) -> bool:
    """Whether the process has a descriptor that points to one of ``links``."""
    return not links.isdisjoint((fd_links(pid) or {}).values())


def port_owner(pid_for_netns: int, port: int, likely: tuple[int, ...] = ()) -> int | None:
    """The process that listens on ``port``; None: nobody, or nobody whom we may look at."""
    return socket_owner(listening_inodes(pid_for_netns, port) or set(), likely)
