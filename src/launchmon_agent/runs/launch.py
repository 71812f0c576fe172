"""Starting a server so that it outlives everyone and is easy to diagnose later.

The server gets its own session (SGLang never leaves it, so even orphans are found by it), no terminal, and a log file
for stdout and stderr. A few environment variables are prepared; each preparation is shown in words before the start,
changes nothing that a person has set, and can be left out by its id.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from launchmon_agent.errors import Refused
from launchmon_agent.runs import checks
from launchmon_agent.runs.directory import RunDirectory
from launchmon_agent.sensors import proc
from launchmon_agent.sglang.command import parse
from launchmon_agent.sglang.secrets import redact_env
from launchmon_agent.stacks.plant import FOLDER as HOOK_FOLDER
from launchmon_agent.stacks.plant import plant

PREPARATIONS: dict[str, str] = {
    "path": "SGLang calls py-spy through it",
    "environ": "process titles leave the environment of each rank readable",
    "unbuffered": "lines reach the log when they are written",
    "nccl-ras": "NCCL's own status port, of this run alone",
    "hook": "its stacks can be read without ptrace, on SIGUSR2; hands over to a sitecustomize that is there",
}
"""What is prepared for a run that launchmon launches → what it is good for."""


@dataclass(frozen=True)
class Plan:
    """A start that has been checked. ``env`` holds secrets."""

    argv: tuple[str, ...]
    program: str  # what argv[0] is, an absolute path
    interpreter: str | None  # the Python that runs the server, an absolute path; None where it cannot be seen
    cwd: str
    env: dict[str, str] = field(repr=False)  # the whole environment
    shown_env: dict[str, str | None]  # the changes a person asked for, secrets hidden; None: removed
    preparations: tuple[str, ...]  # "PYTHONUNBUFFERED=1: lines reach the log when they are written"
    hook: bool = False  # the launch hook is to be planted in the run's directory at the start


def prepare(
    argv: Sequence[str],
    env: Mapping[str, str | None] | None = None,
    cwd: str | None = None,
    without: Collection[str] = (),
    environ: Mapping[str, str] | None = None,
    port_in_use: bool = False,
) -> Plan:
    """Checks a command and says what would be started. Starts nothing. Raises :class:`Refused`.

    ``env`` are changes to ``environ`` (default: our own), None removes a variable. ``without`` names the
    :data:`PREPARATIONS` to leave out. ``port_in_use``: the port is not asked for, since the run that has it goes first.
    Looks at files, at ports, and at the server's interpreter for some 50 ms.
    """
    changes = dict(env or {})
    cwd = os.path.abspath(os.path.expanduser(cwd or os.getcwd()))
    whole = dict(os.environ if environ is None else environ)
    for name, value in changes.items():
        if value is None:
            whole.pop(name, None)
        else:
            whole[name] = value
    command = parse(argv)
    checks.check_variables(changes)
    checks.check_directory(cwd)
    program = checks.resolve(argv, cwd, whole)
    interpreter = checks.interpreter_of(program, argv, whole)
    checks.check_model(command, cwd)
    if not port_in_use:
        checks.check_port(command)
    checks.check_sglang(command, interpreter, cwd, whole)
    return Plan(
        argv=tuple(argv),
        program=program,
        interpreter=interpreter,
        cwd=cwd,
        shown_env=redact_env(changes),
        preparations=tuple(_set_preparations(whole, interpreter, without)),
        env=whole,
        hook="hook" not in without,
    )


def start(plan: Plan, directory: RunDirectory) -> tuple[int, float]:
    """Starts the server and returns its pid and start time. Raises :class:`Refused`.

    The caller becomes its parent and has to ``waitpid`` for it. ``run.json`` is not touched.
    """
    env = _planted(directory, plan) if plan.hook else plan.env
    try:
        log = os.open(directory.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refused(f"The log {directory.log} cannot be written", error.strerror or str(error)) from error
    try:
        process = subprocess.Popen(
            plan.argv,
            executable=plan.program,
            cwd=plan.cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            close_fds=True,
            start_new_session=True,
            preexec_fn=_default_signals,
        )
    except OSError as error:
        raise Refused(
            f"{plan.argv[0]} could not be started",
            error.strerror or str(error),
            f"head -1 {plan.program}    # a script needs a first line such as #!/bin/sh",
        ) from error
    finally:
        os.close(log)
    proc.wait_for_exec(process.pid)
    started = proc.start_time(process.pid)  # a zombie at worst, since only the caller can wait for it
    process.returncode = 0  # handed over: else the subprocess module would wait for it some time, and eat its status
    return process.pid, 0.0 if started is None else started


def _planted(directory: RunDirectory, plan: Plan) -> dict[str, str]:
    """The environment with the launch hook, which lets the caller (the keeper) read the server's stacks."""
    try:
        return plant(directory.path, plan.env, keeper=os.getpid())
    except OSError as error:
        raise Refused(f"The launch hook could not be written below {directory.path}", str(error)) from error


def _default_signals() -> None:
    """In the child: undoes ignored signals (nohup, a shell's ``&``) and a blocked mask, which an exec would keep.

    A server that ignores SIGINT or SIGTERM could not be stopped in order.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _set_preparations(env: dict[str, str], interpreter: str | None, without: Collection[str]) -> Iterator[str]:
    """Changes ``env`` and says so. What a person has set stays."""
    if interpreter is not None and "path" not in without:
        folder = os.path.dirname(interpreter)
        path = env.get("PATH") or os.defpath
        if path.split(os.pathsep)[0] != folder:
            env["PATH"] = os.pathsep.join((folder, path))
            yield f"PATH={folder}:…: {PREPARATIONS['path']}"
    for name, variable, value in (
        ("environ", "SPT_NOENV", "1"),
        ("unbuffered", "PYTHONUNBUFFERED", "1"),
        ("nccl-ras", "NCCL_RAS_ADDR", f"localhost:{_free_port()}"),
    ):
        if variable not in env and name not in without:
            env[variable] = value
            yield f"{variable}={value}: {PREPARATIONS[name]}"
    if "hook" not in without:
        yield f"PYTHONPATH=<run directory>/{HOOK_FOLDER}:…: {PREPARATIONS['hook']}"


def _free_port() -> int:
    """A port that is free now, on the loopback address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
