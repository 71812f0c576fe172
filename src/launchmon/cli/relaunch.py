"""``launchmon relaunch``: end a run and start it again with something changed."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from launchmon.cli.common import (
    chosen,
    need_terminal,
    open_session,
    pairs,
    run_async,
    say_how_to_return,
    selectors,
    session,
)
from launchmon.cli.showing import show
from launchmon.cluster.session import AnySession
from launchmon.connect import Asker
from launchmon.ladder import ATTEMPTS, MINUTES, Ladder
from launchmon.outcome import STUCK
from launchmon.text import ledger_text, relaunch_plan_text
from launchmon_agent.errors import Refused
from launchmon_agent.events import Action, Run


@click.command("relaunch")
@selectors
@click.option("--add", multiple=True, metavar="FLAG[=V]", help="Add a flag, or give it another value. Repeatable.")
@click.option("--drop", multiple=True, metavar="FLAG", help="Take a flag out. Repeatable.")
@click.option("--set", "set_", multiple=True, metavar="K=V", help="Set a variable for the server. Repeatable.")
@click.option("--unset", multiple=True, metavar="K", help="Remove a variable. Repeatable.")
@click.option("--back-to", metavar="RUN", help="Change the command of this attempt of the series instead of the last.")
@click.option("--force", is_flag=True, help="Do not ask the old server to end itself first.")
@click.option("--anyway", is_flag=True, help="Start even where the preflight finds that it cannot go well.")
@click.option("--dry-run", is_flag=True, help="Print what would change and the command. Nothing is ended or started.")
@click.option("--detach", is_flag=True, help="Relaunch, print the new run's id and come back.")
@click.option("--ladder", is_flag=True, help="Try the verdict's remedies one at a time, until a launch is ready.")
@click.option(
    "--attempts",
    type=click.IntRange(1, 50),
    default=ATTEMPTS,
    show_default=True,
    metavar="N",
    help="With --ladder: relaunches at most.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0.1),
    default=MINUTES,
    show_default=True,
    metavar="M",
    help="With --ladder: give up after so long.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan, the new run or the ledger as one JSON object.")
def command(
    add: tuple[str, ...],
    drop: tuple[str, ...],
    set_: tuple[str, ...],
    unset: tuple[str, ...],
    back_to: str | None,
    force: bool,
    anyway: bool,
    dry_run: bool,
    detach: bool,
    ladder: bool,
    attempts: int,
    minutes: float,
    as_json: bool,
    **which: Any,
) -> None:
    """End a run and start it again with something changed, as the next attempt of its series.

    Flags are checked against the SGLang that is installed there. Nothing is started before every process of the old
    run is gone, its port is free and its GPU memory is back.

    \b
    launchmon relaunch --add --disable-cuda-graph
    launchmon relaunch --drop --enable-symm-mem --set NCCL_DEBUG=INFO --dry-run
    launchmon relaunch --ladder --attempts 4
    """
    selectors_ = chosen(**which)
    change = {
        "add": add,
        "drop": drop,
        "set": pairs("--set", set_, "launchmon relaunch --set NCCL_DEBUG=INFO"),
        "unset": unset,
        "back_to": back_to,
    }
    if ladder:
        if any((add, drop, set_, unset, back_to, dry_run)):
            raise click.UsageError("--ladder chooses the changes itself")
        ready, ledger = run_async(_ladder(selectors_, attempts, minutes * 60))
        click.echo(json.dumps(ledger, indent=2) if as_json else ledger_text(ledger))
        sys.exit(0 if ready else STUCK)
    if dry_run:
        plan = run_async(_plan(selectors_, change))
        click.echo(json.dumps(plan, indent=2) if as_json else relaunch_plan_text(plan))
        return
    how = {**change, "force": force, "anyway": anyway}
    if detach or as_json:
        run = run_async(_relaunch(selectors_, how))
        found = {"id": run.id, "pid": run.pid, "log": run.log, "attempt": run.attempt, "series": run.series}
        click.echo(json.dumps(found) if as_json else run.id)
        return
    need_terminal("launchmon relaunch --detach")

    async def opened(asker: Asker) -> AnySession:
        session = await open_session(asker=asker)
        try:
            await session.attach(**selectors_)
            await session.relaunch(**how)
        except Refused:
            await session.close()
            raise
        return session

    say_how_to_return(show(opened).session)


async def _plan(which: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    async with session(read_only=True) as opened:
        await opened.attach(**which)
        return await opened.relaunch_plan(**change)


async def _relaunch(which: dict[str, Any], how: dict[str, Any]) -> Run:
    async with session() as opened:
        await opened.attach(**which)
        _show_steps(opened)
        return await opened.relaunch(**how)


async def _ladder(which: dict[str, Any], attempts: int, seconds: float) -> tuple[bool, dict[str, Any]]:
    async with session() as opened:
        await opened.attach(**which)
        _show_steps(opened)
        end = await Ladder(opened, lambda text: click.echo(text, err=True)).climb(attempts, seconds)
        click.echo(end.words, err=True)
        return end.ready, await opened.ledger()


def _show_steps(opened: AnySession) -> None:
    """What happens, on stderr, as it happens."""
    shown: set[Action] = set()

    def show() -> None:
        for steps in opened.model.actions.values():
            for step in steps:
                if step not in shown:
                    shown.add(step)
                    click.echo(f"{step.state:>6}  {step.step}  {step.text}", err=True)

    opened.subscribe(show)
