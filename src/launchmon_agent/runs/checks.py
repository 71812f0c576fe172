"""Mistakes in a command that can be found before it is started, so that nobody waits a minute for them.

SGLang itself checks its port only after the whole load, and takes a missing model directory for a hub's repository
name ("Repo id must be in the form …"). Unknown flags are left to SGLang.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence

from launchmon_agent.errors import Refused
from launchmon_agent.sensors import proc
from launchmon_agent.sglang.command import Command, is_python
from launchmon_agent.sglang.secrets import redact_argv

_PROBE = "import importlib.util as u,sys\nsys.exit(0 if u.find_spec('sglang') else 44)"
_PROBE_TIMEOUT_S = 20.0
"""An interpreter on a cold network file system may need seconds; beyond this the question is dropped."""

_HUB_NAME = re.compile(r"^[\w.-]+(/[\w.-]+)?$")
_LOCAL_WRAPPERS = frozenset({"env", "nice", "ionice", "nohup", "numactl", "stdbuf", "taskset", "time", "timeout"})
_REMOTE = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def resolve(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> str:
    """The program that ``argv`` would run, as an absolute path. Raises :class:`Refused`."""
    if not argv or not argv[0].strip():
        raise Refused("There is no command to launch", "nothing follows --", "launchmon launch -- sglang serve MODEL")
    word = argv[0]
    if "/" in word:
        path = os.path.join(cwd, word)
        if os.path.isdir(path):
            raise Refused(f"{word} is a directory", "a command is a program and its arguments")
        if not os.path.exists(path):
            raise Refused(f"{word} does not exist", f"it was looked for at {os.path.normpath(path)}", f"ls -l {path}")
        if not os.access(path, os.X_OK):
            raise Refused(f"{word} cannot be executed", "it has no x permission for this user", f"chmod +x {path}")
        return os.path.normpath(path)
    found = shutil.which(word, path=env.get("PATH", os.defpath))
    if found is None:
        first, equals, _ = word.partition("=")
        if equals and first.isidentifier():
            raise Refused(
                f"{first}=… is a variable, not a program",
                "a shell sets it; here the command is started without a shell",
                f"launchmon launch --env {shlex.quote(redact_argv([word])[0])} -- …",
            )
        raise Refused(
            f"The command {word} was not found",
            "it is in no directory of PATH; a virtual environment may not be active",
            "give its full path, such as /venv/bin/python",
        )
    return os.path.join(cwd, found)


def interpreter_of(program: str, argv: Sequence[str], env: Mapping[str, str]) -> str | None:
    """The Python that will run the server, as an absolute path; None where that cannot be seen from outside.

    It is ``program`` itself, the one named in its first line (a console script such as ``sglang``), or the first
    Python word of a wrapped command (``numactl -N 0 python …``). Links are kept: a virtual environment is one.
    """
    if is_python(program):
        return program
    try:
        with open(program, "rb") as file:
            first = file.readline(512)
    except OSError:
        first = b""
    if first.startswith(b"#!"):
        words = os.fsdecode(first[2:]).split()
        if words and is_python(words[0]):
            return words[0]
        if len(words) > 1 and os.path.basename(words[0]) == "env" and is_python(words[1]):
            return shutil.which(words[1], path=env.get("PATH", os.defpath))
    for word in argv[1:]:
        if is_python(word):
            return shutil.which(word, path=env.get("PATH", os.defpath))
    return None


def check_variables(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if not name or "=" in name or "\0" in name + (value or ""):
            raise Refused(f"{name!r} cannot be a variable", "a name is not empty and holds no =", "--env NAME=VALUE")


def check_directory(cwd: str) -> None:
    if not os.path.isdir(cwd):
        raise Refused(
            f"The working directory {cwd} does not exist", "the server would be started there", f"ls -ld {cwd}"
        )


def check_model(command: Command, cwd: str) -> None:
    """A model that can only be a local path must exist."""
    model = command.model
    if not model or not runs_here(command) or _REMOTE.match(model) or not _looks_local(model):
        return
    if os.path.exists(os.path.join(cwd, model)):
        return
    expanded = os.path.join(cwd, os.path.expanduser(model))
    if model.startswith("~") and os.path.exists(expanded):
        raise Refused(
            f"The model path {model} does not exist as it is written",
            "~ is replaced by a shell only at the beginning of a word; the server gets it unchanged",
            f"--model-path {expanded}",
        )
    parent = os.path.dirname(os.path.normpath(expanded))
    while parent and not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    raise Refused(
        f"The model path {model} does not exist", f"{parent} is there; what follows it is not", f"ls {parent}"
    )


def check_port(command: Command) -> None:
    """The server's port must be free: SGLang finds out only after the load, and may then say it is ready."""
    if command.port is None or not runs_here(command) or _can_bind(command.host, command.port):
        return
    owner = proc.port_owner(os.getpid(), command.port)
    if owner is None:
        raise Refused(
            f"Port {command.port} is in use",
            "by a process of another user, or of another container",
            f"--port {command.port + 1}",
        )
    raise Refused(
        f"Port {command.port} is in use",
        f"process {owner} listens there: {describe(owner)}",
        f"--port {command.port + 1}    # or stop it: launchmon kill --pid {owner}",
    )


def check_sglang(command: Command, interpreter: str | None, cwd: str, env: Mapping[str, str]) -> None:
    """The interpreter of ``python -m sglang.…`` must be able to find the package. 20–50 ms, without importing it."""
    if command.entry != "module" or command.simulated or interpreter is None or not runs_here(command):
        return
    try:
        done = subprocess.run(
            [interpreter, "-c", _PROBE],
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return
    except OSError as error:
        raise Refused(f"{interpreter} cannot be run", error.strerror or str(error)) from error
    if done.returncode == 44:
        raise Refused(
            f"SGLang is not installed for {interpreter}",
            "this Python finds no package named sglang",
            f"{interpreter} -m pip install sglang    # or name the Python that has it",
        )
    if done.returncode != 0:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise Refused(f"{interpreter} does not work", last[0] if last else f"it ended with {done.returncode}")


def runs_here(command: Command) -> bool:
    """Whether files and ports of this machine are the server's: not behind ``docker run``, ``srun`` or ``ssh``."""
    return not command.wrapper or os.path.basename(command.wrapper[0]) in _LOCAL_WRAPPERS


def describe(pid: int, longest: int = 120) -> str:
    """A process's command for a person, without secrets: ``python -m sglang.launch_server --port 30000``."""
    words = proc.cmdline(pid)
    row = proc.stat(pid)
    text = " ".join(redact_argv(words)) if words else f"[{row.comm}]" if row else "gone"
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _can_bind(host: str, port: int) -> bool:
    """Whether the server could listen there, asked as uvicorn does; True also where the answer is another trouble."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, OverflowError):
        return True
    for family, kind, protocol, _, address in addresses[:1]:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                return error.errno != errno.EADDRINUSE
            except OverflowError:
                return True
    return True


def _looks_local(model: str) -> bool:
    return model.startswith(("/", ".", "~")) or model.count("/") > 1 or not _HUB_NAME.match(model)
