"""A client's side of one conversation with an agent: requests, the model of the run, and how fresh it is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from launchmon.answers import a_run, an_object, nonsense, shaped, unpacked
from launchmon.connect.target import LOCAL
from launchmon.kept import Kept
from launchmon.link import Gone, Link
from launchmon.link.clock import Clock
from launchmon.link.conversation import Conversation
from launchmon.link.generations import Generations
from launchmon.link.line import Line as AgentLine
from launchmon.link.line import OpenPipe
from launchmon.shipping import Tools, equip, remarks
from launchmon.victim import Victim
from launchmon_agent.errors import Refused
from launchmon_agent.events import (
    Action,
    Event,
    Exit,
    Kernel,
    Log,
    LogError,
    Mark,
    Notice,
    Other,
    Progress,
    Run,
    Stacks,
)
from launchmon_agent.judge.cluster import Node
from launchmon_agent.log.only import EVERYTHING, Only
from launchmon_agent.log.search import Counted, Found
from launchmon_agent.log.window import Window
from launchmon_agent.model import RunModel
from launchmon_agent.wire import Hello

RESTARTED = "the target was restarted: its boot id is another one"


LASTING = (Mark, Progress, LogError, Exit, Kernel, Notice, Action, Other)
"""Kinds of which each adds to the model, or may. Of the others the newest takes the place of the one before."""

MOST_LASTING = 64 << 20
"""Bytes of such events, as lines, that are taken in for one run. The longest launches tell 1 MiB."""


@dataclass(frozen=True)
class PlannedProcess:
    pid: int
    role: str
    rank: str | None = None
    title: str | None = None


@dataclass(frozen=True)
class KillPlan:
    processes: tuple[PlannedProcess, ...]


class Session:
    """Made by :meth:`open`; after :meth:`attach` or :meth:`launch` the :attr:`model` follows the run.

    When the link is lost it is mended, and the same run is followed again with the same model. A relaunch puts a new
    model in its place, before the first event of the new run arrives.
    """

    nodes: tuple[Node, ...] = ()
    """Of a session with several targets; this one has one."""

    def __init__(
        self, open_pipe: OpenPipe, *, read_only: bool = False, attended: bool = False, clock: Clock | None = None
    ) -> None:
        self.model = RunModel()
        self._kept = Kept()
        self._lasting = 0
        self.read_only = read_only
        self._line = AgentLine(open_pipe, self._hear, self._resume, self._changed, attended=attended, clock=clock)
        self._generations = Generations()
        self._selectors: dict[str, Any] = {}
        self._followed: Run | None = None
        self._boot_id: str | None = None
        self._interrupted_at: float | None = None
        self._equipping: asyncio.Task[None] | None = None
        self._subscribers: list[Callable[[], None]] = []
        self._listeners: list[Callable[[Event], None]] = []

    @classmethod
    async def open(
        cls, open_pipe: OpenPipe, *, read_only: bool = False, attended: bool = False, clock: Clock | None = None
    ) -> Session:
        """Start an agent, by ``open_pipe``, which starts another one whenever the link is lost.

        ``attended``: somebody is there to ask for another attempt by :meth:`try_now` when waiting does not help.
        Raises :class:`Refused` with what the agent said when none comes.
        """
        session = cls(open_pipe, read_only=read_only, attended=attended, clock=clock)
        await session._line.open()
        session._boot_id = session._line.hello.boot_id if session._line.hello else None
        return session

    @property
    def target(self) -> str:
        return self._line.target

    @property
    def link(self) -> Link:
        return self._line.link

    @property
    def hello(self) -> Hello | None:
        """Of the newest agent."""
        return self._line.hello

    @property
    def local_log(self) -> str | None:
        """The log's path, where it is a file that can be read on this machine; None otherwise."""
        run, log = self.model.run, self.model.log
        if run is None or run.log is None or log is None or run.log_source not in ("file", "tee"):
            return None
        try:
            # In a container of its own a server's path may name another file here.
            same = self.target == LOCAL.label and os.path.getsize(run.log) >= log.size
        except OSError:
            return None
        return run.log if same else None

    @property
    def log_is_read(self) -> bool:
        """The log was read to its end: what it tells of the past is in the model. True where there is no log."""
        log = self.model.log
        if log is None:
            return self.model.run is not None and self.model.run.log is None
        return log.scanned >= log.size

    def age(self) -> float:
        """Seconds since the agent was last heard, by the client's clock."""
        return max(0.0, self._line.clock.wall() - self._line.heard_at)

    def retry_in(self) -> float | None:
        """Seconds until a lost link is tried again; None where nothing is waited for."""
        at = self.link.retry_at
        return None if at is None else max(0.0, at - self._line.clock.wall())

    def try_now(self) -> None:
        """Try a lost link again at once."""
        self._line.try_now()

    async def back(self) -> None:
        """Wait while the link is lost. Raises :class:`Refused` when it has ended."""
        await self._line.back()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back on the event loop whenever the model or the link changed. Returns how to stop."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def listen(self, callback: Callable[[Event], None]) -> None:
        """Call back with each event, after the model has taken it in. A model put in place of another has its own."""
        self._listeners.append(callback)

    # -------------------------------------------------------------------------------------------------------- requests

    async def request(self, do: str, **args: Any) -> Any:
        """The answer to a question, as JSON values. One that the loss of the link cuts off is asked again.

        Raises :class:`Refused`: by the agent, and at once while the link is lost.
        """
        return await self._line.ask(do, args)

    async def attach(self, **selectors: Any) -> Run:
        """Follow a run that exists. Raises :class:`Refused`."""
        run = a_run("attach", await self.request("attach", **selectors))
        self._selectors, self._followed = selectors, run
        self._equip()
        return run

    async def launch(self, **plan: Any) -> Run:
        """Start a run and follow it. Raises :class:`Refused` when nothing was started."""
        return self._follow(await self._line.act("launch", plan))

    async def relaunch_options(self) -> dict[str, Any]:
        """The run's command and variables, the flags and toggles of its SGLang, and the remedies of the verdict."""
        return an_object("relaunch-options", await self.request("relaunch-options"))

    async def relaunch_plan(self, **change: Any) -> dict[str, Any]:
        """What :meth:`relaunch` with the same arguments would start; changes nothing. Raises :class:`Refused`."""
        return an_object("relaunch-plan", await self.request("relaunch-plan", **change))

    async def relaunch(self, **change: Any) -> Run:
        """End the run and follow its next attempt, with a model of its own. Raises :class:`Refused`.

        ``change``: ``add``, ``drop``, ``set``, ``unset``, ``back_to`` (the id of the attempt whose command is changed),
        ``force`` (no TERM), ``anyway`` (start whatever the preflight says). After a refusal nothing was started.
        """
        if self.read_only:
            raise Refused("this view is read-only", "it was opened with --read-only")
        return self._follow(await self._line.act("relaunch", change))

    async def ledger(self, run: str | None = None) -> dict[str, Any]:
        """The attempts of a series: that of ``run``, or of the run that is followed."""
        return an_object("ledger", await self.request("ledger", run=run))

    async def window(
        self, at: int | str, before: int, after: int, only: Only = EVERYTHING, raw: bool = False
    ) -> Window:
        """Lines around a place in the log, see :func:`launchmon_agent.log.window.window`. Raises :class:`Refused`."""
        value = await self.request("window", at=at, before=before, after=after, raw=raw, **asdict(only))
        found = shaped(Window, "window", value)
        return replace(found, generation=self._generations.shown(found.generation))

    async def search(
        self, pattern: str, start: int, forward: bool, regex: bool = False, only: Only = EVERYTHING
    ) -> Found:
        """One slice of a search for the first line that matches at or after ``start``, or the last one before it."""
        value = await self.request("search", pattern=pattern, start=start, forward=forward, regex=regex, **asdict(only))
        return shaped(Found, "search", value)

    async def count(
        self, pattern: str, start: int, stop: int | None, regex: bool = False, only: Only = EVERYTHING
    ) -> Counted:
        """One slice of counting the lines that match from ``start`` up to ``stop``, or to the end of the log."""
        value = await self.request("count", pattern=pattern, start=start, stop=stop, regex=regex, **asdict(only))
        return shaped(Counted, "count", value)

    async def place(self, *, line: int | None = None, moment: str | None = None) -> int:
        """The offset of a line by its number, or of the first line of a time. Raises :class:`Refused`."""
        offset = an_object("place", await self.request("place", line=line, moment=moment)).get("offset")
        if not isinstance(offset, int):
            raise nonsense("place")
        return offset

    async def recording(self) -> list[bytes]:
        """All events so far, a line each: what was recorded where the run is, else what was heard of it here."""
        run = self.model.run
        if run is None:
            raise Refused("no run is followed yet", "attach or launch comes first")
        lines: list[bytes] = []
        start: int | None = 0
        while start is not None:
            try:
                part = await self.request("recording", start=start)
            except Refused:
                if run.launched:
                    raise
                return self._kept.lines()
            part = an_object("recording", part, "data", "next")
            if part["next"] is not None and not (isinstance(part["next"], int) and part["next"] > start):
                raise nonsense("recording")
            lines += unpacked("recording", part["data"]).splitlines(keepends=True)
            start = part["next"]
        return lines

    async def software(self) -> dict[str, str]:
        """Name → version of what is installed for the server: sglang, torch, python, cuda and more, as far as known."""
        return an_object("software", await self.request("software"))

    async def dump(self, native: bool = False, locals_of: str | None = None) -> Stacks:
        """The stacks of all ranks now; the dump is in the model too. Raises :class:`Refused`."""
        if self._equipping is not None:
            await asyncio.wait([self._equipping])
        name = await self._line.act("dump", {"native": native, "locals_of": locals_of})
        found = next((dump for dump in reversed(self.model.stacks) if dump.id == name), None)
        if found is None:
            raise Refused("the dump was taken, and has not arrived", "the link is slow, or lost", "d takes another")
        return found

    async def kill_plan(self) -> list[Victim]:
        """The processes that a kill would end now."""
        plan = shaped(KillPlan, "kill-plan", await self.request("kill-plan"))
        return [Victim(one.pid, one.role, one.rank, one.title) for one in plan.processes]

    async def kill(self, force: bool = False) -> Any:
        """Stop the server. Steps arrive as Action events; the answer comes when all is over."""
        if self.read_only:
            raise Refused("this view is read-only", "it was opened with --read-only")
        return await self._line.act("kill", {"force": force})

    async def close(self) -> None:
        """End the conversation. The server and its keeper go on."""
        if self._equipping is not None:
            self._equipping.cancel()
        await self._line.close()

    # --------------------------------------------------------------------------------------------------------- hearing

    def _hear(self, event: Event, line: bytes) -> None:
        if isinstance(event, Log):
            event = self._generations.of(event)
        self._begin_anew(event)
        if isinstance(event, LASTING):
            self._lasting += len(line)
            if self._lasting > MOST_LASTING:
                self._note("more happenings were told than are remembered: the newest are left out")
                return
        self.model.fold(event)
        if self.model.run is not None and not self.model.run.launched:
            self._kept.add(event, line)
        for callback in tuple(self._listeners):
            callback(event)
        self._changed()

    def _begin_anew(self, event: Event) -> None:
        """The first event of another run: the agent has relaunched the one that was followed."""
        known = self.model.run
        if isinstance(event, Run) and known is not None and event.id != known.id:
            self.model, self._kept, self._lasting = RunModel(), Kept(), 0

    def _follow(self, value: Any) -> Run:
        """The run that the agent has started, and follows."""
        self._selectors, self._followed = {}, a_run("launch", value)
        self._equip()
        return self._followed

    def _equip(self) -> None:
        """See in the background that the target has what stacks are read with; a dump waits for that."""
        if self._equipping is None:
            self._equipping = asyncio.create_task(self._equipped())

    async def _equipped(self) -> None:
        tools: Tools | Refused
        try:
            tools = await equip(self.request)
        except Refused as refused:
            tools = refused
        for remark in remarks(self.hello, tools):
            self._note(remark, "agent")

    async def _resume(self, conversation: Conversation) -> None:
        """Make a fresh agent follow the same run. Raises :class:`Gone` where it is no more."""
        hello, run = conversation.hello, self._followed
        assert hello is not None
        if run is None:
            return
        restarted = None not in (hello.boot_id, self._boot_id) and hello.boot_id != self._boot_id
        self._generations.reconnected(self.model.log)
        self._lasting = 0  # all is told again
        if not run.launched and self._interrupted_at != self.link.since:
            self._interrupted_at = self.link.since
            self.model.interrupted(self.age())
        which = {
            **{name: self._selectors.get(name) for name in ("log", "log_command", "recorded")},
            "run": run.id if run.launched else None,
            "pid": run.pid,
            "start_time": run.start_time,
            "since": min((one.at for one in (self.model.gpus, self.model.processes) if one is not None), default=None),
        }
        answer = an_object("resume", await conversation.ask("resume", which), "gone")
        if answer["gone"] is not None:
            self._note(RESTARTED if restarted else answer["gone"])
            raise Gone(RESTARTED if restarted else answer["gone"])
        if restarted:
            self._note(f"{RESTARTED}; the server ended with it")
            self._boot_id = hello.boot_id

    def _note(self, text: str, source: str = "link") -> None:
        self.model.fold(Notice(self.model.now, source=source, text=text))
        self._changed()

    def _changed(self) -> None:
        for callback in tuple(self._subscribers):
            callback()
