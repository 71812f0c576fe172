"""What a person needs who has no command to launch yet: Pythons with SGLang, its flags, directories, a look ahead.

Blocking; for a thread. Starts nothing: the launch itself is the one that every client asks for.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from launchmon_agent import login
from launchmon_agent.discover import discover
from launchmon_agent.errors import Refused
from launchmon_agent.installed import interpreter
from launchmon_agent.preflight.look import at_once, look
from launchmon_agent.redaction import redacted_refusal
from launchmon_agent.runs import checks, directory
from launchmon_agent.runs.flaglist import flag_list
from launchmon_agent.runs.launch import prepare
from launchmon_agent.software import software

MODULE = ("-m", "sglang.launch_server")
OPERATIONS = frozenset({"launch-options", "launch-plan", "directories"})

MOST_PYTHONS = 8
MOST_DIRECTORIES = 200
RECENT_RUNS = 20
LIST_S = 2.0
"""A directory on a network file system may not answer."""

_PLACES = ("~/.venv", "~/venv", "/opt/venv", "/opt/conda", "/venv")
_CONFIG = "config.json"
"""Every model on the hub has one beside its weights."""


class Beginnings:
    """For one client, which asks again whenever something was changed: what a login gives is asked once."""

    def __init__(self) -> None:
        self._login: dict[str, Any] | None = None

    def answer(self, do: str, args: dict[str, Any]) -> Any:
        """Raises :class:`Refused`."""
        environ, cwd = self._where(args)
        match do:
            case "launch-options":
                return _options(args.get("python"), cwd, environ)
            case "launch-plan":
                return _plan([str(word) for word in args["argv"]], args.get("env") or {}, cwd, environ)
        return directories(str(args.get("text", "")), cwd)

    def _where(self, args: dict[str, Any]) -> tuple[dict[str, str], str]:
        """Environment and directory of the launch; ``args`` as those of ``launch``."""
        if self._login is None:
            self._login = login.prepared({"login": args.get("login"), "cwd": args.get("cwd")})
        return self._login.get("environ") or dict(os.environ), self._login.get("cwd") or os.getcwd()


def _options(python: str | None, cwd: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """``python``: whose flags are wanted; None: those of the best that is found. Raises :class:`Refused`."""
    found = pythons(environ)
    word = python or next((path for path, _ in found), "python3")
    inside = os.path.join(word, "bin", "python")
    if os.access(os.path.join(cwd, inside), os.X_OK):  # the directory of a virtual environment
        word = inside
    program = checks.resolve([word], cwd, environ)
    argv = [word, *MODULE]
    flags = flag_list(argv, checks.interpreter_of(program, argv, environ), cwd, environ)
    return {
        "python": word,
        "pythons": [{"path": path, "version": version} for path, version in found],
        "version": flags.version,
        "flags_complete": flags.complete,
        "flags": flags.flags,
        "cwd": cwd,
    }


def pythons(environ: Mapping[str, str]) -> list[tuple[str, str | None]]:
    """Path and version of SGLang of the Pythons that may have it; those that have it first, at most eight."""
    found: dict[str, str | None] = {}
    for path in _candidates(environ):
        if path not in found and os.access(path, os.X_OK):
            found[path] = software(None, path).get("sglang")
    return sorted(found.items(), key=lambda pair: pair[1] is None)[:MOST_PYTHONS]


def _candidates(environ: Mapping[str, str]) -> Iterator[str]:
    """Of the environment that is active, of servers that run or ran here, then of the usual places."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if os.path.isabs(environ.get(name, "")):
            yield os.path.join(environ[name], "bin", "python")
    yield from filter(None, (interpreter(server.pid) for server in discover() if not server.simulated))
    for _, file in list(directory.runs())[:RECENT_RUNS]:
        if file.interpreter is not None and "sglang.launch_server" in " ".join(file.argv):
            yield file.interpreter
    path = environ.get("PATH", os.defpath)
    for name in ("python", "python3"):
        on_path = shutil.which(name, path=path)
        if on_path is not None:
            yield on_path
    script = shutil.which("sglang", path=path)
    if script is not None:
        own = checks.interpreter_of(script, [script], environ)
        if own is not None:
            yield own
    for place in _PLACES:
        yield os.path.join(os.path.expanduser(place), "bin", "python")


def _plan(argv: list[str], env: Mapping[str, str | None], cwd: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """What keeps this command from starting (``refused``), and what is worth knowing before (``findings``)."""
    try:
        plan = prepare(argv, env=env, cwd=cwd, environ=environ)
    except Refused as refused:
        return {"refused": redacted_refusal(refused).as_json(), "findings": [], "preparations": []}
    return {
        "refused": None,
        "findings": [finding.as_json() for finding in look(plan)],
        "preparations": list(plan.preparations),
    }


def directories(text: str, cwd: str) -> dict[str, Any]:
    """How a path that is being typed may go on: directories, each with whether a model lies in it.

    ``~`` is replaced, since no shell will do it later. ``late``: the file system does not answer.
    """
    whole = os.path.expanduser(text)
    folder, begin = os.path.split(whole)
    seen = at_once({"names": lambda: _names(os.path.join(cwd, folder), begin)}, LIST_S)
    names = seen.get("names") or []
    return {
        "directories": [
            {"path": os.path.join(folder, name), "model": model} for name, model in names[:MOST_DIRECTORIES]
        ],
        "more": len(names) > MOST_DIRECTORIES,
        "late": "names" not in seen,
    }


def _names(folder: str, begin: str) -> list[tuple[str, bool]]:
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            hidden = entry.name.startswith(".") and not begin.startswith(".")
            if entry.name.startswith(begin) and not hidden and entry.is_dir():
                found.append((entry.name, os.path.exists(os.path.join(entry.path, _CONFIG))))
    return sorted(found)
