"""Sends py-spy to a target that has none. What it is for, and what happens without it, is the agent's to say."""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

from launchmon.pyspy_program import Program, program_for

PART = 128 * 1024
"""Bytes of compressed program in one request: others get through in between, also where the link is slow."""

Request = Callable[..., Awaitable[Any]]


async def equip(request: Request, program: Callable[[str], Program] = program_for) -> dict[str, Any]:
    """``request``: of a session that follows a run. Returns what the agent's ``tools`` says, with the ``pyspy`` that is
    there now, and ``sent`` when it was. Raises :class:`Refused`."""
    tools: dict[str, Any] = await request("tools")
    if tools["pyspy"] is not None:
        return {**tools, "sent": False}
    found = await asyncio.to_thread(program, tools["machine"])
    packed = await asyncio.to_thread(zlib.compress, found.data, 6)
    path = None
    for number, start in enumerate(range(0, len(packed), PART)):
        part = base64.b64encode(packed[start : start + PART]).decode("ascii")
        name = found.name if start + PART >= len(packed) else None
        path = await request("ship", number=number, data=part, name=name)
    return {**tools, "pyspy": path, "sent": True}
