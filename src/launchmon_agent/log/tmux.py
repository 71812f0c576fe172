"""A tmux pane as a log: what it shows and has scrolled away, then everything that is written to it.

``pipe-pane`` gives the pane's output from now on, ``capture-pane`` what was before. Both are asked for in one command
line, which tmux carries out without reading from the pane in between, so that the seam neither loses nor repeats a
byte: the capture ends at the cursor, in the middle of a line if need be, and the pipe goes on from there.

A pane has one pipe. If somebody has one already it is left alone, and the pane is captured again and again instead.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import subprocess
import termios
import time
from dataclasses import dataclass

from launchmon_agent.errors import Refused
from launchmon_agent.log.spool import Spool

ANSWER_S = 5.0
"""Seconds within which a tmux server answers."""

CAPTURE_S = 1.0
"""Between captures of a pane that is piped elsewhere."""

LOOK_S = 5.0
"""Between looks whether a pane that is piped to us still is."""

OVERLAP = 50
"""Lines by which a capture is joined to the one before."""

AGAIN = 5000
"""Lines of history captured each time: more than this in :data:`CAPTURE_S` are lost, and the log says so."""

GAP = b"-- launchmon: lines of the pane may be missing here --\n"

_COLUMNS = "#{pane_id} #{pane_pipe} #{pane_dead} #{cursor_x} #{cursor_y} #{pane_height}"

_WRITER = """\
echo $$ >{pid}
exec 3<{fifo}
read -r _ <&3 || exit
( read -r _ <&3; read -r _ _ _ parent _ </proc/self/stat; [ "$parent" = $$ ] && kill $$ ) >/dev/null 2>&1 &
exec cat >>{spool} 3<&-"""
"""What the pane's output is piped into. It begins when told to, behind the backlog; and it ends when the other
end of the FIFO is closed, so also when launchmon is killed: tmux closes the pipe when it next writes to it. The FIFO is
opened once, by the shell that is told to begin: the watcher may get to run only after that other end is closed, when
opening would wait for ever. Where cat has ended first, the watcher has another parent, and its pid may be someone's."""


@dataclass(frozen=True)
class _Pane:
    id: str
    piped: bool
    dead: bool
    cursor_x: int
    below: int  # rows of the screen below the cursor's


