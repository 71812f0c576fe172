"""Whether the stacks of a process may be read, tested before it is needed, and the one reason and remedy if not.

The kernel's order (``kernel/ptrace.c``, ``security/yama``): same user and a dumpable target whose capabilities do not
exceed the reader's, else CAP_SYS_PTRACE in the target's user namespace; then Yama's own rule on top. Opening
``/proc/PID/mem`` read-only makes the same test as an attach and has no effect on the process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass

from launchmon_agent.errors import Refused
from launchmon_agent.sensors import proc

_CAP_SYS_PTRACE = 19
_OVERFLOW_UID = 65534
_PROBE = "import os,sys; os.open(sys.argv[1], os.O_RDONLY)"
_PROBE_S = 5.0


@dataclass(frozen=True)
class Facts:
    """What decides about reading one process. None: not known."""

    pid: int
    can_open: bool  # /proc/PID/mem, by a process that we started
    our_uid: int
    uid: int | None = None  # of the process
    scope: int | None = None  # kernel.yama.ptrace_scope; None: no Yama here
    capability: bool = False  # we have CAP_SYS_PTRACE in our own user namespace
    exceeds: bool | None = None  # the process has capabilities that we have not
    dumpable: bool | None = None
    same_user_namespace: bool | None = None
    no_new_privileges: bool = False  # sudo cannot work
    container: str | None = None  # docker | podman | kubernetes | container


def check(pid: int) -> Refused | None:
    """None when the process may be read, or is gone."""
    found = facts(pid)
    return None if found is None else cause(found)


def facts(pid: int) -> Facts | None:
    """None when the process is gone."""
    theirs = _status(str(pid))
    if theirs is None:
        return None
    ours = _status("self") or {}
    scope = _scope()
    effective = int(ours.get("CapEff", "0"), 16)
    capability = bool(effective >> _CAP_SYS_PTRACE & 1)
    can_open = _can_open(pid)
    if can_open and scope == 1 and not capability:
        can_open = _child_can_open(pid)
    return Facts(
        pid=pid,
        can_open=can_open,
        our_uid=os.geteuid(),
        uid=_uid(theirs),
        scope=scope,
        capability=capability,
        exceeds=_exceeds(theirs, ours),
        dumpable=_dumpable(pid, theirs),
        same_user_namespace=_same_namespace(pid),
        no_new_privileges=ours.get("NoNewPrivs") == "1",
        container=container(),
    )


def cause(facts: Facts, *, read_refused: bool = False) -> Refused | None:
    """The likeliest reason and one remedy. ``read_refused``: the test passed, but reading memory was refused all the
    same. Pure."""
    if facts.can_open and not read_refused:
        return None
    what = f"the stacks of process {facts.pid} cannot be read"
    as_root = f"sudo launchmon dump --pid {facts.pid}"
    if facts.can_open:
        return Refused(what, "a seccomp filter forbids the system call that reads another process", _seccomp(facts))
    if facts.scope == 3:
        return Refused(
            what,
            "kernel.yama.ptrace_scope is 3: nobody may read another process until the machine is started anew",
            "launchmon relaunch    # a run that launchmon launches writes its stacks itself",
        )
    if facts.same_user_namespace is False and facts.uid == _OVERFLOW_UID:
        return Refused(what, "it belongs to a user who does not exist in this user namespace", _outside(facts))
    if facts.our_uid not in (0, facts.uid):
        if facts.no_new_privileges:
            return Refused(what, f"it belongs to another user (uid {facts.uid}, we are {facts.our_uid})", _add(facts))
        return Refused(what, f"it belongs to another user (uid {facts.uid}, we are {facts.our_uid})", as_root)
    if facts.our_uid == 0 and not facts.capability:
        return Refused(what, "we are root without the capability SYS_PTRACE", _add(facts))
    if facts.our_uid == 0:
        elsewhere = "it runs in another user namespace than ours, or a security module forbids it"
        return Refused(what, elsewhere, _outside(facts))
    if facts.scope == 2:
        remedy = _add(facts) if facts.container else as_root
        return Refused(what, "kernel.yama.ptrace_scope is 2: only with the capability SYS_PTRACE may one read", remedy)
    if facts.scope == 1:
        return Refused(
            what,
            "kernel.yama.ptrace_scope is 1: only a parent of the server may read it",
            "sudo sysctl kernel.yama.ptrace_scope=0    # until the next boot" if not facts.container else _add(facts),
        )
    if facts.exceeds:
        return Refused(what, "it has capabilities that we have not", _add(facts) if facts.container else as_root)
    if facts.dumpable is False:
        return Refused(what, "it has made itself unreadable, or its program file may not be read by us", as_root)
    return Refused(what, "the kernel refuses it, perhaps by a security module (SELinux, AppArmor)", as_root)


def container() -> str | None:
    """Which kind of container we run in, by the marks that its runtime leaves; None: in none that shows."""
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if os.path.exists("/.dockerenv"):
        return "docker"
    if os.path.exists("/run/.containerenv"):
        return "podman"
    return "container" if b"container=" in (proc.read(f"{proc.PROC}/1/environ") or b"") else None


def _add(facts: Facts) -> str:
    if facts.container == "kubernetes":
        return 'set securityContext: {capabilities: {add: ["SYS_PTRACE"]}} in the pod, and start it anew'
    if facts.container in ("docker", "podman"):
        return f"{facts.container} run --cap-add SYS_PTRACE …    # or run launchmon on the host"
    return f"run it outside the container: sudo launchmon dump --pid {facts.pid}"


def _seccomp(facts: Facts) -> str:
    if facts.container == "kubernetes":
        return 'set securityContext: {capabilities: {add: ["SYS_PTRACE"]}} in the pod, and start it anew'
    tool = facts.container if facts.container in ("docker", "podman") else "docker"
    return f"{tool} run --cap-add SYS_PTRACE --security-opt seccomp=unconfined …    # or run launchmon on the host"


def _outside(facts: Facts) -> str:
    if facts.container in ("docker", "podman", "kubernetes"):
        return "run launchmon on the host: from there it can look into the container"
    return f"sudo nsenter -U -t {facts.pid} launchmon dump --pid {facts.pid}"


# ------------------------------------------------------------------------------------------------------------- readings


def _can_open(pid: int) -> bool:
    try:
        os.close(os.open(f"{proc.PROC}/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _child_can_open(pid: int) -> bool:
    """Yama lets an ancestor read, which the keeper is and the py-spy that it starts is not: so a child has to try."""
    command = [sys.executable, "-I", "-S", "-c", _PROBE, f"{proc.PROC}/{pid}/mem"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return True  # not known: then the attempt decides
    return done.returncode == 0


def _scope() -> int | None:
    data = (proc.read(f"{proc.PROC}/sys/kernel/yama/ptrace_scope") or b"").strip()
    return int(data) if data.isdigit() else None


def _status(pid: str) -> dict[str, str] | None:
    data = proc.read(f"{proc.PROC}/{pid}/status")
    if not data:
        return None
    return dict(re.findall(r"^(\w+):\s*(.*?)\s*$", data.decode("utf-8", "replace"), re.MULTILINE))


def _uid(status: dict[str, str]) -> int | None:
    words = status.get("Uid", "").split()
    return int(words[1]) if len(words) > 1 else None


def _exceeds(theirs: dict[str, str], ours: dict[str, str]) -> bool | None:
    if "CapPrm" not in theirs or "CapEff" not in ours:
        return None
    return bool(int(theirs["CapPrm"], 16) & ~int(ours["CapEff"], 16))


def _dumpable(pid: int, status: dict[str, str]) -> bool | None:
    """The kernel gives the entries of a process that is not dumpable to root (proc(5))."""
    uid = _uid(status)
    try:
        owner = os.stat(f"{proc.PROC}/{pid}/mem").st_uid
    except OSError:
        return None
    return None if uid in (None, 0) else owner == uid


def _same_namespace(pid: int) -> bool | None:
    """None when it may not be read, which another user's never may."""
    theirs = proc.namespace(pid, "user")
    return None if theirs is None else theirs == proc.namespace("self", "user")
