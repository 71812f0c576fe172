"""Runs one regular expression over blocks of lines in a process of its own, which can be killed if it never ends.

Started as ``python -c SOURCE FLAGS`` by :mod:`launchmon_agent.log.match`; standard library only, no package imports.
Input: the length of the pattern (4 bytes, big-endian) and the pattern in UTF-8, then blocks in the same form, each of
lines separated by newlines. Output: one byte when it has begun, then for each block one byte a line, 1 where the
pattern is found.
"""

from __future__ import annotations

import re
import sys


def main() -> None:
    take, put = sys.stdin.buffer, sys.stdout.buffer

    def read() -> bytes | None:
        header = take.read(4)
        return take.read(int.from_bytes(header, "big")) if len(header) == 4 else None

    pattern = re.compile((read() or b"").decode(), int(sys.argv[1]))
    put.write(b"\1")
    put.flush()
    while (block := read()) is not None:
        lines = block.decode("utf-8", "replace").split("\n")
        put.write(bytes(pattern.search(line) is not None for line in lines))
        put.flush()


if __name__ == "__main__":
    main()
