"""``launchmon wait``: come back when it is decided how a launch goes. For scripts."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import click

from launchmon.alert import VerdictCommand
from launchmon.cli.common import EXIT_NO_SUCH_RUN, chosen, complain, on_verdict, run_async, selectors, session
from launchmon.cli.showing import effective
from launchmon.diagnosis import diagnosis
from launchmon.outcome import CRASHED, decided
from launchmon.text import diagnosis_text
from launchmon_agent.errors import Refused

TIMED_OUT = 5


@click.command("wait")
@selectors
@click.option("--timeout", type=click.FloatRange(min=0), metavar="S", help="Give up after S seconds. Default: never.")
@on_verdict
@click.option("--json", "as_json", is_flag=True, help="At the end print what diagnose --json prints.")
def command(timeout: float | None, on_verdict: str | None, as_json: bool, **which: Any) -> None:
    """Wait until a launch is ready, stuck or has crashed, and say so by the exit status.

    \b
    0  ready
    3  stuck: it will not get ready without help
    4  crashed or stopped
    5  timed out
    6  no such run
    """
    status, found = run_async(_wait(chosen(**which), timeout, effective(on_verdict=on_verdict).config.on_verdict))
    if found is not None:
        click.echo(json.dumps(found, indent=2) if as_json else diagnosis_text(found))
    sys.exit(status)


async def _wait(which: dict[str, Any], timeout: float | None, on_verdict: str) -> tuple[int, dict[str, Any] | None]:
    async with session(read_only=True) as opened:
        try:
            await opened.attach(**which)
        except Refused as refused:
            complain(refused)
            return EXIT_NO_SUCH_RUN, None
        if on_verdict:
            VerdictCommand(opened, on_verdict)
        try:
            status = await asyncio.wait_for(decided(opened), timeout)
        except asyncio.TimeoutError:
            status = TIMED_OUT
        except Refused as refused:
            if opened.link.given_up:
                raise
            complain(refused)
            status = CRASHED
        return status, diagnosis(opened.model, opened.hello, opened.target, opened.link.state, opened.nodes)
