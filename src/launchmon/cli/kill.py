"""``launchmon kill``: stop a server in SGLang's own order, and say what is left."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from launchmon.answers import an_object
from launchmon.cli.asking import at_hand
from launchmon.cli.common import chosen, run_async, selectors, session
from launchmon.text import kill_plan_text, kill_result_text
from launchmon_agent.errors import Refused
from launchmon_agent.events import Action


@click.command("kill")
@selectors
@click.option("--force", is_flag=True, help="Do not ask the server to end itself first.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def command(force: bool, yes: bool, as_json: bool, **which: Any) -> None:
    """Stop a server: TERM to its launcher, a bounded grace, then KILL for what is left, then a sweep.

    Ends with 0 only when every process is gone and the port is free; else says what is left over and ends with 1.
    """
    result = run_async(_kill(chosen(**which), force, yes, as_json))
    click.echo(json.dumps(result, indent=2) if as_json else kill_result_text(result))
    sys.exit(1 if result["leftovers"] else 0)


async def _kill(which: dict[str, Any], force: bool, yes: bool, as_json: bool) -> dict[str, Any]:
    async with session() as opened:
        await opened.attach(**which)
        plan = await opened.kill_plan()
        if not yes:
            if not sys.stdin.isatty():
                raise Refused("not killed: nobody to ask", "stdin is not a terminal", "launchmon kill --yes …")
            click.echo(kill_plan_text(plan), err=True)
            # Not by click, which would stop the event loop: an agent that hears nothing for two minutes ends.
            answer = await at_hand().ask("Kill these? [y/N]:", secret=False)
            if answer is None or answer.strip().lower() not in ("y", "yes"):
                raise click.exceptions.Abort
        shown: set[Action] = set()

        def show() -> None:
            for steps in opened.model.actions.values():
                for step in steps:
                    if step not in shown and step.action == "kill":
                        shown.add(step)
                        click.echo(f"{step.state:>6}  {step.step}  {step.text}", err=True)

        if not as_json:
            opened.subscribe(show)
        return an_object("kill", await opened.kill(force), "killed", "leftovers", "notes", "seconds")
