"""What the verbs share: selectors, opening a session, errors on stderr."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from launchmon import recent
from launchmon.cli.asking import at_hand
from launchmon.cluster.session import AnySession, ClusterSession
from launchmon.connect import Asker, slurm, target
from launchmon.connect.opening import open_pipe
from launchmon.connect.target import LOCAL, Target, options_of
from launchmon.session import Session
from launchmon_agent.errors import Refused

if TYPE_CHECKING:
    from launchmon.session_like import SessionLike

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

PORT = click.IntRange(1, 65535)

EXIT_REFUSED = 1
EXIT_NO_SUCH_RUN = 6
EXIT_INTERRUPTED = 130


def pairs(option: str, changes: Sequence[str], try_: str) -> dict[str, str]:
    """Name → value of each ``K=V`` that was given with an option. Raises :class:`Refused`, with ``try_``."""
    found = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not name or not equals:
            raise Refused(f"{option} {change!r} is not K=V", "", try_)
        found[name] = value
    return found


def complain(refused: Refused) -> None:
    """What happened, the likely cause, one command to run: on stderr."""
    click.echo(f"launchmon: {refused.what}", err=True)
    if refused.cause:
        click.echo(f"  likely cause: {refused.cause}", err=True)
    if refused.try_:
        click.echo(f"  try: {refused.try_}", err=True)


_TARGETS = "launchmon.targets"
"""Where the context of a verb keeps the targets that were named."""

_JOB = "launchmon.job"
"""Where it keeps the Slurm job."""


def targets(function: F) -> F:
    """The options that say on which machines: the same for every verb. :func:`named_targets` has their values."""

    def keep(kind: Callable[[str], Target]) -> Callable[..., None]:
        def callback(context: click.Context, _: click.Parameter, values: tuple[str, ...]) -> None:
            context.meta.setdefault(_TARGETS, []).extend(kind(value) for value in values)

        return callback

    def keep_job(context: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            context.meta[_JOB] = slurm.job(value)

    for option in (
        click.option(
            "--slurm",
            expose_value=False,
            callback=keep_job,
            metavar="JOBID",
            help="On the nodes of this Slurm job. Slurm is asked here, or on the login node that --on or --via names.",
        ),
        click.option(
            "--via",
            multiple=True,
            expose_value=False,
            callback=keep(target.via),
            metavar="COMMAND",
            help="Where COMMAND runs what follows it, e.g. 'docker exec -i NAME'. Repeatable, for several nodes.",
        ),
        click.option(
            "--on",
            multiple=True,
            expose_value=False,
            callback=keep(target.ssh),
            metavar="TARGET",
            help="On user@host[:port], or an alias of your SSH configuration. Repeatable, for several nodes.",
        ),
    ):
        function = option(function)
    return function


class Verbs(click.Group):
    """Verbs whose refusals suggest commands for the targets that were named."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Refused as refused:
            options = [word for where in ctx.meta.get(_TARGETS, ()) for word in where.options]
            if _JOB in ctx.meta:
                options += ["--slurm", ctx.meta[_JOB]]
            raise Refused(refused.what, refused.cause, _aimed(refused.try_, options)) from None


def _aimed(suggestion: str, options: Sequence[str]) -> str:
    """A ``launchmon VERB …`` with the options that name the targets, which whoever suggested it did not know."""
    words = suggestion.split(" ", 2)
    aimed = any(option in suggestion for option in ("--on", "--via", "--slurm"))
    if words[0] != "launchmon" or len(words) < 2 or not options or aimed:
        return suggestion
    return " ".join((*words[:2], shlex.join(options), *words[2:]))


def named_targets() -> tuple[Target, ...]:
    """Of the verb that runs; this machine, when none was named. A Slurm job is one: :func:`nodes_of` asks for its
    nodes. Raises :class:`Refused`."""
    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    named = tuple(meta.get(_TARGETS, ())) or (LOCAL,)
    if _JOB not in meta:
        return named
    if len(named) > 1:
        raise Refused(
            "--slurm finds the nodes by itself, and several targets were named beside it",
            "one --on or --via may say where Slurm is asked: the login node",
            f"launchmon attach --slurm {meta[_JOB]} --on LOGINHOST",
        )
    return (slurm.in_job(meta[_JOB], named[0]),)


async def nodes_of(where: Sequence[Target], asker: Asker | None = None) -> tuple[Target, ...]:
    """The targets themselves, each Slurm job as its nodes. Raises :class:`Refused`."""
    found: list[Target] = []
    for one in where:
        found += await slurm.nodes(one, asker or at_hand()) if one.kind == "slurm" else (one,)
    return tuple(found)


