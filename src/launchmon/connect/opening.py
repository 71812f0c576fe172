"""From a target to an agent there."""

from __future__ import annotations

import os
import shlex
import sys

from launchmon.connect import Asker, Channel, Pipe, bootstrap
from launchmon.connect.pipe import AgentPipe
from launchmon.connect.process import ProcessChannel
from launchmon.connect.refusal import NotStarted, refusal
from launchmon.connect.target import Target
from launchmon_agent.boot import STUB


async def open_pipe(target: Target, asker: Asker) -> Pipe:
    """Start an agent on ``target``. Raises :class:`Refused`."""
    channel = await _channel(target, asker)
    script = b"" if target.kind == "local" else bootstrap.script()
    try:
        return await AgentPipe.open(channel, target.label, packed=_is_packed(target), script=script)
    except NotStarted as failure:
        raise refusal(target, failure) from None


async def _channel(target: Target, asker: Asker) -> Channel:
    if target.kind == "local":
        return await ProcessChannel.open([sys.executable, "-c", STUB])
    if target.kind == "via":
        return await ProcessChannel.open([*shlex.split(target.spec), bootstrap.COMMAND])
    from launchmon.connect.ssh import open_channel  # asyncssh takes half a second to import

    words = ("exec", target.step, bootstrap.COMMAND)
    return await open_channel(target.spec, " ".join(filter(None, words)), asker)


def _is_packed(target: Target) -> bool:
    """``srun`` passes whole lines on, and would keep compressed bytes until one of them happens to end a line."""
    return target.kind != "local" and all(os.path.basename(word) != "srun" for word in shlex.split(target.command))
