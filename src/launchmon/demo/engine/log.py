"""Writing the log as SGLang does: one ``write`` a record, time and tag in front of it, bars redrawn with CR."""

from __future__ import annotations

import os
import time

OUT, ERR = 1, 2

SIMULATED = "launchmon demo: simulated SGLang, no GPU is used"
"""The first line of every log of the demo."""


class Logger:
    """Lines of one process. ``tag`` is the rank's ("TP3"); the launcher and a single rank have none."""

    def __init__(self, tag: str = "") -> None:
        self._tag = f" {tag}" if tag else ""

    def info(self, text: str, to: int = ERR) -> None:
        """``text`` may have several lines; the prefix stands before the first only."""
        write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}{self._tag}] {text}\n", to)


class Bar:
    """A progress bar on standard error, in the two looks of a launch.

    ``shards`` is the loaders' own (``… Completed | 3/64 […]``), otherwise tqdm's usual one, which has a label only from
    its second refresh on.
    """

    def __init__(self, total: int, label: str = "", shards: bool = False) -> None:
        self._total = total
        self._label = label
        self._shards = shards
        self._began = time.monotonic()
        self.show(0)

    def show(self, done: int, label: str | None = None) -> None:
        if label is not None:
            self._label = label
        elapsed = time.monotonic() - self._began
        rate = done / elapsed if done and elapsed > 0 else None
        eta = _clock((self._total - done) / rate) if rate else "?"
        percent = f"{100 * done // self._total:3d}%"
        head = f"{self._label}: {percent}" if self._label else percent
        if self._shards:
            body = f" Completed | {done}/{self._total}"
        else:
            body = f"|{_blocks(done / self._total)}| {done}/{self._total}"
        write(f"\r{head}{body} [{_clock(elapsed)}<{eta}, {_rate(rate)}]")

    def close(self) -> None:
        write("\n")


def write(text: str, to: int = ERR) -> None:
    """All of it; a log that has gone away (a closed pipe) is no reason to stop."""
    data = text.encode()
    try:
        while data:
            data = data[os.write(to, data) :]
    except OSError:
        pass


def _clock(seconds: float) -> str:
    minutes, left = divmod(int(seconds), 60)
    return f"{minutes:02d}:{left:02d}"


def _rate(rate: float | None) -> str:
    """As tqdm writes it: below one a second it turns to seconds per step."""
    if rate is None:
        return "?it/s"
    return f"{rate:5.2f}it/s" if rate >= 1 else f"{1 / rate:5.2f}s/it"


def _blocks(part: float, width: int = 10) -> str:
    eighths = int(part * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if full < width else "")).ljust(width)
