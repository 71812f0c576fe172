"""What a relaunch starts from, and what it would start: command, environment, difference. Starts and ends nothing.

The next attempt gets the environment of the one before, secrets included, which the recorded changes do not hold: it is
read from the running server. Of a server that has ended it is ours with the recorded changes; a secret that was set
for that run alone is lost then, and has to be given again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from launchmon_agent.discover import Found
from launchmon_agent.errors import Refused
from launchmon_agent.installed import interpreter as interpreter_of
from launchmon_agent.runs import directory as directories
from launchmon_agent.runs.carrying import outlets_of
from launchmon_agent.runs.directory import RunDirectory, RunFile
from launchmon_agent.runs.environment import unprepared
from launchmon_agent.runs.launch import prepare
from launchmon_agent.runs.outlets import Outlets
from launchmon_agent.runs.supervised import refuse_supervised
from launchmon_agent.sensors import proc
from launchmon_agent.sglang.command import parse
from launchmon_agent.sglang.flags.change import Applied, Change, apply, command_line, difference
from launchmon_agent.sglang.flags.model import FlagList
from launchmon_agent.sglang.secrets import HIDDEN, redact_argv, redact_env

Changes = dict[str, "str | None"]


@dataclass(frozen=True)
class Origin:
    """A run as it was started."""

    id: str  # of the run; "pid-4711" for one that somebody else started
    argv: tuple[str, ...]
    cwd: str
    interpreter: str | None
    env: Changes  # the changes that a person asked for, secrets hidden
    environ: dict[str, str] = field(repr=False)  # the whole environment, before any preparation
    environ_of: str = ""  # where that is from, in words
    name: str | None = None
    series: str | None = None
    attempt: int = 1
    newest: int = 1  # number of the newest attempt of the series
    pid: int | None = None  # of the launcher, where it is alive
    while_watched: bool = False
    without: tuple[str, ...] = ()  # preparations that were left out
    outlets: Outlets = field(default_factory=Outlets)
    log: str | None = None  # in its run directory


@dataclass(frozen=True)
class Plan:
    """A relaunch that SGLang would take, as far as can be seen before."""

    origin: Origin
    argv: tuple[str, ...]
    env: Changes  # all changes a person asked for in this series, secrets hidden
    set: Changes = field(repr=False)  # what changes against the origin's environment, secrets not hidden
    difference: tuple[str, ...]  # against the attempt before, in words
    warnings: tuple[str, ...]

    @property
    def port(self) -> int | None:
        return parse(self.argv).port

    def shown(self) -> dict[str, Any]:
        """For a person, secrets hidden."""
        return {
            "argv": redact_argv(self.argv),
            "command": command_line(self.argv, self.env, self.origin.cwd),
            "difference": self.difference,
            "warnings": self.warnings,
            "env": self.env,
            "environment": self.origin.environ_of,
            "output": self.origin.outlets.words(),
            "attempt": self.origin.newest + 1,
            "series": self.origin.series,
        }

    def request(self, **more: Any) -> dict[str, Any]:
        """For :func:`launchmon_agent.keepers.launch`; goes through a pipe, since it holds secrets."""
        return {
            "argv": self.argv,
            "cwd": self.origin.cwd,
            "env": self.set,
            "environ": self.origin.environ,
            "name": self.origin.name,
            "while_watched": self.origin.while_watched,
            "without": self.origin.without,
            "run": {
                **({"series": self.origin.series} if self.origin.series else {}),
                "attempt": self.origin.newest + 1,
                "parent": self.origin.id,
                "change": self.difference,
                "env": self.env,
                "outlets": asdict(self.origin.outlets),
            },
            **more,
        }


# ---------------------------------------------------------------------------------------------------------- the origin


def origin_of_run(place: RunDirectory) -> Origin:
    """Of a run that launchmon launched, alive or not. Raises :class:`Refused`."""
    file = place.read()
    if file is None:
        raise Refused(f"Run {place.id} cannot be relaunched", "its run.json cannot be read", f"ls -l {place.path}")
    server = file.server
    alive = server is not None and proc.alive(server.pid, server.start_time)
    own = proc.environ(server.pid) if alive and server is not None else None
    if own is not None and server is not None:
        environ, said = unprepared(own, file.preparations), f"that of the running server, process {server.pid}"
    else:
        environ, said = _remembered(file), "launchmon's own, with the changes that are recorded"
    return Origin(
        id=place.id,
        argv=file.argv,
        cwd=file.cwd or os.getcwd(),
        interpreter=file.interpreter,
        env=file.env,
        environ=environ,
        environ_of=said,
        name=file.name,
        series=file.series or place.id,
        attempt=file.attempt,
        newest=_newest_attempt(file),
        pid=server.pid if alive and server is not None else None,
        while_watched=file.while_watched,
        without=() if any(one.startswith("PYTHONPATH=") for one in file.preparations) else ("hook",),
        outlets=file.outlets,
        log=place.log,
    )


def origin_of_process(found: Found, before: Origin | None = None) -> Origin:
    """Of a run that somebody else started. Raises :class:`Refused` where a service manager or a container owns it.

    ``before``: the answer when it was last alive, of which nothing can be read once it has ended.
    """
    if before is not None and not proc.alive(found.pid, found.start_time):
        return replace(before, pid=None)
    if found.orphaned or not found.argv:
        raise Refused(
            "This run cannot be relaunched",
            "its launcher is dead, and the command line went with it",
            "launchmon kill, then: launchmon launch -- COMMAND",
        )
    refuse_supervised(found.pid, found.argv)
    own = proc.environ(found.pid)
    return Origin(
        id=f"pid-{found.pid}",
        argv=found.argv,
        cwd=found.cwd or os.getcwd(),
        interpreter=interpreter_of(found.pid),
        env={},
        environ=dict(os.environ) if own is None else own,
        environ_of=(
            f"launchmon's own: that of process {found.pid} cannot be read"
            if own is None
            else f"that of the running server, process {found.pid}"
        ),
        pid=found.pid,
        outlets=before.outlets if before is not None else outlets_of(found.pid),
    )


def _newest_attempt(file: RunFile) -> int:
    """Going back to an earlier attempt makes a new one, behind all others of the series."""
    return max(
        (one.attempt for _, one in directories.runs() if file.series is not None and one.series == file.series),
        default=file.attempt,
    )


def _remembered(file: RunFile) -> dict[str, str]:
    environ = dict(os.environ)
    for name, value in file.env.items():
        if value is None:
            environ.pop(name, None)
        elif HIDDEN not in value:
            environ[name] = value
    return environ


# ------------------------------------------------------------------------------------------------------------ the plan


def plan(origin: Origin, change: Change, flags: FlagList, back_to: RunFile | None = None) -> Plan:
    """What would be started. Raises :class:`Refused` where SGLang would end at once, or something is missing.

    ``back_to``: the attempt whose command and variables are changed, instead of the origin's.
    """
    base, base_env = (origin.argv, origin.env) if back_to is None else (back_to.argv, back_to.env)
    applied: Applied = apply(base, change, flags)
    env: Changes = {**base_env, **redact_env(change.environment)}
    changes = {**_way_back(origin, base_env), **change.environment}
    lost = [
        name
        for name, value in env.items()
        if value is not None and HIDDEN in value and name not in {**origin.environ, **change.set}
    ]
    if lost:
        raise Refused(
            f"The value of {', '.join(lost)} is not known any more",
            "secrets are not recorded, and the server that had it has ended",
            f"launchmon relaunch --set {lost[0]}=…",
        )
    return Plan(
        origin=origin,
        argv=applied.argv,
        env=env,
        set=changes,
        difference=difference(origin.argv, applied.argv, origin.env, env, flags),
        warnings=applied.warnings,
    )


def check(found: Plan) -> None:
    """Files, program and interpreter are there. The port is not asked for: the old run has it. Raises Refused."""
    prepare(found.argv, env=found.set, cwd=found.origin.cwd, environ=found.origin.environ, port_in_use=True)


def _way_back(origin: Origin, env: Mapping[str, str | None]) -> Changes:
    """What leads from the origin's environment to one with these changes instead of its own."""
    back: Changes = {name: os.environ.get(name) for name in origin.env if name not in env}
    for name, value in env.items():
        if value is None or HIDDEN not in value:
            back[name] = value
    return back
