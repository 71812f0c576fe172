"""What a client may ask about a run that is watched: look into its log, stop it. The same for keeper and agent."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Any

from launchmon_agent.errors import Refused
from launchmon_agent.events import Action
from launchmon_agent.runs.kill import Killer, KillResult
from launchmon_agent.watch import Watch
from launchmon_agent.wire import Request

OPERATIONS = frozenset({"window", "search", "dump", "kill-plan", "kill"})


class RunService:
    """Answers the :data:`OPERATIONS` for one watch. ``killer`` makes a :class:`Killer` for the run as it is now."""

    def __init__(self, watch: Watch, killer: Callable[[], Killer]) -> None:
        self.watch = watch
        self._killer = killer
        self._killing = False
        self._numbers = itertools.count(1)

    async def handle(self, request: Request) -> Any:
        """Raises :class:`Refused`."""
        match request.do:
            case "window":
                return await self.watch.window(request.args)
            case "search":
                return await self.watch.search(request.args)
            case "dump":
                dump = await self.watch.dump(bool(request.args.get("native")), request.args.get("locals_of"))
                return dump.id
            case "kill-plan":
                return await asyncio.to_thread(lambda: self._killer().plan())
            case "kill":
                return await self.kill(force=bool(request.args.get("force")))
        raise Refused(
            f"{request.do!r} is not something this agent can do", "client and agent are of different versions"
        )

    async def kill(self, force: bool) -> KillResult:
        """End the run; its steps are Action events. Raises :class:`Refused` while that is under way already."""
        if self._killing:
            raise Refused("this run is being killed already", "another client, or an earlier key press, asked for it")
        self._killing = True
        loop = asyncio.get_running_loop()
        name = f"kill-{next(self._numbers)}-{int(time.time())}"

        def report(step: str, state: str, text: str) -> None:
            event = Action(time.time(), action="kill", id=name, step=step, state=state, text=text)
            loop.call_soon_threadsafe(self.watch.emit, event)

        try:
            result = await asyncio.to_thread(lambda: self._killer().run(report, force=force))
            self.watch.poke()
            return result
        finally:
            self._killing = False
