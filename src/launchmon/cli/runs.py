"""``launchmon runs``: what was launched here, and what else is running."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click

from launchmon.answers import objects
from launchmon.cli.common import complain, named_targets, nodes_of, open_on, run_async, session, targets
from launchmon.cluster.reading import node_by_node
from launchmon.connect import Asker
from launchmon.connect.target import Target
from launchmon.text import ledger_text, runs_text
from launchmon_agent.errors import Refused

KEYS = (
    *("id", "name", "state", "host", "pid", "port", "tp", "dp", "pp", "model", "started", "launched"),
    *("verdict", "simulated"),
)
"""Of a run, as far as they are shown."""


@click.command("runs")
@targets
@click.option("--series", metavar="ID", help="The attempts of one series instead: of this run, or with this name.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array, newest first; with --series one object.")
def command(series: str | None, as_json: bool) -> None:
    """List the runs that launchmon launched here, and SGLang servers that somebody else started.

    With --series: each attempt with what it changed, how far it got, the time in each phase, and how it ended. With
    several targets each run has a target.
    """
    if series is not None:
        ledger = run_async(_ledger(series))
        click.echo(json.dumps(ledger, indent=2) if as_json else ledger_text(ledger))
        return
    found = run_async(list_runs())
    click.echo(json.dumps(found, indent=2) if as_json else runs_text(found))


async def list_runs(asker: Asker | None = None) -> list[dict[str, Any]]:
    """On the targets that were named. With several, rows name theirs, and those that cannot be reached are told on
    stderr. Raises :class:`Refused` where none can be."""
    where = await nodes_of(named_targets(), asker)
    if len(where) == 1:
        return await _runs_on(where[0], asker)
    found = await asyncio.gather(*(_runs_on(one, asker) for one in where), return_exceptions=True)
    refusals = [one for one in found if isinstance(one, Refused)]
    if len(refusals) == len(found):
        raise refusals[0]
    for refused in refusals:
        complain(refused)
    rows: list[dict[str, Any]] = []
    for target, listed in zip(where, found, strict=True):
        if isinstance(listed, list):
            rows += [{**row, "target": target.label} for row in listed]
        elif not isinstance(listed, Refused):
            raise listed
    return rows


async def _runs_on(where: Target, asker: Asker | None) -> list[dict[str, Any]]:
    opened = await open_on(where, read_only=True, asker=asker, attended=False)
    try:
        return listed(await opened.request("runs"))
    finally:
        await opened.close()


def listed(value: Any) -> list[dict[str, Any]]:
    """What an agent answers to ``runs``. Raises :class:`Refused`."""
    return objects("runs", value, *KEYS)


async def _ledger(series: str) -> dict[str, Any]:
    async with session(read_only=True) as opened:
        if opened.nodes:
            raise node_by_node()
        return await opened.ledger(series)
