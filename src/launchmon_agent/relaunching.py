"""Relaunching the run that an agent follows: what can be changed, and the change itself.

The old run is ended where it is watched (by its keeper, or here), which saves the evidence first; the new one gets a
run directory and a keeper of its own. Nothing is started before the old one has let go of its port and GPUs.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from launchmon_agent import keepers
from launchmon_agent.discover import Found
from launchmon_agent.errors import Refused
from launchmon_agent.events import Action, Event
from launchmon_agent.runs import directory as directories
from launchmon_agent.runs.borrowed_pane import BorrowedPane
from launchmon_agent.runs.directory import RunDirectory, RunFile
from launchmon_agent.runs.first_attempt import FirstAttempt
from launchmon_agent.runs.flaglist import flag_list
from launchmon_agent.runs.relaunch import Origin, Plan, check, origin_of_process, origin_of_run, plan
from launchmon_agent.sglang.flags.change import Change, apply, command_line
from launchmon_agent.sglang.flags.model import FlagList
from launchmon_agent.sglang.flags.words import given
from launchmon_agent.sglang.secrets import redact_argv, redact_env
from launchmon_agent.sglang.toggles import toggles
from launchmon_agent.wire import Request

OPERATIONS = frozenset({"relaunch-options", "relaunch-plan", "relaunch"})

Ask = Callable[[Request], Awaitable[Any]]
"""Puts a request to whoever watches the run."""


class Relauncher:
    """For one run. ``emit`` takes events for the client; ``seen`` gives all that is known of a run watched here."""

    def __init__(
        self,
        subject: RunDirectory | Found,
        ask: Ask,
        emit: Callable[[Event], None],
        seen: Callable[[], Iterable[Event]],
    ) -> None:
        self._subject = subject
        self._ask = ask
        self._emit = emit
        self._seen = seen
        self._flags: FlagList | None = None
        self._alive: Origin | None = None  # as it was when the server was last seen alive
        self._busy = False
        self._name = ""  # of the newest relaunch: all its steps share it

    async def remember(self) -> None:
        """Read the environment while the server has one: it holds secrets that are recorded nowhere. Never raises."""
        with contextlib.suppress(Refused):
            await asyncio.to_thread(self._origin)

    async def options(self) -> dict[str, Any]:
        """All that a person needs to choose a change. Raises :class:`Refused`."""
        origin, flags = await self._known()
        words = redact_argv(origin.argv)
        return {
            "run": origin.id,
            "argv": words,
            "flags_given": [
                {"name": one.name, "begin": one.begin, "end": one.end, "words": words[one.begin : one.end]}
                for one in given(origin.argv, flags)
            ],
            "env": origin.env,
            "cwd": origin.cwd,
            "interpreter": origin.interpreter,
            "command": command_line(origin.argv, origin.env, origin.cwd),
            "environment": origin.environ_of,
            "series": origin.series,
            "attempt": origin.attempt,
            "version": flags.version,
            "flags_from": flags.source,
            "flags_complete": flags.complete,
            "flags": flags.flags,
            "toggles": toggles(origin.argv, _given(redact_env(origin.environ)), flags),
            "remedies": await self._remedies(origin, flags),
        }

    async def plan(self, args: dict[str, Any]) -> dict[str, Any]:
        """What a relaunch with these changes would start; changes nothing. Raises :class:`Refused`."""
        return (await self._plan(args)).shown()

    async def run(self, args: dict[str, Any]) -> RunDirectory:
        """End the run and start the next attempt. Raises :class:`Refused`; then nothing was started."""
        if self._busy:
            raise Refused("this run is being relaunched already", "an earlier key press asked for it")
        self._busy, self._name = True, f"relaunch-{int(time.time())}"
        try:
            planned = await self._plan(args)
            await asyncio.to_thread(check, planned)
            pane = await self._borrow(planned.origin)
            try:
                planned = await self._clear(planned, force=bool(args.get("force")))
                directory = await self._start(planned, anyway=bool(args.get("anyway")))
                if pane is not None:
                    await self._show(pane, directory)
                return directory
            finally:
                if pane is not None:
                    await asyncio.to_thread(pane.release)
        finally:
            self._busy = False

    async def _clear(self, planned: Plan, force: bool) -> Plan:
        """End the old run. One that launchmon had not launched becomes the first attempt of a series by that."""
        first = None
        if isinstance(self._subject, Found):
            seen, origin = list(self._seen()), planned.origin
            first = await asyncio.to_thread(FirstAttempt, self._subject, origin.interpreter, origin.outlets, seen)
        try:
            await self._ask(Request(0, "clear", {"port": planned.port, "force": force}))
        except BaseException:
            if first is not None:
                await asyncio.to_thread(first.forget)
            raise
        if first is None:
            return planned
        await asyncio.to_thread(first.keep, list(self._seen()))
        self._subject = first.directory  # also for another try, should the start be refused
        return replace(planned, origin=replace(planned.origin, id=first.directory.id, series=first.directory.id))

    async def _start(self, planned: Plan, anyway: bool) -> RunDirectory:
        text = f"attempt {planned.origin.newest + 1}: {', '.join(planned.difference) or 'nothing changed'}"
        self._tell("start", "doing", f"{text}; environment: {planned.origin.environ_of}")
        try:
            return await asyncio.to_thread(keepers.launch, planned.request(anyway=anyway))
        except Refused as refused:
            self._tell("start", "failed", refused.what)
            raise

    async def _borrow(self, origin: Origin) -> BorrowedPane | None:
        """The pane that showed the run; None where it had none, or that is used for something else."""
        if origin.outlets.pane is None:
            return None
        pane = BorrowedPane(origin.outlets.pane)
        why = await asyncio.to_thread(pane.hold, origin.log, origin.pid)
        if why is None:
            return pane
        self._tell("output", "failed", f"{origin.outlets.pane.describe()} is left alone: {why}")
        return None

    async def _show(self, pane: BorrowedPane, directory: RunDirectory) -> None:
        file = await asyncio.to_thread(directory.read)
        if file is None or file.server is None or file.outlets.pane is None:
            return
        why = await asyncio.to_thread(pane.show, directory.log, file.server.pid)
        name = file.outlets.pane.describe()
        if why is None:
            self._tell("output", "done", f"{name} shows it again")
        else:
            self._tell("output", "failed", f"{name} does not show it: {why}")

    async def _plan(self, args: dict[str, Any]) -> Plan:
        origin, flags = await self._known()
        change = Change(
            add=tuple(args.get("add") or ()),
            drop=tuple(args.get("drop") or ()),
            set=dict(args.get("set") or {}),
            unset=tuple(args.get("unset") or ()),
        )
        name = args.get("back_to")
        back_to = None if name is None else await asyncio.to_thread(_attempt, name)
        return plan(origin, change, flags, back_to)

    async def _known(self) -> tuple[Origin, FlagList]:
        """Read anew each time, as the server may have ended since; the flag list once."""
        origin = await asyncio.to_thread(self._origin)
        if self._flags is None:
            self._flags = await asyncio.to_thread(
                flag_list, origin.argv, origin.interpreter, origin.cwd, origin.environ
            )
        return origin, self._flags

    def _origin(self) -> Origin:
        run = self._subject
        found = origin_of_run(run) if isinstance(run, RunDirectory) else origin_of_process(run, self._alive)
        if found.pid is not None:
            self._alive = found
        elif self._alive is not None:
            return replace(found, environ=self._alive.environ, environ_of="that of the server before it ended")
        return found

    async def _remedies(self, origin: Origin, flags: FlagList) -> list[dict[str, Any]]:
        """Those of the present verdict that this SGLang takes, the best first."""
        found = []
        for step in await self._ask(Request(0, "remedies")):
            step = (
                step if isinstance(step, dict) else {name: getattr(step, name) for name in ("change", "why", "source")}
            )
            words = tuple(step.get("change") or ())
            try:
                apply(origin.argv, Change.of_words(words), flags)
            except Refused:
                continue
            found.append({"change": words, "why": step.get("why", ""), "source": step.get("source", "")})
        return found

    def _tell(self, step: str, state: str, text: str) -> None:
        self._emit(Action(time.time(), action="relaunch", id=self._name, step=step, state=state, text=text))


def _given(env: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in env.items() if value is not None}


def _attempt(name: str) -> RunFile:
    place = directories.find(name)
    file = None if place is None else place.read()
    if file is None:
        raise Refused(f"there is no run {name} to go back to", "", "launchmon runs")
    return file
