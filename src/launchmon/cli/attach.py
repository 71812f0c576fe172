"""``launchmon attach``: watch a run, whoever started it. Without a verb: pick one."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import click

from launchmon.alert import VerdictCommand
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
from launchmon.session import Session
from launchmon_agent.errors import Refused


@click.command("attach")
@selectors
@click.option("--read-only", is_flag=True, help="Refuse every key that would change something.")
@on_verdict
def command(read_only: bool, on_verdict: str | None, **which: Any) -> None:
    """Watch a run that is going on. Without a selector: the only one found, or a list to pick from.

    Nothing about the run is changed. RUN is the id or name of a run that launchmon launched.
    """
    from launchmon.tui.app import run_app

    need_terminal("launchmon diagnose")
    wanted = chosen(**which)
    if not wanted and sum(item["state"] == "running" for item in run_async(list_runs())) > 1:
        pick_and_attach()
        return
    say_how_to_return(run_app(opener(wanted, read_only, on_verdict)).session)


def opener(
    which: dict[str, Any], read_only: bool = False, on_verdict: str | None = None
) -> Callable[[], Awaitable[Session]]:
    """How the app opens its session: attach first, so that a refusal is a line on stderr and no screen."""

    async def opened() -> Session:
        session = await open_session(read_only)
        try:
            await session.attach(**which)
        except Refused:
            await session.close()
            raise
        if on_verdict is not None:
            VerdictCommand(session, on_verdict)
        return session

    return opened


def pick_and_attach() -> None:
    """The home screen: runs found here; Enter watches one."""
    from launchmon.tui.app import run_app
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

    say_how_to_return(run_app(None, pick=pick, attach=lambda found: opener(found.selector)()).session)
