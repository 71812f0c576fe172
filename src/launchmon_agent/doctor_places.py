"""The places that an agent writes to on this machine: tried, and left as they were but for the directory of sockets."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import tempfile

from launchmon_agent.capability import BROKEN, LESS, OK, Capability
from launchmon_agent.errors import Refused
from launchmon_agent.judge.words import size
from launchmon_agent.preflight import facts
from launchmon_agent.runs.directory import state_root
from launchmon_agent.runs.recording import CAP
from launchmon_agent.runs.sockets import socket_directory, socket_path

WANTED_FREE = 4 * CAP
"""Bytes for a handful of recordings and logs."""

WANTED_SHM = 256 << 20
"""Bytes. A container has 64 MiB of /dev/shm unless it is given more, which few ranks get by with."""


def shm() -> Capability:
    found = facts.shm()
    cost = "a rank that finds it full is killed by SIGBUS; NCCL and torch share data between ranks there"
    if found is None:
        return Capability("shm", LESS, f"there is no {facts.SHM}", cost, "docker run --shm-size 32g …")
    total, free = found
    words = f"{size(free)} left of {size(total)}"
    if free >= WANTED_SHM:
        return Capability("shm", OK, words)
    larger = total < WANTED_SHM
    return Capability("shm", LESS, words, cost, "docker run --shm-size 32g …" if larger else f"ls -lt {facts.SHM}")


def state_directory(root: str | None = None) -> Capability:
    """Where runs live: written to, locked, and with space left."""
    root = root or state_root()
    place = existing(root)
    cost = "no run can be launched here; watching others works"
    elsewhere = "XDG_STATE_HOME=/a/directory/with/space launchmon …"
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.statvfs(place)
    except OSError as error:
        return Capability("state", BROKEN, f"{root} cannot be used: {error.strerror or error}", cost, elsewhere)
    free = found.f_bavail * found.f_frsize
    words = f"{root}, {size(free)} left"
    if free < WANTED_FREE:
        return Capability("state", LESS, words, "recordings and logs of runs launched here may be cut short", elsewhere)
    return Capability("state", OK, words)


def runtime_directory() -> Capability:
    """Where the sockets of keepers lie: one is made there and taken away."""
    cost = "no run can be launched here; watching others works"
    try:
        folder = socket_directory()
        path = socket_path(f"doctor-{os.getpid()}", folder)
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.bind(path)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(path)
    except Refused as refused:
        return Capability("runtime", BROKEN, f"{refused.what}: {refused.cause}", cost, refused.try_)
    except OSError as error:
        words = f"no socket can be made: {error.strerror or error}"
        return Capability("runtime", BROKEN, words, cost, "XDG_RUNTIME_DIR=/run/user/$(id -u) launchmon …")
    return Capability("runtime", OK, f"{folder}, for this user alone")


def existing(path: str) -> str:
    """The directory itself, or the nearest above it that is there."""
    while not os.path.isdir(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path
