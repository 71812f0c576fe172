"""What a client may ask about a run that is watched: look into its log, stop it. The same for keeper and agent."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable
from typing import Any

from launchmon_agent.actions import Actions
from launchmon_agent.errors import Refused
from launchmon_agent.events import Action
from launchmon_agent.runs.clearing import GpuLevels, not_given_back, refuse_foreign_port
from launchmon_agent.runs.kill import Killer, KillResult
from launchmon_agent.watch import Watch
from launchmon_agent.wire import Request

OPERATIONS = frozenset({"window", "search", "count", "place", "dump", "kill-plan", "kill", "remedies", "clear"})

OF_PROCESSES = frozenset({"dump", "kill-plan", "kill", "clear"})
"""Those that must know the processes of the run. A script attaches and asks at once, before the first sample."""

STUCK = ("deadlock-", "hung-", "waiting-", "one-behind", "rank-missing", "http-wait", "unknown")
"""How verdicts begin whose evidence is worth a last dump before the run is ended."""

BACK_S = 10.0
"""How long GPU memory may take to come back after the last process has gone."""


class RunService:
    """Answers the :data:`OPERATIONS` for one watch. ``killer`` makes a :class:`Killer` for the run as it is now.

    ``actions`` are carried out to their end, also when the client that asked has gone.
    """

    def __init__(self, watch: Watch, killer: Callable[[], Killer], actions: Actions) -> None:
        self.watch = watch
        self._actions = actions
        self._killer = killer
        self._killing = False
        self._numbers = itertools.count(1)
        self._levels = GpuLevels()
        watch.listen(lambda event, _line: self._levels.note(event, watch.model.run), caught_up=False)

    async def handle(self, request: Request) -> Any:
        """Raises :class:`Refused`."""
        if request.do in OF_PROCESSES:
            await self.watch.looked()
        match request.do:
            case "window":
                return await self.watch.window(request.args)
            case "search":
                return await self.watch.search(request.args)
            case "count":
                return await self.watch.count(request.args)
            case "place":
                return await self.watch.place(request.args)
            case "dump":
                return await self._actions.carry_out(request, lambda: self._dump(request.args))
            case "kill-plan":
                return await asyncio.to_thread(lambda: self._killer().plan())
            case "kill":
                force = bool(request.args.get("force"))
                return await self._actions.carry_out(request, lambda: self.kill(force))
            case "remedies":
                verdict = self.watch.model.verdict
                return [] if verdict is None else [step for step in verdict.next if step.do == "relaunch"]
            case "clear":
                return await self._actions.carry_out(request, lambda: self._clear(request.args))
        raise Refused(
            f"{request.do!r} is not something this agent can do", "client and agent are of different versions"
        )

    async def _dump(self, args: dict[str, Any]) -> str:
        dump = await self.watch.dump(bool(args.get("native")), args.get("locals_of"))
        return dump.id

    async def _clear(self, args: dict[str, Any]) -> KillResult:
        return await self.clear(args.get("port"), force=bool(args.get("force")))

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

    async def clear(self, port: int | None, force: bool) -> KillResult:
        """Make way for another attempt on this port: save the evidence, end the run, see that it has let go of all.

        Raises :class:`Refused` that names what is in the way. Only a foreign server on the port is found before the
        kill; the rest is what the kill could not end, and GPU memory that does not come back. A kill that is under way
        already, for a client that may be gone, is waited for.
        """
        while self._killing:
            await asyncio.sleep(0.1)
        model = self.watch.model
        alive = {one.pid for one in (model.processes.processes if model.processes else ()) if one.state != "Z"}
        await asyncio.to_thread(refuse_foreign_port, port, alive)
        levels = self._levels.before(model.gpus, alive)
        if alive and model.verdict is not None and model.verdict.verdict.startswith(STUCK):
            with contextlib.suppress(Refused):
                await self.watch.dump(automatic=True)
        result = await self.kill(force)
        if result.leftovers:
            raise Refused(
                f"The run could not be ended completely: {'; '.join(result.leftovers)}",
                "nothing was started: it would start into what is still held",
                "launchmon relaunch again when that is gone",
            )
        if alive:
            await self._memory_back(levels)
        return result

    async def _memory_back(self, levels: dict[int, int]) -> None:
        """Waits for samples that are newer than the kill. Raises :class:`Refused` where memory stays away."""
        ended = time.time()
        held: str | None = None
        late = not levels
        while not late:
            late = time.time() - ended >= BACK_S
            gpus = self.watch.model.gpus
            if gpus is not None and gpus.at > ended:
                held = not_given_back(levels, gpus)
                if held is None:
                    return
            if not late:
                await asyncio.sleep(0.1)
        if held is not None:
            raise Refused(
                f"GPU memory has not come back: {held}",
                "nothing was started: the next attempt would not find the memory that this one had",
                "nvidia-smi    # then launchmon relaunch again",
            )
