"""What preflight looks at: files, processes, GPUs, limits. Each look may fail by itself, and then says nothing."""

from __future__ import annotations

import glob
import os
import resource
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launchmon_agent.errors import Refused
from launchmon_agent.events import Gpus, Orphan
from launchmon_agent.modelfiles import INDEX, read_json, shards, snapshot
from launchmon_agent.runs.launch import Plan
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.gpu import GpuSensor
from launchmon_agent.sglang.command import parse
from launchmon_agent.stacks.permission import check as ptrace_refusal

SHM = "/dev/shm"  # noqa: S108 - only looked at

_BATONS = ("*/*/lock", "*/lock", "lock")
_AITER = (".aiter/**/lock_*", "aiter/**/lock_*")


@dataclass(frozen=True)
class Model:
    """The model's directory: its config, and which files of its index are not there."""

    path: str
    config: dict[str, Any] | None = None
    files: int | None = None  # that the index names
    missing: tuple[str, ...] = ()  # of them, those that are not there, or empty


@dataclass(frozen=True)
class Lock:
    """A lock file of a build that nobody alive has open."""

    path: str
    age_s: float


@dataclass(frozen=True)
class Limits:
    """Hard limits that the server inherits; None: unlimited."""

    open_files: int | None
    locked_memory: int | None  # bytes


@dataclass(frozen=True)
class Facts:
    """``None``: it could not be seen, or not in time."""

    here: bool = True  # the server will run on this machine; False: behind docker, srun or ssh
    gpus: Gpus | None = None
    model: Model | None = None
    orphans: tuple[Orphan, ...] | None = None
    locks: tuple[Lock, ...] | None = None
    interfaces: frozenset[str] | None = None
    shm_total: int | None = None
    shm_free: int | None = None
    limits: Limits | None = None
    py_spy: bool | None = None
    ptrace: Refused | None = None  # why stacks could not be read
    host_name_is_loopback: bool | None = None
    late: tuple[str, ...] = ()  # looks that did not end in time


def gpus(now: float) -> Gpus:
    sensor = GpuSensor()
    try:
        return sensor.sample(now)
    finally:
        sensor.close()


def model(plan: Plan) -> Model | None:
    """None: no local directory is known for it."""
    name = parse(plan.argv).model
    if name is None:
        return None
    path = os.path.join(plan.cwd, name)
    if not os.path.isdir(path):
        found = snapshot(name, plan.env)
        if found is None:
            return None
        path = found
    config = read_json(os.path.join(path, "config.json"))
    names = shards(read_json(os.path.join(path, INDEX)))
    missing = tuple(name for name in names if not _has_content(os.path.join(path, name)))
    return Model(path, config, len(names) or None, missing)


def _has_content(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0
    except OSError:
        return False


def locks(env: Mapping[str, str], now: float) -> tuple[Lock, ...]:
    """Locks of torch's extension builds, and of those made after its pattern, that nobody has open.

    Their holder makes the file and keeps it open (torch/utils/file_baton.py); who finds it waits for ever until it is
    removed. Locks of flashinfer, the hub and DeepGEMM are taken with flock and end with their holder.
    """
    roots = [env.get("TORCH_EXTENSIONS_DIR") or _home(env, ".cache", "torch_extensions")]
    patterns = [os.path.join(glob.escape(root), pattern) for root in roots for pattern in _BATONS]
    patterns += [os.path.join(glob.escape(_home(env)), pattern) for pattern in _AITER]
    paths = {os.path.realpath(path) for pattern in patterns for path in glob.iglob(pattern, recursive=True)}
    paths = {path for path in paths if os.path.isfile(path)}
    if not paths:
        return ()
    held = {link for pid in proc.pids() for link in (proc.fd_links(pid) or {}).values()}
    found = []
    for path in sorted(paths - held):
        try:
            found.append(Lock(path, max(0.0, now - os.stat(path).st_mtime)))
        except OSError:
            continue
    return tuple(found)


def _home(env: Mapping[str, str], *below: str) -> str:
    return os.path.join(env.get("HOME") or os.path.expanduser("~"), *below)


def interfaces() -> frozenset[str]:
    return frozenset(name for _, name in socket.if_nameindex())


def shm() -> tuple[int, int] | None:
    """Total and free bytes of /dev/shm."""
    try:
        found = os.statvfs(SHM)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


def limits() -> Limits:
    open_files, locked = (resource.getrlimit(which)[1] for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK))
    return Limits(
        None if open_files == resource.RLIM_INFINITY else open_files,
        None if locked == resource.RLIM_INFINITY else locked,
    )


def py_spy(plan: Plan) -> bool:
    """Whether SGLang will find it: it calls ``py-spy`` through a shell."""
    return shutil.which("py-spy", path=plan.env.get("PATH", os.defpath)) is not None


def ptrace() -> Refused | None:
    """Whether a py-spy that we start may read us: as it would a server of ours."""
    return ptrace_refusal(os.getpid())


def host_name_is_loopback() -> bool | None:
    """Whether ``/etc/hosts`` sends this machine's own name to itself, which other nodes are then told."""
    name = socket.gethostname()
    for line in (proc.read("/etc/hosts", 1 << 20) or b"").decode("utf-8", "replace").splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        if name in names:
            return address.startswith("127.") or address == "::1"
    return None
