"""``launchmon report``: all about a run, without secrets, for whoever is to help."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import click

from launchmon.cli.common import chosen, open_session, run_async, selectors
from launchmon.cli.recordings import names_file, open_recording
from launchmon.cluster.reading import node_by_node
from launchmon.cluster.session import AnySession
from launchmon.redact import told
from launchmon.replay.session import ReplaySession
from launchmon.report.archive import default_stem, stem, write
from launchmon.report.gather import Material, gather
from launchmon.report.markdown import markdown

LOOK_S = 10.0
"""How long a run is looked at that was not recorded before."""


@click.command("report")
@selectors
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write FILE.md and FILE.tar.gz. Default: launchmon-report-RUN here. With - the Markdown goes to stdout.",
)
@click.option(
    "--keep-names", is_flag=True, help="Keep names of users and machines, and addresses. Secrets are hidden always."
)
def command(output: str | None, keep_names: bool, **which: Any) -> None:
    """Write a report of a run: Markdown to paste into an issue, and an archive with the recording and all stacks.

    RUN may have ended, and may be a recording: a run's directory, a file of events, or the archive of a report. What
    was hidden is counted at the end of the report: look through it all the same before you share it.
    """
    material = run_async(_gather(which, keep_names=keep_names))
    if output == "-":
        click.echo(markdown(material), nl=False)
        return
    for path in write(material, default_stem(material) if output is None else stem(output)):
        click.echo(path)
    hidden = told(material.redacted)
    click.echo("hidden: " + ("; ".join(hidden) if hidden else "nothing was found to hide"), err=True)


async def _gather(which: dict[str, Any], *, keep_names: bool) -> Material:
    async with _source(which) as source:
        return await gather(source, keep_names=keep_names)


@asynccontextmanager
async def _source(which: dict[str, Any]) -> AsyncIterator[AnySession | ReplaySession]:
    name = which["run"]
    if name is not None and names_file(name):
        recording = await open_recording(name)
        try:
            yield recording
        finally:
            await recording.close()
        return
    wanted = chosen(**which)
    session = await open_session(read_only=True)
    try:
        if session.nodes:
            raise node_by_node()
        run = await session.attach(**wanted)
        if not run.launched:
            await asyncio.sleep(LOOK_S)
        yield session
    finally:
        await session.close()
