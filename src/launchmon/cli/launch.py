"""``launchmon launch``: start a server that outlives this terminal, and watch it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import Any

import click

from launchmon import split as beside
from launchmon.cli.common import (
    named_targets,
    need_terminal,
    nodes_of,
    on_verdict,
    open_session,
    pairs,
    run_async,
    say_how_to_return,
    session,
    targets,
)
from launchmon.cli.showing import effective, show
from launchmon.cluster.launching import commands, shared_name
from launchmon.cluster.session import AnySession, ClusterSession
from launchmon.config import PREPARATIONS
from launchmon.connect import Asker
from launchmon.connect.target import LOCAL, Target
from launchmon_agent.errors import Refused
from launchmon_agent.events import Notice, Run


def _keep_name(context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    """By a name with an @, which stands for a host, no verb would find the run again."""
    if name is not None and "@" in name:
        raise click.BadParameter(f"{name!r} has an @", context, parameter)
    return name


@click.command("launch", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@targets
@click.option("--name", metavar="N", callback=_keep_name, help="A name for the run, shown and accepted by every verb.")
@click.option("--env", "changes", multiple=True, metavar="K=V", help="Set a variable for the server. Repeatable.")
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(PREPARATIONS),
    help="Leave one preparation of the launch out. Repeatable; the start of every run lists them.",
)
@click.option("--no-hook", is_flag=True, help="Short for --without hook.")
@click.option("--anyway", is_flag=True, help="Start even where it is known that it cannot work.")
@click.option(
    "--cwd",
    metavar="DIR",
    help="Where the server starts. Default: this directory; on another machine the home of the login.",
)
@click.option("--detach", is_flag=True, help="Start, print the run's id and come back.")
@click.option("--json", "as_json", is_flag=True, help="With --detach: print the run as a JSON object.")
@click.option("--split", is_flag=True, help="Inside tmux: show the server's own output in a pane beside launchmon.")
@on_verdict
@click.argument("argv", nargs=-1, required=True, metavar="-- COMMAND…")
def command(
    name: str | None,
    changes: tuple[str, ...],
    without: tuple[str, ...],
    no_hook: bool,
    anyway: bool,
    cwd: str | None,
    detach: bool,
    as_json: bool,
    split: bool,
    on_verdict: str | None,
    argv: tuple[str, ...],
) -> None:
    """Start an SGLang server and watch it. It goes on when launchmon, or the connection, ends.

    \b
    launchmon launch -- python -m sglang.launch_server --model-path M --tp 8
    launchmon launch --env NCCL_DEBUG=INFO --detach -- sglang serve M
    launchmon launch --on root@gpu7 --cwd /srv -- python -m sglang.launch_server --model-path M

    On another machine it starts with the environment of a login shell there.
    """
    if split:
        _check_split(detach)
    plan = {
        "argv": list(argv),
        "env": pairs("--env", changes, "launchmon launch --env NCCL_DEBUG=INFO -- …"),
        "name": name,
        "without": [*(without or effective().config.launch_without), *(["hook"] if no_hook else [])],
        "anyway": anyway,
        "cwd": cwd,
        "login": named_targets() != (LOCAL,),
    }
    if detach:
        run, several = run_async(_start(plan))
        for preparation in run.preparations:
            click.echo(f"prepared: {preparation}", err=True)
        shown = {"id": run.id, "pid": run.pid, "log": run.log, "name": run.name}
        click.echo(json.dumps(shown) if as_json else run.name if several else run.id)
        return
    need_terminal("launchmon launch --detach -- …")

    async def opened(asker: Asker) -> AnySession:
        where = await nodes_of(named_targets(), asker)
        session = await open_session(asker=asker, where=where)
        try:
            run = await _launch(session, plan, where)
        except Refused:
            await session.close()
            raise
        if split:
            _split(session, run)
        return session

    say_how_to_return(show(opened, on_verdict=on_verdict).session)


def _split(session: AnySession, run: Run) -> None:
    """The server runs already: that there is no room for a pane, say, is only worth a notice."""
    try:
        beside.open_beside(run, os.environ)
    except Refused as refused:
        text = ". ".join(part for part in (refused.what, refused.cause) if part)
        session.model.fold(Notice(time.time(), source="tmux", text=text))


def _check_split(detach: bool) -> None:
    """Before anything is started. Raises :class:`Refused`."""
    if detach:
        raise click.UsageError("--split shows the launch, --detach does not")
    if named_targets() != (LOCAL,):
        raise Refused(
            "--split shows the output of a server on this machine only",
            "this one is on another",
            "launchmon launch --detach -- …",
        )
    beside.require(os.environ)


async def _launch(session: AnySession, plan: dict[str, Any], where: Sequence[Target]) -> Run:
    """On each of several targets with its own --node-rank, under one name. Raises :class:`Refused`."""
    if not isinstance(session, ClusterSession):
        return await session.launch(**plan)
    name = plan["name"] or shared_name(plan["argv"], time.time())
    return await session.launch(
        [{**plan, "argv": list(one), "name": name} for one in commands(plan["argv"], where)], where
    )


async def _start(plan: dict[str, Any]) -> tuple[Run, bool]:
    """The run, and whether it is on several nodes: then its name means it on each of them."""
    where = await nodes_of(named_targets())
    async with session(where=where) as opened:
        run = await _launch(opened, plan, where)
        for notice in opened.model.notices:
            click.echo(f"{notice.source}: {notice.text}", err=True)
        return run, bool(opened.nodes)
