"""The environment and the directory that a login on this machine begins with: for a server that is started from afar.

An agent that came over SSH has the short environment of a command, without what a login sets up (PATH, conda, modules,
proxies). So the user's login shell is asked once, for at most :data:`LIMIT_S`. What its startup files print is told
from the answer by marks around it, and none of them can ask anything: there is no terminal and no input.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LIMIT_S = 10.0
"""A startup file may wait for a network file system; beyond that somebody waits for input that never comes."""

_OF_THE_SHELL = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "SHELL_SESSION_ID"})
"""What a shell sets for itself."""


@dataclass(frozen=True)
class Login:
    """``said``: a sentence on where ``environ`` comes from."""

    environ: dict[str, str]
    home: str
    said: str


def prepared(args: dict[str, Any]) -> dict[str, Any]:
    """A launch as the keeper takes it. With ``login`` in ``args`` its environment and directory are those of a login.

    ``cwd`` is then relative to the login's home, which it is by default. Blocking, for a thread.
    """
    if not args.get("login"):
        return args
    login = ask()
    cwd = os.path.join(login.home, os.path.expanduser(args.get("cwd") or ""))
    return {**args, "environ": login.environ, "cwd": cwd, "notes": [login.said]}


def ask(environ: Mapping[str, str] | None = None, limit_s: float = LIMIT_S) -> Login:
    """``environ``: what the shell itself gets; by default that of this process, which is used where it gives none."""
    environ = dict(os.environ if environ is None else environ)
    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:  # a container's user without an entry
        return Login(environ, environ.get("HOME", "/"), "environment: the agent's, as this user has no login shell")
    shell = environ.get("SHELL") or user.pw_shell or "/bin/sh"
    home = environ.get("HOME") or user.pw_dir
    found = _environment_of(shell, {**environ, "HOME": home}, home, limit_s)
    if isinstance(found, str):
        return Login(environ, home, f"environment: the agent's own, since the login shell {shell} {found}")
    return Login(found, home, f"environment: that of a login shell ({shell})")


def _environment_of(shell: str, environ: dict[str, str], home: str, limit_s: float) -> dict[str, str] | str:
    """What a login shell gives to a command, or why it gave nothing: "…could not be started"."""
    begin, end = (f"{which}-{secrets.token_hex(8)}".encode() for which in ("begin", "end"))
    script = f"printf %s {begin.decode()}; env -0; printf %s {end.decode()}"
    try:
        process = subprocess.Popen(
            [shell, "-l", "-c", script],
            cwd=home if os.path.isdir(home) else "/",
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        return f"could not be started ({error.strerror})"
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"did not get through its startup files within {limit_s:.0f} s"
    body = output.rpartition(begin)[2].partition(end)
    if begin not in output or not body[1]:
        return f"did not answer (status {process.returncode})"
    pairs = [os.fsdecode(entry).partition("=")[::2] for entry in body[0].split(b"\0") if b"=" in entry]
    return {name: value for name, value in pairs if name and name not in _OF_THE_SHELL}
