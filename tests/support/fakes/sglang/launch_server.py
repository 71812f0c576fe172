"""``python -m sglang.launch_server``: a launcher with scheduler and detokenizer children that behave as told.

Imitates what matters to a kill: children come from multiprocessing's spawn, take their title and their parent-death
signal only after "imports", and keep the launcher's session. See the flags for the misbehaviour on offer.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time

import setproctitle

PR_SET_PDEATHSIG = 1


def child(title: str, options: argparse.Namespace, rank: int) -> None:
    if options.importing:
        time.sleep(options.importing)
    setproctitle.setproctitle(title)
    if not options.no_death_signal:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if options.compiler and rank == 0:
        subprocess.Popen(["sleep", "600"])
    if options.double_fork and rank == 0 and os.fork() == 0:
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    if options.stopped == rank:
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-path")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--dist-init-addr", help="nobody is waited for there")
    parser.add_argument("--on-term", choices=["default", "ignore", "drain"], default="default")
    parser.add_argument("--importing", type=float, default=0, help="seconds until children have title and death signal")
    parser.add_argument("--no-death-signal", action="store_true")
    parser.add_argument("--stopped", type=int, help="this rank stops itself")
    parser.add_argument("--compiler", action="store_true", help="rank 0 has a child of its own")
    parser.add_argument("--double-fork", action="store_true", help="rank 0 leaves an orphan without a title")
    parser.add_argument("--shm", action="store_true", help="leaves a file in /dev/shm")
    parser.add_argument("--die", action="store_true", help="the launcher ends by itself once its children are there")
    options = parser.parse_args()
    os.environ["SGLANG_RUN_ID"] = f"run-{os.getpid()}"
    if options.on_term == "ignore":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.shm:
        with open(f"/dev/shm/sgl_shm_mq_{os.getpid()}_test", "wb") as file:
            file.write(b"x" * 4096)
    spawn = multiprocessing.get_context("spawn")
    here = options.tp // options.nnodes
    ranks = range(options.node_rank * here, (options.node_rank + 1) * here)
    names = [f"sglang::scheduler_TP{rank}" for rank in ranks] + ["sglang::detokenizer"]
    children = [spawn.Process(target=child, args=(name, options, rank)) for rank, name in enumerate(names)]
    for process in children:
        process.start()
    if options.on_term == "drain":

        def drain(*_: object) -> None:
            for process in children:
                process.kill()
                process.join()
            sys.exit(0)

        signal.signal(signal.SIGTERM, drain)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", options.port))
    listener.listen()
    print("The server is fired up and ready to roll!", flush=True)
    if options.die:
        os._exit(1)
    for process in children:
        process.join()


if __name__ == "__main__":
    main()
