"""A server that speaks NCCL's RAS protocol, and the answers of one, written as NCCL's ``client_support.cc`` does.

NCCL 2.28.7 and later know ``set format json``; before, it is an unknown command and the answer is text. NVIDIA's page
on RAS in the NCCL guide shows the text form.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

HASH = "0x5bd3c1e2a0f4"


class FakeRas:
    """One process's port. ``text`` and ``json`` are what it answers; without ``json`` it is an NCCL before 2.28.7."""

    def __init__(self, text: str = "", json: str | None = None) -> None:
        self.text = text
        self.json = json
        self.hold: threading.Event | None = None  # the answer waits for it
        self.raw: Callable[[socket.socket], None] | None = None  # instead of the protocol
        self.commands: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        if self.hold is not None:
            self.hold.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                try:
                    (self.raw or self._speak)(connection)
                except OSError:
                    pass

    def _speak(self, connection: socket.socket) -> None:
        as_json = False
        for line in connection.makefile("r"):
            command = line.strip()
            self.commands.append(command)
            if command.startswith("timeout "):
                connection.sendall(b"OK\n")
            elif command == "set format json" and self.json is not None:
                as_json = True
                connection.sendall(b"OK\n")
            elif command == "verbose status":
                if self.hold is not None:
                    self.hold.wait()
                answer = self.json if as_json and self.json is not None else self.text
                half = len(answer) // 2  # it comes in several messages
                connection.sendall(answer[:half].encode())
                connection.sendall(answer[half:].encode())
                return
            else:
                connection.sendall(f"ERROR: Unknown command {command}\n".encode())


@contextmanager
def fake_ras(text: str = "", json: str | None = None) -> Iterator[FakeRas]:
    server = FakeRas(text, json)
    try:
        yield server
    finally:
        server.close()


# ---------------------------------------------------------------------------------------------------------------- JSON


def json_rank(rank: int, pid: int, host: str = "127.0.0.1", **more: Any) -> dict[str, Any]:
    """A rank that runs; ``more``: AllReduce=… and so on, and entries of its status."""
    counts = {"Broadcast": 0, "Reduce": 0, "AllGather": 0, "ReduceScatter": 0, "AllReduce": 0}
    status: dict[str, Any] = {
        "init_state": 0,
        "async_error": 0,
        "finalize_called": False,
        "destroy_flag": False,
        "abort_flag": False,
    }
    for name, value in more.items():
        (counts if name in counts else status)[name] = value
    placed = {"rank": rank, "host": host, "pid": pid, "cuda_dev": rank, "nvml_dev": rank}
    return {**placed, "status": status, "collective_counts": counts}


def json_missing(rank: int, pid: int, unresponsive: bool = True, dead: bool = False) -> dict[str, Any]:
    status = {"unresponsive": unresponsive, "considered_dead": dead}
    return {"rank": rank, "host": "127.0.0.1", "pid": pid, "cuda_dev": rank, "nvml_dev": rank, "status": status}


def json_answer(
    communicators: Mapping[str, Sequence[dict[str, Any]]],
    missing: Mapping[str, Sequence[dict[str, Any]]] | None = None,
    timestamp: str = "2026-11-29 18:00:00",
    size: int | None = None,
) -> str:
    """``communicators``: hash → ranks that answered; ``missing``: hash → those that did not."""
    absent = missing or {}
    return json.dumps(
        {
            "nccl_version": "2.28.9",
            "cuda_runtime_version": 12090,
            "cuda_driver_version": 13000,
            "timestamp": timestamp,
            "communicators_count": len(communicators),
            "communicators": [
                {
                    "hash": hash_,
                    "secondary_hash": "0x1:0x2",
                    "size": size or len(ranks) + len(absent.get(hash_, ())),
                    "ranks_count": len(ranks),
                    "missing_ranks_count": len(absent.get(hash_, ())),
                    "ranks": ranks,
                    "missing_ranks": list(absent.get(hash_, ())),
                }
                for hash_, ranks in communicators.items()
            ],
            "ras": {"collection_time_sec": 0.003, "timeouts_count": len(absent)},
        },
        indent=2,
    )


# ----------------------------------------------------------------------------------------------------------------- text


def text_answer(errors: str = "", warnings: str = "", size: int = 4, state: str = "RUNNING", what: str = "OK") -> str:
    return (
        "NCCL version 2.27.5+cuda12.9 compiled with CUDA 12.9\n"
        "CUDA runtime version 12090, driver version 13000\n\n"
        "Job summary\n===========\n\n"
        "  Nodes  Processes         GPUs  Processes     GPUs\n"
        "(total)   per node  per process    (total)  (total)\n"
        f"      1  {size:9}            1  {size:9}  {size:7}\n"
        "\nCommunicators... (0.00s)\n=============\n\n"
        "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
        "    #  in group  per comm  per node  per comm  in group\n"
        f"    0         1         1  {size:8}  {size:8}  {size:8}  {state:>8}  {what:>6}\n"
        f"\nErrors\n======\n\n{errors}Warnings\n========\n\n{warnings}"
    )
