"""Where the output of a running server goes: a file, through ``tee`` into one, or a tmux pane.

SGLang logs to stderr, so that is asked first. Nothing is opened, connected to or changed, except that tmux is asked for
its panes.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from launchmon_agent import tmux
from launchmon_agent.runs.outlets import Pane
from launchmon_agent.sensors import proc

_HOPS = 5
"""Longest pipeline that is followed: ``server | ts | sed … | tee log``."""
_UNIT = re.compile(r"/([^/]+\.(?:service|scope))$", re.MULTILINE)
_ACCESS = os.O_RDONLY | os.O_WRONLY | os.O_RDWR
_WRITING = (os.O_WRONLY, os.O_RDWR)
_PANE_FORMAT = "#{pane_tty}\t#{pane_id}\t#{session_name}:#{window_index}.#{pane_index}"


@dataclass(frozen=True)
class Output:
    """Where the log can be read. ``path`` is None for sources other than ``file`` and ``tee``."""

    source: str  # file | tee | tmux | none
    path: str | None = None
    pane: Pane | None = None  # the one to read the log from
    note: str | None = None  # what a person should know; with "none": why, and what to pass instead


def find_output(pid: int, panes: list[Pane] | None = None) -> Output:
    """Where the log of this launcher is. ``panes``: of :func:`tmux_panes`; None: ask tmux if need be."""
    links = proc.fd_links(pid)
    if links is None:
        return _none(f"the descriptors of process {pid} cannot be read: it belongs to another user, or is gone")
    answers = [_follow(pid, descriptor, panes, hops=0) for descriptor in _written(pid, links)]
    if not answers:
        return _none("its stdout and stderr are closed")
    return next((answer for answer in answers if answer.source != "none"), answers[0])


def all_outputs(pid: int) -> list[Output]:
    """Every place that the output of a process reaches, through any number of ``tee``: each file and pane once."""
    links = proc.fd_links(pid) or {}
    panes = tmux_panes(pid)
    found = [one for descriptor in _written(pid, links) for one in _reached(pid, descriptor, panes, hops=0)]
    return list(dict.fromkeys(found))


def _written(pid: int, links: Mapping[int, str]) -> list[int]:
    """stderr and stdout, as far as they are open for writing: the number of a closed one is given to the next file that
    the process reads, such as a library or its configuration."""
    return [descriptor for descriptor in (2, 1) if descriptor in links and _access(pid, descriptor) in _WRITING]


def _reached(pid: int, descriptor: int, panes: list[Pane], hops: int) -> Iterator[Output]:
    link = _link(pid, descriptor)
    reader = _reader(link, but=pid) if link.startswith("pipe:") and hops < _HOPS else None
    if reader is None:
        yield _follow(pid, descriptor, panes, hops)
        return
    further = [_file(reader, place, path, "tee") for place, path in _files_written(reader)]
    further += _reached(reader, 1, panes, hops + 1)
    known = [one for one in further if one.source != "none"]
    yield from known or [_follow(pid, descriptor, panes, hops)]


def pane_of(pid: int, panes: list[Pane]) -> Pane | None:
    """The pane that a process runs in, wherever its output goes; by its terminal."""
    for descriptor in (0, 2, 1):
        for pane in panes:
            if _is_terminal(pid, descriptor, pane.tty):
                return pane
    return None


def tmux_panes(pid: int | None = None) -> list[Pane]:
    """Panes of the tmux servers of our user and of the process's user. Empty where there is no tmux."""
    panes: list[Pane] = []
    for socket in _tmux_sockets(pid):
        for line in (tmux.ask(socket, "list-panes", "-a", "-F", _PANE_FORMAT) or "").splitlines():
            tty, _, rest = line.partition("\t")
            name, _, place = rest.partition("\t")
            if tty.startswith("/dev/"):
                panes.append(Pane(name, place, tty, socket))
    return panes


