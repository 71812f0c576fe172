"""From a target to an agent there."""

from __future__ import annotations

import shlex
import sys

from launchmon.connect import Asker, Channel, Pipe, bootstrap
from launchmon.connect.pipe import AgentPipe, NotStarted, refusal
from launchmon.connect.process import ProcessChannel
from launchmon.connect.target import Target
from launchmon_agent.boot import STUB


async def open_pipe(target: Target, asker: Asker) -> Pipe:
    """Start an agent on ``target``. Raises :class:`Refused`."""
    channel = await _channel(target, asker)
    try:
        return await AgentPipe.open(channel, target.label, packed=target.kind != "local")
    except NotStarted as failure:
        raise refusal(target.label, failure) from None


async def _channel(target: Target, asker: Asker) -> Channel:
    if target.kind == "local":
        return await ProcessChannel.open([sys.executable, "-c", STUB])
    if target.kind == "via":
        return await ProcessChannel.open([*shlex.split(target.spec), *bootstrap.words()])
    from launchmon.connect.ssh import open_channel  # asyncssh takes half a second to import

    return await open_channel(target.spec, bootstrap.line(), asker)
