"""``launchmon demo``: a simulated SGLang to try everything on. Needs no GPU and no SGLang."""

from __future__ import annotations

import click

from launchmon.cli.common import need_terminal, open_on, run_async
from launchmon.cli.showing import show
from launchmon.connect.target import LOCAL
from launchmon.demo.scenarios import demo_command, free_port, scenarios
from launchmon.session import Session
from launchmon_agent.errors import Refused
from launchmon_agent.events import Run


@click.command("demo")
@click.argument("scenario", required=False, default="healthy")
@click.option("--list", "list_them", is_flag=True, help="Say which scenarios there are.")
@click.option("--detach", is_flag=True, help="Start the simulated server, print the run's id and come back.")
def command(scenario: str, list_them: bool, detach: bool) -> None:
    """Start a simulated SGLang and watch it: real processes and real waits, simulated GPUs.

    The simulated server is stopped when you leave the screen; with --detach it goes on until it is killed.
    """
    known = {item.name: item for item in scenarios()}
    if list_them:
        for item in known.values():
            click.echo(f"{item.name:<10} {item.title}")
        return
    if scenario not in known:
        raise Refused(
            f"there is no demo scenario {scenario!r}", f"there are: {', '.join(known)}", "launchmon demo --list"
        )
    if detach:
        click.echo(run_async(_start(scenario)).id)
        return
    need_terminal("launchmon demo --detach")
    show(lambda _: opened(scenario), kill_on_exit=True)


async def _launch(opened: Session, scenario: str, *, while_watched: bool) -> Run:
    argv, env = demo_command(scenario, free_port())
    name = f"demo-{scenario}"
    return await opened.launch(argv=list(argv), env=dict(env), name=name, while_watched=while_watched)


async def _start(scenario: str) -> Run:
    opened = await open_on(LOCAL)
    try:
        return await _launch(opened, scenario, while_watched=False)
    finally:
        await opened.close()


async def opened(scenario: str) -> Session:
    """A session with a simulated server that ends when nobody watches it any longer. Raises :class:`Refused`."""
    session = await open_on(LOCAL)
    try:
        await _launch(session, scenario, while_watched=True)
    except Refused:
        await session.close()
        raise
    return session
