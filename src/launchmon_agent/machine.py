"""Which start of the machine this is, and when it was. Imports nothing of ours, so that readers of files may use it."""

from __future__ import annotations

import functools

PROC = "/proc"


@functools.cache
def boot_time() -> float:
    """Seconds since the epoch. Read once: the kernel's answer moves when the clock is set, and start times must not."""
    for line in _read("stat").splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    return 0.0


@functools.cache
def boot_id() -> str | None:
    """Another one after each start of the machine (random(4)). None where it cannot be read."""
    return _read("sys/kernel/random/boot_id").strip() or None


def _read(name: str) -> str:
    try:
        with open(f"{PROC}/{name}", encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
