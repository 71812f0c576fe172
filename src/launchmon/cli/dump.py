"""``launchmon dump``: the stacks of all ranks, merged and explained."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click

from launchmon.cli.common import chosen, run_async, selectors, session
from launchmon_agent.codec import to_json
from launchmon_agent.events import Stacks
from launchmon_agent.stacks.merge import merge
from launchmon_agent.stacks.render import text


@click.command("dump")
@selectors
@click.option("--native", is_flag=True, help="With the frames of C, C++ and CUDA libraries below Python's.")
@click.option(
    "--repeat",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    metavar="N",
    help="Take N dumps; each is compared with the one before.",
)
@click.option(
    "--every",
    type=click.FloatRange(0.5, 600),
    default=5.0,
    show_default=True,
    metavar="S",
    help="Seconds from one dump to the next.",
)
@click.option("--threads", is_flag=True, help="Show the threads beside the main ones too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each dump, one a line.")
def command(native: bool, repeat: int, every: float, threads: bool, as_json: bool, **which: Any) -> None:
    """Read the stacks of all ranks and of the launcher, side by side: who waits for whom, and where.

    Ranks in the same place are one group; the smallest group, the odd one out, comes first.
    """
    run_async(_dump(chosen(**which), native, repeat, every, threads, as_json))


async def _dump(which: dict[str, Any], native: bool, repeat: int, every: float, threads: bool, as_json: bool) -> None:
    async with session() as opened:
        await opened.attach(**which)
        earlier: list[Stacks] = []
        for number in range(repeat):
            if number:
                await asyncio.sleep(every)
            await opened.back()
            dump = await opened.dump(native)
            if as_json:
                click.echo(json.dumps({"kind": dump.kind, **to_json(dump)}))
            else:
                click.echo(text(merge(dump, earlier), threads=threads), nl=False)
            earlier.append(dump)
