"""What a search or a filter looks for: plain text, or a regular expression that cannot hold anything up.

An expression such as ``(a+)+$`` can take years on thirty characters and would hold the interpreter lock all the while.
So expressions run in a child process that is killed when a block of lines takes longer than :data:`PATIENCE_S`.
"""

from __future__ import annotations

import contextlib
import pkgutil
import re
import select
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, Protocol, cast

from launchmon_agent.errors import Refused
from launchmon_agent.log.display import SGR
from launchmon_agent.log.lines import HEAD

PATIENCE_S = 2.0
"""For one block of lines; an ordinary expression takes milliseconds."""

START_S = 5.0
"""For the start of an interpreter, which may come from a slow file system or beside a model that is being loaded."""

LONGEST = 1000
"""Characters of a pattern."""


class Matcher(Protocol):
    def possible(self, block: bytes) -> bool:
        """False only when no line of the block can match: a quick look."""

    def matching(self, lines: Sequence[bytes]) -> Sequence[bool]:
        """Which of the lines match. Raises :class:`Refused` when it cannot be found out in reasonable time."""

    def count(self, block: bytes) -> int | None:
        """How many lines of a block of whole lines match; None: they have to be looked at one by one."""

    def close(self) -> None: ...


def matcher(pattern: str, *, regex: bool = False, ignore_case: bool = False) -> Matcher:
    """Raises :class:`Refused` for an expression that is none, and for an empty or endless pattern."""
    if not pattern:
        raise Refused("nothing to search for", "the pattern is empty")
    if len(pattern) > LONGEST:
        raise Refused(
            "the pattern is too long", f"it has {len(pattern)} characters; at most {LONGEST} are searched for"
        )
    return Expression(pattern, ignore_case) if regex else Text(pattern, ignore_case)


class Text:
    """Plain text. Case is ignored as in :meth:`str.casefold`."""

    def __init__(self, text: str, ignore_case: bool) -> None:
        self._text = text.casefold() if ignore_case else text
        self._bytes = self._text.encode("utf-8", "surrogatepass")
        self._fold = ignore_case
        self._ascii = self._text.isascii()

    def possible(self, block: bytes) -> bool:
        if b"\x1b" in block or (self._fold and not self._ascii):
            return True
        return self._bytes in (block.lower() if self._fold else block)

    def matching(self, lines: Sequence[bytes]) -> Sequence[bool]:
        if not self._fold:
            return [self._bytes in line for line in lines]
        if self._ascii:
            return [self._bytes in line.lower() for line in lines]
        return [self._text in line.decode("utf-8", "replace").casefold() for line in lines]

    def count(self, block: bytes) -> int | None:
        """From hit to hit, without making lines: some fifty times as fast where hits are rare."""
        if b"\x1b" in block or (self._fold and not self._ascii):
            return None
        data = block.lower() if self._fold else block
        count, at = 0, data.find(self._bytes)
        while at >= 0:
            if at - data.rfind(b"\n", 0, at) + len(self._bytes) > HEAD:
                return None  # a long line, which is not searched as a whole
            count += 1
            end = data.find(b"\n", at)
            at = -1 if end < 0 else data.find(self._bytes, end)
        return count

    def close(self) -> None:
        pass


class Expression:
    """A regular expression in Python's syntax."""

    def __init__(self, pattern: str, ignore_case: bool) -> None:
        self._pattern = pattern
        self._flags = int(re.IGNORECASE) if ignore_case else 0
        try:
            re.compile(pattern, self._flags)
        except (re.error, OverflowError, RecursionError) as error:
            raise Refused(
                f"not a regular expression: {error}",
                f"{pattern!r} is read as a regular expression in Python's syntax",
                "search for it as plain text, or put a backslash before ( ) [ ] { } . * + ? ^ $ |",
            ) from None
        self._child: subprocess.Popen[bytes] | None = None

    def possible(self, block: bytes) -> bool:
        return bool(block)

    def count(self, block: bytes) -> int | None:  # noqa: ARG002 - the protocol's name
        return None

    def matching(self, lines: Sequence[bytes]) -> Sequence[bool]:
        if not lines:
            return []
        try:
            found = self._ask(b"\n".join(lines), len(lines))
        except OSError:
            found = b""
        if len(found) != len(lines):
            self.close()
            raise Refused(
                "the search was stopped",
                f"the expression {self._pattern!r} did not finish a few thousand lines in {PATIENCE_S:.0f} s; "
                "repeats inside repeats do that",
                "search for plain text, or a simpler expression",
            )
        return [bool(one) for one in found]

    def close(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    pass

    def _ask(self, block: bytes, count: int) -> bytes:
        child = self._child or self._start()
        _send(child, block)
        answers = cast(IO[bytes], child.stdout)
        answer = b""
        while len(answer) < count:
            ready, _, _ = select.select([answers], [], [], PATIENCE_S)
            part = answers.read(count - len(answer)) if ready else b""
            if not part:
                break
            answer += part
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        source = pkgutil.get_data(__package__ or "", "regex_worker.py")  # also out of a zip
        try:
            self._child = child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", (source or b"").decode(), str(self._flags)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
            )
        except OSError as error:
            raise _not_begun(error.strerror or str(error)) from None
        with contextlib.suppress(BrokenPipeError):
            _send(child, self._pattern.encode("utf-8", "surrogatepass"))
        begun = cast(IO[bytes], child.stdout)
        ready, _, _ = select.select([begun], [], [], START_S)
        if not ready or not begun.read(1):
            self.close()
            what = "ended at once" if ready else f"did not start within {START_S:.0f} s"
            raise _not_begun(f"its Python {what}")
        return child


def _not_begun(why: str) -> Refused:
    return Refused("the search could not begin", why, "search for plain text, or try again")


class Matchers:
    """Keeps the matchers used last, so that the next slice of a search need not start a child again. One thread."""

    def __init__(self, keep: int = 3) -> None:
        self._keep = keep
        self._made: dict[tuple[str, bool, bool], Matcher] = {}

    def get(self, pattern: str, *, regex: bool, ignore_case: bool) -> Matcher:
        """Raises :class:`Refused`, see :func:`matcher`."""
        key = (pattern, regex, ignore_case)
        made = self._made.pop(key, None) or matcher(pattern, regex=regex, ignore_case=ignore_case)
        self._made[key] = made
        while len(self._made) > self._keep:
            self._made.pop(next(iter(self._made))).close()
        return made

    def close(self) -> None:
        for made in self._made.values():
            made.close()
        self._made.clear()


def _send(child: subprocess.Popen[bytes], data: bytes) -> None:
    """Write all: the pipe is unbuffered, and one write may take a part only."""
    to_child = cast(IO[bytes], child.stdin)
    rest = memoryview(len(data).to_bytes(4, "big") + data)
    while rest:
        rest = rest[to_child.write(rest) or 0 :]


def plain(line: bytes) -> bytes:
    """A line without colour sequences: they must not hide a match."""
    return SGR.sub(b"", line) if b"\x1b" in line else line
