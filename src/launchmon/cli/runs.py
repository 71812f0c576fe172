"""``launchmon runs``: what was launched here, and what else is running."""

from __future__ import annotations

import json
from typing import Any

import click

from launchmon.cli.common import run_async, session, targets
from launchmon.connect import Asker
from launchmon.text import ledger_text, runs_text


@click.command("runs")
@targets
@click.option("--series", metavar="ID", help="The attempts of one series instead: of this run, or with this name.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array, newest first; with --series one object.")
def command(series: str | None, as_json: bool) -> None:
    """List the runs that launchmon launched here, and SGLang servers that somebody else started.

    With --series: each attempt with what it changed, how far it got, the time in each phase, and how it ended.
    """
    if series is not None:
        ledger = run_async(_ledger(series))
        click.echo(json.dumps(ledger, indent=2) if as_json else ledger_text(ledger))
        return
    found = run_async(list_runs())
    click.echo(json.dumps(found, indent=2) if as_json else runs_text(found))


async def list_runs(asker: Asker | None = None) -> list[dict[str, Any]]:
    async with session(read_only=True, asker=asker) as opened:
        value = await opened.request("runs")
        assert isinstance(value, list)
        return value


async def _ledger(series: str) -> dict[str, Any]:
    async with session(read_only=True) as opened:
        return await opened.ledger(series)
