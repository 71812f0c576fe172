"""Carrying actions out to their end, whether or not the client that asked is still there.

A kill, a dump, a launch or a relaunch that was begun is finished: half of one would be worse than either. The client
names each with an id (``action`` in the request), under which the outcome is kept (:mod:`launchmon_agent.runs.journal`)
and told to the client when it comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from launchmon_agent import lifetime
from launchmon_agent.errors import Refused
from launchmon_agent.peer import plain
from launchmon_agent.redaction import redacted_refusal
from launchmon_agent.runs.journal import Journal
from launchmon_agent.wire import Request

LOOK_S = 0.2
"""How often it is looked whether another process has finished an action."""


class Actions:
    """Those of one process."""

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal or Journal()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def carry_out(self, request: Request, work: Callable[[], Awaitable[Any]]) -> Any:
        """The value of ``work``, which goes on when the caller is cancelled. Raises :class:`Refused` as it does."""
        task = asyncio.create_task(self._noted(request, work))
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return await asyncio.shield(task)

    async def outcome(self, action: str) -> dict[str, Any]:
        """What became of an action; waits while it is under way.

        ``state`` is ``done`` (with ``do`` and ``value``), ``refused`` (with ``refused``), ``not done`` (and never will
        be) or ``unknown``.
        """
        while True:
            entry = await asyncio.to_thread(self._journal.read, action)
            if entry is None:
                return {"state": "unknown"}
            if entry.state == "void":
                return {"state": "not done"}
            if entry.state == "done":
                return {"state": "done", "do": entry.do, "value": entry.value}
            if entry.state == "refused":
                return {"state": "refused", "refused": entry.value}
            if entry.abandoned:
                entry = await asyncio.to_thread(self._journal.read, action)  # its last word may have come just now
                if entry is None or entry.state == "doing":
                    return {"state": "unknown"}
            await asyncio.sleep(LOOK_S)

    async def finish(self) -> None:
        """Wait for what was begun here, but not for ever."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=lifetime.FINISH_S)

    async def _noted(self, request: Request, work: Callable[[], Awaitable[Any]]) -> Any:
        with lifetime.finishing():
            return await self._kept(request, work)

    async def _kept(self, request: Request, work: Callable[[], Awaitable[Any]]) -> Any:
        action = request.args.get("action")
        if action is None:
            return await work()
        await asyncio.to_thread(self._journal.begin, action, request.do)
        try:
            value = await work()
        except Refused as refused:
            await asyncio.to_thread(self._refused, action, request.do, refused)
            raise
        except Exception as error:
            failed = Refused(f"the {request.do} failed: {type(error).__name__}: {error}", "a fault in launchmon")
            await asyncio.to_thread(self._refused, action, request.do, failed)
            raise
        await asyncio.to_thread(self._journal.end, action, request.do, "done", plain(value))
        return value

    def _refused(self, action: str, do: str, refused: Refused) -> None:
        self._journal.end(action, do, "refused", redacted_refusal(refused).as_json())

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # seen: the asking side may have gone