def _keep_run(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> str | None:
    """The run; ``user@host`` among the words is short for ``--on user@host``, since no run's id or name has an @.

    An empty word is what a script makes of a variable that is not set, and must not mean the only run.
    """
    if "" in words:
        raise click.BadParameter("the id or name of a run is empty", context, parameter)
    runs = [word for word in words if "@" not in word or "/" in word]
    context.meta.setdefault(_TARGETS, []).extend(target.ssh(word) for word in words if word not in runs)
    if len(runs) > 1:
        raise click.BadParameter(f"one run at a time: {' '.join(runs)}", context, parameter)
    return runs[0] if runs else None


def selectors(function: F) -> F:
    """The options that say which run: the same for every verb, :func:`targets` among them."""
    function = targets(function)
    for option in (
        click.option("--log-command", metavar="CMD", help="Read the log from what CMD prints."),
        click.option("--log", metavar="PATH", type=click.Path(), help="Read the log from PATH."),
        click.option("--tmux", metavar="PANE", help="The run in this tmux pane, e.g. %3 or main:1.0."),
        click.option("--port", type=PORT, metavar="PORT", help="The run that serves, or will serve, on PORT."),
        click.option("--pid", type=int, metavar="PID", help="The run with this launcher or any process of it."),
        click.argument("run", nargs=-1, callback=_keep_run, metavar="[user@host]… [RUN]"),
    ):
        function = option(function)
    return function


def on_verdict(function: F) -> F:
    """The option that alerts somebody who is not looking."""
    return click.option(
        "--on-verdict",
        metavar="COMMAND",
        help="Run COMMAND by the shell whenever the verdict changes; $LAUNCHMON_VERDICT and $LAUNCHMON_SUMMARY say it.",
    )(function)


def chosen(
    run: str | None, pid: int | None, port: int | None, tmux: str | None, log: str | None, log_command: str | None
) -> dict[str, Any]:
    """Selectors as the agent's ``attach`` takes them; those not given are left out."""
    given = {"run": run, "pid": pid, "port": port, "tmux": tmux, "log": log, "log_command": log_command}
    return {name: value for name, value in given.items() if value is not None}


def need_terminal(instead: str) -> None:
    """Raises :class:`Refused` where there is no terminal to draw on. ``instead``: the verb for scripts."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused("there is no terminal to draw on", "stdin or stdout is a file or a pipe", instead)


def say_how_to_return(left: SessionLike | None, where: Sequence[Target] | None = None) -> None:
    """After the screen is closed: that the server goes on, and the command that brings the screen back.

    ``where``: the targets of the session, if not those that were named.
    """
    if left is None or left.model.run is None or left.model.processes is None or left.link.state == "replay":
        return
    run = left.model.run
    if not any(process.pid == run.pid for process in left.model.processes.processes):
        return
    which = [run.id] if run.launched else ["--pid", str(run.pid)]
    if left.nodes:  # an id or a pid is of one node
        which = [run.name] if run.launched and run.name else []
    how = shlex.join(["launchmon", "attach", *options_of(where or named_targets()), *which])
    click.echo(f"{run.name or run.model or 'The server'} goes on (pid {run.pid}). To come back: {how}")


class LinkReporter:
    """Says on stderr that the link is lost, and that it is there again."""

    def __init__(self, session: AnySession) -> None:
        self._session = session
        self._state = session.link.state
        session.subscribe(self._look)

    def _look(self) -> None:
        link = self._session.link
        if link.state == self._state:
            return
        self._state = link.state
        if link.state == "lost":
            click.echo(f"launchmon: the link to {self._session.target} is lost: {link.message}", err=True)
        elif link.state == "live":
            click.echo(f"launchmon: the link to {self._session.target} is there again", err=True)


@asynccontextmanager
async def session(
    read_only: bool = False, asker: Asker | None = None, where: Sequence[Target] | None = None
) -> AsyncIterator[AnySession]:
    """A session with the agents on the targets that were named, or on others. Raises :class:`Refused`."""
    opened = await open_session(read_only, asker, attended=False, where=where)
    for node in opened.nodes:
        if node.link == "none":
            click.echo(f"launchmon: {node.label} is left out: {node.problem}", err=True)
    LinkReporter(opened)
    try:
        yield opened
    finally:
        await opened.close()


async def open_session(
    read_only: bool = False,
    asker: Asker | None = None,
    *,
    attended: bool = True,
    where: Sequence[Target] | None = None,
) -> AnySession:
    """Several targets are the nodes of one run; ``where``: others than were named.

    ``attended``: a person can ask for another attempt at a lost link. Raises :class:`Refused`.
    """
    asker = asker or at_hand()
    named = await nodes_of(where or named_targets(), asker)
    if len(named) == 1:
        return await open_on(named[0], read_only, asker, attended=attended)
    openers = [(one.label, partial(open_on, one, read_only, asker, attended=attended)) for one in named]
    return await ClusterSession.open(openers, read_only=read_only)


async def open_on(
    where: Target, read_only: bool = False, asker: Asker | None = None, *, attended: bool = True
) -> Session:
    """A session with an agent on one target. Raises :class:`Refused`."""
    asked = asker or at_hand()
    opened = await Session.open(lambda: open_pipe(where, asked), read_only=read_only, attended=attended)
    recent.remember(where)
    return opened


def run_async(main: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(main)
