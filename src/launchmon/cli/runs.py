"""``launchmon runs``: what was launched here, and what else is running."""

from __future__ import annotations

import json
from typing import Any

import click

from launchmon.cli.common import run_async, session
from launchmon.text import runs_text


@click.command("runs")
@click.option("--json", "as_json", is_flag=True, help="A JSON array, newest first.")
def command(as_json: bool) -> None:
    """List the runs that launchmon launched here, and SGLang servers that somebody else started."""
    found = run_async(list_runs())
    click.echo(json.dumps(found, indent=2) if as_json else runs_text(found))


async def list_runs() -> list[dict[str, Any]]:
    async with session(read_only=True) as opened:
        value = await opened.request("runs")
        assert isinstance(value, list)
        return value
