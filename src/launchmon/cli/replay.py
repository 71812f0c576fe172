"""``launchmon replay``: a run as it was at any moment of its recording."""

from __future__ import annotations

import json

import click

from launchmon.cli.common import need_terminal, run_async, targets
from launchmon.cli.recordings import open_recording
from launchmon.cli.showing import effective
from launchmon.connect import Asker
from launchmon.diagnosis import diagnosis
from launchmon.replay.session import ReplaySession
from launchmon.replay.times import moment


@click.command("replay")
@click.argument("recording", metavar="RUN|FILE")
@click.option(
    "--at",
    metavar="T",
    default="end",
    show_default=True,
    help="The moment to show: start, end, 90 or 1m30s (from the start), -30s (before the end), 18:05:12.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the moment as diagnose --json prints the present.")
@targets
def command(recording: str, at: str, as_json: bool) -> None:
    """Look at a run as it was, with the same screens, and move through its time.

    RUN is the id or name of a run that launchmon launched, also while it goes on. FILE is the archive of a report, a
    run's directory, or a file of events.
    """
    if as_json:
        click.echo(json.dumps(run_async(_moment(recording, at)), indent=2))
        return
    need_terminal(f"launchmon replay {recording} --json")
    from launchmon.tui.app import run_app

    run_app(lambda asker: _opened(recording, at, asker), opening="reading the recording", settings=effective())


async def _opened(recording: str, at: str, asker: Asker | None = None) -> ReplaySession:
    session = await open_recording(recording, asker)
    try:
        session.to_time(moment(at, session.recorded.begin, session.recorded.end))
    except BaseException:
        await session.close()
        raise
    return session


async def _moment(recording: str, at: str) -> dict[str, object]:
    session = await _opened(recording, at)
    try:
        return diagnosis(session.model, session.hello, session.target)
    finally:
        await session.close()