def _tmux_sockets(pid: int | None) -> list[str]:
    """That in the process's own TMUX first, then all in tmux's directories."""
    found: list[str] = []
    environ = (proc.environ(pid) or {}) if pid is not None else {}
    users = {os.geteuid()}
    if pid is not None:
        try:
            users.add(os.stat(f"{proc.PROC}/{pid}").st_uid)
        except OSError:
            pass
    if environ.get("TMUX"):
        found.append(environ["TMUX"].rsplit(",", 2)[0])
    for base in dict.fromkeys((environ.get("TMUX_TMPDIR"), os.environ.get("TMUX_TMPDIR"), "/tmp")):  # noqa: S108
        for user in users:
            folder = f"{base}/tmux-{user}"
            if base:
                with contextlib.suppress(OSError):  # there is none, or it is another user's
                    found += [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    return [path for path in dict.fromkeys(found) if tmux.listens(path)]


def _follow(pid: int, descriptor: int, panes: list[Pane] | None, hops: int) -> Output:
    """What one descriptor of a process leads to."""
    link = _link(pid, descriptor)
    place = f"{proc.PROC}/{pid}/fd/{descriptor}"
    try:
        mode = os.stat(place).st_mode
    except OSError:
        return _none(f"its output cannot be looked at ({link or 'closed'})")
    if stat.S_ISREG(mode):
        return _file(pid, place, link, "tee" if hops else "file")
    if link == "/dev/null":
        return _none("its output goes to /dev/null and is lost", "start it with a log file")
    if stat.S_ISCHR(mode):
        return _terminal(pid, descriptor, link, panes)
    if stat.S_ISFIFO(mode):
        return _pipe(pid, link, panes, hops)
    unit = _unit(pid)
    if unit is not None:
        return _none(
            f"its output goes to the journal of {unit}", f"--log-command 'journalctl -fu {unit} -n all -o cat'"
        )
    return _none(f"its output goes to {link}")


def _file(pid: int, place: str, link: str, source: str) -> Output:
    """``link`` if it leads to the very file that is written to; else the way through the process."""
    for path in (link, f"{proc.PROC}/{pid}/root{link}"):
        if _is_same_file(path, place):
            return Output(source, path)
    note = "the log file was deleted; it is read through the process that writes to it, as long as that lives"
    return Output(source, place, note=note)


def _terminal(pid: int, descriptor: int, link: str, panes: list[Pane] | None) -> Output:
    for pane in tmux_panes(pid) if panes is None else panes:
        if _is_terminal(pid, descriptor, pane.tty):
            return Output("tmux", pane=pane)
    return _none(f"it writes to the terminal {link}, which keeps nothing that could be read")


def _pipe(pid: int, link: str, panes: list[Pane] | None, hops: int) -> Output:
    reader = _reader(link, but=pid)
    if reader is None:
        return _none(
            f"its output goes into a pipe ({link}) whose reader cannot be seen, as in a container",
            "--log-command 'docker logs -f NAME'",
        )
    written = list(_files_written(reader))
    if written:
        place, path = written[0]
        return _file(reader, place, path, "tee")
    if hops < _HOPS:
        further = _follow(reader, 1, panes, hops + 1)
        if further.source != "none":
            return further
    name = os.path.basename((proc.cmdline(reader) or ["?"])[0])
    return _none(f"its output goes into a pipe read by process {reader} ({name}), which writes it to no file")


def _reader(link: str, but: int) -> int | None:
    for pid in sorted(proc.pids()):
        if pid == but:
            continue
        for descriptor, target in (proc.fd_links(pid) or {}).items():
            if target == link and _access(pid, descriptor) == os.O_RDONLY:
                return pid
    return None


def _files_written(pid: int) -> Iterator[tuple[str, str]]:
    """(place in /proc, path) of the regular files that a process like ``tee`` or ``cat >`` has open for writing."""
    for descriptor, target in sorted((proc.fd_links(pid) or {}).items()):
        place = f"{proc.PROC}/{pid}/fd/{descriptor}"
        if descriptor != 2 and target.startswith("/") and _access(pid, descriptor) in _WRITING:
            try:
                if stat.S_ISREG(os.stat(place).st_mode):
                    yield place, target
            except OSError:
                continue


def _access(pid: int, descriptor: int) -> int | None:
    """O_RDONLY, O_WRONLY or O_RDWR, from fdinfo's octal flags."""
    for line in (proc.read(f"{proc.PROC}/{pid}/fdinfo/{descriptor}") or b"").splitlines():
        if line.startswith(b"flags:"):
            return int(line.split()[1], 8) & _ACCESS
    return None


def _unit(pid: int) -> str | None:
    cgroup = (proc.read(f"{proc.PROC}/{pid}/cgroup") or b"").decode("utf-8", "replace")
    match = _UNIT.search(cgroup)
    return match[1] if match and match[1].endswith(".service") else None


def _is_terminal(pid: int, descriptor: int, tty: str) -> bool:
    """Whether it is that very terminal: names such as /dev/pts/0 are used again in every container."""
    try:
        ours, theirs = os.stat(tty), os.stat(f"{proc.PROC}/{pid}/fd/{descriptor}")
    except OSError:
        return False
    return stat.S_ISCHR(ours.st_mode) and (ours.st_rdev, ours.st_ino, ours.st_dev) == (
        theirs.st_rdev,
        theirs.st_ino,
        theirs.st_dev,
    )


def _is_same_file(path: str, place: str) -> bool:
    try:
        ours, theirs = os.stat(path), os.stat(place)
    except OSError:
        return False
    return (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)


def _link(pid: int, descriptor: int) -> str:
    return (proc.fd_links(pid) or {}).get(descriptor, "")


def _none(why: str, instead: str = "--log PATH or --log-command CMD") -> Output:
    return Output("none", note=f"{why}; pass {instead}" if instead.startswith("--") else f"{why}; {instead}")
