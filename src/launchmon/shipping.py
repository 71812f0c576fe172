"""What a target has for the agent, and sending it py-spy where it has none."""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from launchmon.answers import an_object
from launchmon.pyspy_program import Program, program_for
from launchmon_agent.errors import Refused
from launchmon_agent.wire import Hello

PART = 128 * 1024
"""Bytes of compressed program in one request: others get through in between, also where the link is slow."""

ATTEMPTS = 3
"""A link that is lost in the middle loses the parts that were sent: the agent that answers then is another one."""

Request = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class Tools:
    """``pyspy``: its path on the target, None where none may read the server; ``sent``: by us just now."""

    pyspy: str | None
    machine: str
    sent: bool = False


async def equip(request: Request, program: Callable[[str], Program] = program_for) -> Tools:
    """``request``: of a session that follows a run. Raises :class:`Refused` where the target stays without py-spy."""
    found = an_object("tools", await request("tools"), "machine", "pyspy", "refused")
    machine = str(found["machine"])
    if found["pyspy"] is not None or found["refused"] is not None:
        return Tools(found["pyspy"], machine)
    ours = await asyncio.to_thread(program, machine)
    packed = await asyncio.to_thread(zlib.compress, ours.data)
    for attempt in range(ATTEMPTS):
        try:
            return Tools(await _send(request, ours.name, packed), machine, sent=True)
        except Interrupted:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError


class Interrupted(Refused):
    """The agent knows nothing of the parts before this one."""


async def _send(request: Request, name: str, packed: bytes) -> str:
    starts = range(0, len(packed), PART)
    for number, start in enumerate(starts):
        data = base64.b64encode(packed[start : start + PART]).decode("ascii")
        last = start == starts[-1]
        answer = an_object(
            "ship", await request("ship", number=number, data=data, name=name if last else None), "again", "path"
        )
        if answer["again"]:
            raise Interrupted(
                "py-spy could not be sent", "the link was lost again and again", "launchmon attach    # sends it again"
            )
    return str(answer["path"])


def remarks(hello: Hello | None, tools: Tools | Refused) -> Iterator[str]:
    """What a person should know about how the agent gets on there."""
    if hello is not None and hello.found.startswith("server "):
        yield (
            f"the agent runs under the interpreter of the {hello.found.replace('server', 'server with pid')}, "
            f"{hello.interpreter}: no other Python there is 3.10 or newer"
        )
    if hello is not None and "pynvml" in hello.missing:
        yield "no nvidia-ml-py is to be had there: the GPUs are not seen"
    if isinstance(tools, Refused):
        yield "; ".join(part for part in (f"stacks are read without py-spy: {tools.what}", tools.cause) if part)
    elif tools.sent:
        yield f"py-spy was not there and has been sent: {tools.pyspy}"
