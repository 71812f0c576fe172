"""A process tree shaped like a server's: a launcher whose multiprocessing children take titles when told to.

Run as a script: each argument is ``TITLE`` or ``TITLE/CHILD,…``: a child with that title, and its own children, which
are titles too, ``sh:COMMAND`` for a shell command, ``fork`` for a copy of their parent, and ``spawn`` for one that
multiprocessing starts and that never takes a title. The line ``title`` on stdin lets all children take theirs.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from multiprocessing.synchronize import Event

import setproctitle


def child(title: str, below: list[str], go: Event) -> None:
    go.wait()
    setproctitle.setproctitle(title)
    context = multiprocessing.get_context("spawn")
    for one in below:
        if one == "fork":
            if os.fork() == 0:
                break
        elif one.startswith("sh:"):
            subprocess.Popen(["sh", "-c", one[3:]])
        elif one == "spawn":
            context.Process(target=sleep).start()
        else:
            context.Process(target=child, args=(one, [], go)).start()
    sleep()


def sleep() -> None:
    while True:
        time.sleep(3600)


def main() -> None:
    context = multiprocessing.get_context("spawn")
    go = context.Event()
    for argument in sys.argv[1:]:
        title, _, below = argument.partition("/")
        context.Process(target=child, args=(title, below.split(",") if below else [], go)).start()
    print("started", flush=True)
    for line in sys.stdin:
        if line.strip() == "title":
            go.set()


if __name__ == "__main__":
    main()
