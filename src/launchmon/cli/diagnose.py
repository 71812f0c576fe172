"""``launchmon diagnose``: one look, then the facts and the verdict."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click

from launchmon.cli.common import chosen, run_async, selectors, session
from launchmon.cli.showing import effective
from launchmon.diagnosis import diagnosis
from launchmon.text import diagnosis_text


@click.command("diagnose")
@selectors
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(1, 600),
    metavar="SECONDS",
    help="How long to look. Default: 10.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object; keys are stable, unknown values are null.")
def command(seconds: float | None, as_json: bool, **which: Any) -> None:
    """Look at a run for a while, then print its phases, ranks, GPUs and the verdict.

    Without a selector: the only run found on this machine. Nothing about the run is changed.
    """
    looking = effective().config.diagnose_s if seconds is None else seconds
    found = run_async(_look(chosen(**which), looking))
    click.echo(json.dumps(found, indent=2) if as_json else diagnosis_text(found), nl=True)


async def _look(which: dict[str, Any], seconds: float) -> dict[str, Any]:
    async with session(read_only=True) as opened:
        await opened.attach(**which)
        await asyncio.sleep(seconds)
        while opened.link.state != "ended" and not opened.log_is_read:
            await asyncio.sleep(0.2)
        return diagnosis(opened.model, opened.hello, opened.target, opened.link.state, opened.nodes)
