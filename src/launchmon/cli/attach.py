"""``launchmon attach``: watch a run, whoever started it. Without a verb: pick one."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import click

from launchmon.cli.common import (
    chosen,
    need_terminal,
    on_verdict,
    open_session,
    run_async,
    say_how_to_return,
    selectors,
)
from launchmon.cli.runs import list_runs
from launchmon.cli.showing import show
from launchmon.cluster.session import AnySession
from launchmon.connect import Asker
from launchmon_agent.errors import Refused


@click.command("attach")
@selectors
@click.option("--read-only", is_flag=True, help="Refuse every key that would change something.")
@on_verdict
def command(read_only: bool, on_verdict: str | None, **which: Any) -> None:
    """Watch a run that is going on. Without a selector: the only one found, or a list to pick from.

    Nothing about the run is changed. RUN is the id or name of a run that launchmon launched.
    """
    need_terminal("launchmon diagnose")
    wanted = chosen(**which)
    if not wanted and sum(item["state"] == "running" for item in run_async(list_runs())) > 1:
        pick_and_attach(read_only, on_verdict)
        return
    say_how_to_return(show(opener(wanted), on_verdict=on_verdict, read_only=read_only).session)


def opener(which: dict[str, Any]) -> Callable[[Asker], Awaitable[AnySession]]:
    """How the app opens its session: attach first, so that a refusal is a line on stderr and no screen."""

    async def opened(asker: Asker) -> AnySession:
        session = await open_session(asker=asker)
        try:
            await session.attach(**which)
        except Refused:
            await session.close()
            raise
        return session

    return opened


def pick_and_attach(read_only: bool = False, on_verdict: str | None = None) -> None:
    """The home screen: runs found here; Enter watches one."""
    from launchmon.tui.protocol import Found

    need_terminal("launchmon runs")

    async def pick() -> list[Found]:
        return [
            Found(
                label=item["name"] or item["id"] or f"pid {item['pid']}",
                selector={"run": item["id"]} if item["id"] else {"pid": item["pid"]},
                model=item["model"],
                tp=item["tp"],
                port=item["port"],
                phase=item["verdict"],
                alive=item["state"] == "running",
                launched=item["launched"],
                pid=item["pid"],
                age_s=None if item["started"] is None else time.time() - item["started"],
                notes=("simulated",) if item["simulated"] else (),
            )
            for item in await list_runs()
        ]

    left = show(
        None,
        pick=pick,
        attach=lambda found, asker: opener(found.selector)(asker),
        on_verdict=on_verdict,
        read_only=read_only,
    )
    say_how_to_return(left.session)
