"""``launchmon doctor``: what works here and on a target, what does not, and what helps."""

from __future__ import annotations

import asyncio
import getpass
import json
import shutil
import socket
import sys
import time

import click

from launchmon.answers import a_number, objects
from launchmon.cli.common import named_targets, nodes_of, open_on, run_async, targets
from launchmon.cluster.clocks import WORTH_SAYING_S, Offset, measure
from launchmon.connect.target import LOCAL, Target
from launchmon.doctor import here
from launchmon.doctor.report import WIDEST, Examined, Report, as_object, capability_of, text
from launchmon.session import Session
from launchmon_agent.capability import BROKEN, LESS, OK, Capability
from launchmon_agent.errors import Refused


@click.command("doctor")
@targets
@click.option("--pid", type=int, metavar="PID", help="May the server with this process be read, rather than any here?")
@click.option("--json", "as_json", is_flag=True, help="One JSON object without secrets and names, fit to be shared.")
def command(pid: int | None, as_json: bool) -> None:
    """Say what launchmon can use here and on the target: each with what it costs when missing, and what helps.

    \b
    0  all well
    1  something cannot work
    2  everything works, some of it with less
    """
    named = named_targets()
    report = run_async(_examine(named, pid))
    if as_json:
        click.echo(json.dumps(as_object(report, time.time(), socket.gethostname(), _user()), indent=2))
    else:
        click.echo(text(report, shutil.get_terminal_size((WIDEST, 0)).columns))
    sys.exit(report.exit_status)


async def _examine(named: tuple[Target, ...], pid: int | None) -> Report:
    examined = asyncio.gather(*(_target(one, pid) for one in await nodes_of(named)))
    client = await asyncio.to_thread(here.examine)
    return Report(client, await examined)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without an entry
        return ""


async def _target(where: Target, pid: int | None) -> Examined:
    """What is wrong with reaching it is a finding too."""
    try:
        session = await open_on(where, read_only=True, attended=False)
    except Refused as refused:
        return Examined(where.label, [_unreached(refused)])
    try:
        answered = objects("doctor", await session.request("doctor", pid=pid))
        capabilities = [capability_of(one) for one in answered]
        capabilities.append(await _clock(session, where))
    except Refused as refused:
        if pid is not None:
            raise  # no server has it
        capabilities = [_unreached(refused)]
    finally:
        await session.close()
    hello = session.hello
    return Examined(
        where.label, capabilities, None if hello is None else hello.hostname, None if hello is None else hello.user
    )


def _unreached(refused: Refused) -> Capability:
    words = ": ".join(part for part in (refused.what, refused.cause) if part)
    return Capability("agent", BROKEN, words, "nothing on this target can be watched", refused.try_)


async def _clock(session: Session, where: Target) -> Capability:
    if where == LOCAL:
        return Capability("clock", OK, "this machine's own")

    async def remote() -> float:
        return a_number("clock", await session.request("clock"))

    return clock_capability(await measure(remote))


def clock_capability(offset: Offset) -> Capability:
    if abs(offset.correction) < WORTH_SAYING_S:
        most = max(abs(offset.seconds), offset.error)
        return Capability("clock", OK, f"within {most:.2f} s of this machine's")
    way = "behind" if offset.seconds > 0 else "ahead of"
    words = f"{abs(offset.seconds):.2f} s {way} this machine's (± {offset.error:.2f} s)"
    cost = "times in its logs differ from those of this machine; launchmon corrects them between nodes"
    return Capability("clock", LESS, words, cost, "timedatectl set-ntp true    # on the target")