class TmuxSource:
    """The log of what runs in a pane. Raises :class:`Refused` where there is no such pane."""

    kind = "tmux"

    def __init__(self, pane: str, socket: str | None = None, parent: str | None = None) -> None:
        """``pane``: what ``tmux -t`` takes; ``socket``: of a server that is not the default one."""
        self.name = f"tmux pane {pane}"
        self.problem: str | None = None
        self._tmux = ["tmux", *(("-S", socket) if socket else ())]
        looked = self._look(pane)
        self._pane = looked.id
        self._spool = Spool(parent)
        self.path = self._spool.path
        self._gate = -1
        self._next_look = 0.0
        self._seen: list[bytes] | None = None  # last lines of the last capture, where the pane is piped elsewhere
        try:
            if looked.dead or not self._start_pipe():
                self._capture_again()
        except (Refused, OSError) as error:
            self.close()
            if isinstance(error, Refused):
                raise
            raise Refused(f"the pane's log cannot be kept: {error.strerror}", "", "df -h /tmp") from None
        if looked.dead:
            self.problem = f"what ran in {self.name} has ended: its log is complete"

    def poll(self, now: float) -> None:
        """Captures anew where the pane is piped elsewhere; notices that the pane is gone."""
        every = LOOK_S if self._seen is None else CAPTURE_S
        if 0 <= self._next_look - now <= every or self.problem is not None:
            return
        self._next_look = now + every
        try:
            if self._seen is not None:
                self._capture_again()
            elif not self._look(self._pane).piped:
                self.problem = "the pane is no longer piped to launchmon: its log ends here"
        except Refused:
            self.problem = f"{self.name} is gone: its log ends here"
        except OSError as error:
            self.problem = f"the pane's log cannot be kept: {error.strerror}"

    def close(self) -> None:
        """Give the pane its old state back, and remove the copy of its output."""
        self._end_pipe()
        self._spool.remove()

    # ---------------------------------------------------------------------------------------------------------- piping

    def _start_pipe(self) -> bool:
        """Put the backlog into the spool and the pane's output behind it. False: the pane has a pipe already."""
        fifo = self._spool.file("gate")
        os.mkfifo(fifo, 0o600)
        self._gate = os.open(fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        pid = self._spool.file("pid")
        writer = _WRITER.format(fifo=shlex.quote(fifo), pid=shlex.quote(pid), spool=shlex.quote(self.path))
        pipe = f"pipe-pane -t {self._pane} {_quoted(_literal(writer))}"
        # The test and the pipe in one step: `pipe-pane -o` would close a pipe that came into being meanwhile.
        answer = self._ask(
            *("if-shell", "-F", "-t", self._pane, "#{pane_pipe}", "display-message -p busy", pipe),
            *(";", "display-message", "-p", "-t", self._pane, _COLUMNS),
            *(";", "capture-pane", "-p", "-J", "-S", "-", "-t", self._pane),
        )
        if answer.startswith(b"busy\n"):
            self._end_pipe()
            return False
        columns, _, text = answer.partition(b"\n")
        self._spool.append(_before_cursor(text, _parsed(columns)))
        os.write(self._gate, b"go\n")
        if self._taken():
            return True
        self._end_pipe()  # the server's user may not enter our directory, for one
        os.truncate(self.path, 0)
        return False

    def _taken(self) -> bool:
        """Whether the writer has started: it takes what is in the FIFO, and opens the spool."""
        deadline = time.monotonic() + ANSWER_S
        while time.monotonic() < deadline:
            if fcntl.ioctl(self._gate, termios.FIONREAD, bytes(4)) == bytes(4) and self._writer() is not None:
                return True
            time.sleep(0.01)
        return False

    def _end_pipe(self) -> None:
        """End the pipe, if it is still ours, and the writer."""
        if self._gate < 0:
            return
        if self._writer() is not None:
            with contextlib.suppress(Refused):
                self._run("pipe-pane", "-t", self._pane)
        os.close(self._gate)
        self._gate = -1
        with contextlib.suppress(OSError):  # wakes a writer that waits for that end to be opened
            os.close(os.open(self._spool.file("gate"), os.O_WRONLY | os.O_NONBLOCK))

    def _writer(self) -> int | None:
        """The pid of our writer while it lives: its input ends, and so does it, when the pane is piped elsewhere."""
        try:
            with open(self._spool.file("pid"), encoding="ascii") as file:
                pid = int(file.read())
            return pid if os.path.samefile(f"/proc/{pid}/fd/1", self.path) else None
        except (OSError, ValueError):
            return None

    # ------------------------------------------------------------------------------------------------------- capturing

    def _capture_again(self) -> None:
        """Append the lines that are new since the last capture. The line under the cursor waits until it is whole."""
        start = "-" if self._seen is None else f"-{AGAIN}"
        answer = self._ask(
            *("display-message", "-p", "-t", self._pane, _COLUMNS),
            *(";", "capture-pane", "-p", "-J", "-S", start, "-t", self._pane),
        )
        columns, _, text = answer.partition(b"\n")
        whole = _before_cursor(text, _parsed(columns)).split(b"\n")[:-1]
        seen = self._seen
        self._seen = whole[-OVERLAP:]
        if seen:
            new = _behind(whole, seen)
            self._spool.append(GAP + _joined(whole) if new is None else _joined(new))
        else:
            self._spool.append(_joined(whole))

    # ------------------------------------------------------------------------------------------------------------ tmux

    def _look(self, pane: str) -> _Pane:
        return _parsed(self._ask("display-message", "-p", "-t", pane, _COLUMNS))

    def _ask(self, *arguments: str) -> bytes:
        """What tmux answers, which is something. Raises :class:`Refused`."""
        answer = self._run(*arguments)
        if not answer.strip():
            raise _no_pane()
        return answer

    def _run(self, *arguments: str) -> bytes:
        """Raises :class:`Refused`."""
        try:
            done = subprocess.run(
                [*self._tmux, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_S, check=False
            )
        except FileNotFoundError:
            raise Refused("tmux is not installed here", "a pane can only be read through tmux itself") from None
        except subprocess.TimeoutExpired:
            raise Refused(f"tmux did not answer within {ANSWER_S:.0f} s", "its server hangs or is stopped") from None
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise Refused(
                f"{self.name} cannot be read" + (f": {said}" if said else ""),
                "there is no such pane, or the tmux server belongs to another user or uses another socket",
                f"{shlex.join(self._tmux)} list-panes -a",
            )
        return done.stdout


def _parsed(columns: bytes) -> _Pane:
    parts = columns.decode("utf-8", "replace").split()
    if len(parts) != 6 or not parts[0].startswith("%"):
        raise _no_pane()
    numbers = [int(part) if part.isdigit() else 0 for part in parts[1:]]
    piped, dead, x, y, height = numbers
    return _Pane(parts[0], bool(piped), bool(dead), x, height - 1 - y)


def _before_cursor(capture: bytes, pane: _Pane) -> bytes:
    """A capture (lines joined where the pane wraps) up to the cursor: without the empty rest of the screen.

    The line under the cursor stays unfinished, unless the cursor is at its beginning. It may be all blanks.
    """
    lines = capture.removesuffix(b"\n").split(b"\n")
    empty = pane.below if pane.cursor_x else len(lines)
    while lines and empty > 0 and not lines[-1].strip():
        lines.pop()
        empty -= 1
    last = lines.pop() if lines and pane.cursor_x else b""
    return b"".join(line.rstrip(b" ") + b"\n" for line in lines) + last


def _behind(lines: list[bytes], seen: list[bytes]) -> list[bytes] | None:
    """The lines after the last place where ``seen`` is found; None where it is not (too much has scrolled by)."""
    length = len(seen)
    for end in range(len(lines), length - 1, -1):
        if lines[end - 1] == seen[-1] and lines[end - length : end] == seen:
            return lines[end:]
    return None


def _joined(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _quoted(text: str) -> str:
    """As one word of tmux's own command language."""
    for character in '\\"$':
        text = text.replace(character, "\\" + character)
    return f'"{text}"'


def _literal(text: str) -> str:
    """Against tmux's formats and strftime, which it expands in a pipe's command."""
    return text.replace("#", "##").replace("%", "%%")


def _no_pane() -> Refused:
    return Refused(
        "there is no such tmux pane", "it was closed, or the name is not one of a pane", "tmux list-panes -a"
    )
