"""What the agent can use on this machine, as it sees it. Blocking; for a thread.

What is tried (a file in the state directory, a socket) is taken away at once; only the directory for sockets stays.
Each look is a thread of its own and may take :data:`PATIENCE_S`, since a driver or a file system may not answer at all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from launchmon_agent.capability import BROKEN, LESS, OK, Capability
from launchmon_agent.discover import Found, discover, select
from launchmon_agent.doctor_places import runtime_directory, shm, state_directory
from launchmon_agent.events import Notice, Process
from launchmon_agent.hello import hello
from launchmon_agent.preflight.facts import gpus
from launchmon_agent.preflight.look import at_once
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.kernel import Journal, KernelSensor, Kmsg
from launchmon_agent.sensors.ras import RasSensor
from launchmon_agent.sglang.titles import SCHEDULER
from launchmon_agent.stacks import cache, permission, pyspy

PATIENCE_S = 15.0
"""The slowest look is NCCL's, which waits by itself for processes that do not answer."""

JOURNAL_S = 3.0
"""By then the journal has said whether it may be read; nothing said is a yes."""

ORDER = (
    *("python", "processes", "nvml", "py-spy", "ptrace", "dmesg", "nccl-ras", "tmux"),
    *("shm", "state", "runtime"),
)


def examine(pid: int | None = None) -> list[dict[str, Any]]:
    """Every capability in :data:`ORDER`, as JSON. ``pid``: of the server that it is about, else of all that run here.

    Raises :class:`~launchmon_agent.errors.Refused` where no server has that pid.
    """
    servers = discover()
    if pid is not None:
        servers = [select(servers, pid=pid)]
    looks: dict[str, Callable[[], Capability]] = {
        "python": python,
        "processes": processes,
        "nvml": nvml,
        "py-spy": lambda: py_spy(servers),
        "ptrace": lambda: ptrace(servers),
        "dmesg": dmesg,
        "nccl-ras": lambda: nccl_ras(servers),
        "tmux": tmux,
        "shm": shm,
        "state": state_directory,
        "runtime": runtime_directory,
    }
    found = at_once(looks, PATIENCE_S)
    return [_told(name, found).as_json() for name in ORDER]


def _told(name: str, found: dict[str, Any]) -> Capability:
    if name not in found:
        return Capability(name, BROKEN, f"no answer within {PATIENCE_S:.0f} s", "whoever asks for it waits")
    seen = found[name]
    if isinstance(seen, Capability):
        return seen
    return Capability(name, LESS, "it could not be looked at")


# --------------------------------------------------------------------------------------------------------- the program


def python() -> Capability:
    own = hello()
    by = f", found: {own.found}" if own.found else ""
    return Capability("python", OK, f"{own.python}, {own.interpreter}{by}")


def processes() -> Capability:
    """Read from ``/proc`` itself: psutil is not needed."""
    if proc.stat(1) is not None:
        return Capability("processes", OK, "read from /proc, those of other users too")
    return Capability(
        "processes",
        LESS,
        "/proc shows the processes of this user only (hidepid)",
        "servers of other users are not found",
        "log in as the user of the server, or as root",
    )


def nvml() -> Capability:
    cost = "no GPU values: memory, utilisation, power and Xid errors are shown as –"
    seen = gpus(time.time())
    if seen.error is not None or not seen.gpus:
        return Capability("nvml", LESS, seen.error or "the driver sees no GPU", cost, _looking_for_gpus())
    lost = [gpu for gpu in seen.gpus if gpu.error]
    names = " and ".join(dict.fromkeys(gpu.name or "a GPU without a name" for gpu in seen.gpus))
    words = f"{len(seen.gpus)} × {names}, driver {seen.driver or 'of unknown version'}"
    if lost:
        error = f"GPU {lost[0].index}: {lost[0].error}"
        return Capability("nvml", LESS, f"{words}; {error}", "no values of this GPU", "nvidia-smi -q")
    return Capability("nvml", OK, words)


def _looking_for_gpus() -> str:
    if shutil.which("nvidia-smi"):
        return "nvidia-smi    # says what the driver says"
    inside = permission.container()
    if inside in ("docker", "podman"):
        return f"{inside} run --gpus all …"
    return "lspci | grep -i nvidia    # is there a GPU that lacks its driver?"


# ------------------------------------------------------------------------------------------------------------- stacks


