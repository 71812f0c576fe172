"""A server that notes every signal it is sent, and numbers the lines of its log, so that none can go missing.

Run as a script it is that server: ``python witness.py --notes DIRECTORY [--tp N] [--patient SECONDS] …``. Its ranks are
children with SGLang's titles. :class:`Witness` is a test's view of one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import sys
import time
from pathlib import Path

EVERY_S = 0.02
CATCHABLE = ("HUP", "INT", "QUIT", "TERM", "USR1", "CONT", "TSTP", "WINCH", "PIPE")
"""Not USR2: a dump without ptrace is asked for by it, in a run with the launch hook."""


class Witness:
    """``notes``: the directory where it writes down what it is sent."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def command(self, *flags: str, port: int) -> list[str]:
        words = [sys.executable, __file__, "--model-path", "org/tiny", "--notes", str(self.notes)]
        return [*words, "--port", str(port), *flags]

    @property
    def signals(self) -> list[str]:
        """``PID SIGNAL`` of each that was caught, by anyone."""
        return sorted(path.name for path in self.notes.iterdir())

    @staticmethod
    def numbers(log: str | bytes) -> list[int]:
        """Of the lines in a log, in their order."""
        text = log if isinstance(log, bytes) else log.encode()
        return [int(number) for number in re.findall(rb"^line (\d+)$", text, re.MULTILINE)]

    def assert_whole(self, log: str | bytes) -> None:
        """No line is missing from it, none comes twice, and it has begun to write."""
        numbers = self.numbers(log)
        assert numbers and numbers == list(range(len(numbers)))


def main() -> None:
    import setproctitle

    parser = argparse.ArgumentParser()
    parser.add_argument("--notes")
    parser.add_argument("--model-path")
    parser.add_argument("--port")
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--say", help="its first line")
    parser.add_argument("--api-key")
    parser.add_argument("--patient", type=float, default=0, help="seconds until it ends when it is asked to")
    options = parser.parse_args()

    ends_at = float("inf")

    def note(number: int, _frame: object) -> None:
        name = signal.Signals(number).name
        Path(options.notes, f"{os.getpid()} {name}").touch()
        if name == "SIGTERM":
            nonlocal ends_at
            ends_at = time.monotonic() + options.patient

    for name in CATCHABLE:
        signal.signal(getattr(signal, f"SIG{name}"), note)
    for rank in range(options.tp):
        if os.fork() == 0:
            setproctitle.setproctitle(f"sglang::scheduler_TP{rank}")
            launcher = os.getppid()
            while os.getppid() == launcher:  # as the parent-death signal that real ranks ask for
                time.sleep(0.05)
            os._exit(0)
    number, rest = 0, f"{options.say}\n".encode() if options.say else b""
    while time.monotonic() < ends_at:
        if not rest:
            rest, number = b"line %d\n" % number, number + 1
        with contextlib.suppress(OSError):  # a full disk: the same bytes again
            rest = rest[os.write(1, rest) :]
        time.sleep(EVERY_S)


if __name__ == "__main__":
    main()