def py_spy(servers: Sequence[Found]) -> Capability:
    pids = [pid for server in servers for pid in server.pids[:2]]
    path = next((path for path in pyspy.find(pids) if cache.runs(path)), None)
    if path is not None:
        return Capability("py-spy", OK, f"{path} ({_whence(path)})")
    return Capability(
        "py-spy",
        LESS,
        f"none here for {os.uname().machine}",
        "launchmon sends its own when it attaches; where that fails, only runs that it launched show stacks",
        "pip install py-spy    # in the server's environment",
    )


def _whence(path: str) -> str:
    folder = os.path.dirname(path)
    if folder == os.path.dirname(sys.executable):
        return "beside the agent's Python"
    if folder in cache.places():
        return "sent by a client"
    if folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        return "on PATH"
    return "in the server's environment"


def ptrace(servers: Sequence[Found]) -> Capability:
    """Of each server here; where none runs, whether a child could read its parent."""
    cost = "no stacks of servers that somebody else started; those that launchmon launches write theirs themselves"
    for server in servers:
        refused = next(filter(None, map(permission.check, server.pids[:2])), None)
        if refused is not None:
            return Capability("ptrace", LESS, f"{refused.what}: {refused.cause}", cost, refused.try_)
    if servers:
        return Capability("ptrace", OK, f"allowed for {_named(servers)}")
    refused = permission.check(os.getpid())
    if refused is None:
        return Capability("ptrace", OK, "allowed for processes of this user (no server runs here now)")
    return Capability("ptrace", LESS, refused.cause, cost, refused.try_)


# ------------------------------------------------------------------------------------------------------- other sources


def dmesg() -> Capability:
    kernel = Kmsg()
    readable = kernel.failure is None
    sensor = KernelSensor(readers=[kernel, Journal()])
    try:
        if readable:
            return Capability("dmesg", OK, "kernel messages are read from /dev/kmsg")
        until = time.monotonic() + JOURNAL_S
        while time.monotonic() < until:
            for notice in sensor.poll(time.time(), ()):
                if isinstance(notice, Notice):
                    cost = "Xid errors, out-of-memory kills and segmentation faults are not told"
                    reasons = notice.text.partition("cannot be read: ")[2]
                    return Capability("dmesg", LESS, reasons, cost, "sudo sysctl kernel.dmesg_restrict=0")
            time.sleep(0.1)
        return Capability("dmesg", OK, "kernel messages are read from the journal")
    finally:
        sensor.close()


def nccl_ras(servers: Sequence[Found]) -> Capability:
    """Asks the NCCL of each server that is no simulation."""
    asked = [server for server in servers if not server.simulated]
    if not asked:
        return Capability("nccl-ras", OK, "asked of each server; one that launchmon launches has an address of its own")
    for server in asked:
        ranks = [Process(pid, 0.0, SCHEDULER) for pid in server.pids[1:]]
        answer = RasSensor(server.pid).sample(time.time(), ranks, outstanding=True)
        if answer is None or answer.error is not None:
            why = "it has no ranks yet" if answer is None else f"{answer.address}: {answer.error}"
            cost = "a dead-lock is told by stacks alone, and not by NCCL's own counts of each rank"
            return Capability("nccl-ras", LESS, f"of {_named([server])}, {why}", cost, "launchmon dump")
    return Capability("nccl-ras", OK, f"answers for {_named(asked)}")


def tmux() -> Capability:
    cost = "the log of a server in a tmux pane cannot be read from the pane"
    if shutil.which("tmux") is None:
        return Capability("tmux", LESS, "not installed", cost, installing("tmux"))
    try:
        done = subprocess.run(
            ["tmux", "-V"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=3, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Capability("tmux", LESS, f"it does not run: {error}", cost, "tmux -V")
    return Capability("tmux", OK, done.stdout.strip() or "of unknown version")


def installing(package: str) -> str:
    """The command that installs a package of the system here."""
    for manager, words in (("apt-get", "apt-get install"), ("dnf", "dnf install"), ("apk", "apk add")):
        if shutil.which(manager):
            return f"sudo {words} {package}"
    return f"install {package} with this system's package manager"


def _named(servers: Sequence[Found]) -> str:
    shown = ", ".join(str(server.pid) for server in servers[:4])
    return f"server {shown}" + (f" and {len(servers) - 4} more" if len(servers) > 4 else "")
