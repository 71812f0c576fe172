"""A client's side of one conversation with an agent: requests, the model of the run, and how fresh it is."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from launchmon.connect import Pipe
from launchmon.connect.target import LOCAL
from launchmon.kept import Kept
from launchmon_agent import events, wire
from launchmon_agent.errors import Refused
from launchmon_agent.events import Event, Malformed, Run, Stacks
from launchmon_agent.log.only import EVERYTHING, Only
from launchmon_agent.log.search import Counted, Found
from launchmon_agent.log.window import Line, Window
from launchmon_agent.model import RunModel
from launchmon_agent.wire import Hello, Reply, Request

HELLO_S = 20.0


Victim = tuple[int, str, "str | None", "str | None"]
"""A process that a kill would end: pid, role, rank, title."""


@dataclass(frozen=True)
class Link:
    """State of the pipe: ``connecting``, ``live``, ``lost`` or ``ended``; ``since`` by the client's clock."""

    state: str
    message: str = ""
    since: float = 0.0


class Session:
    """Made by :meth:`open`; after :meth:`attach` or :meth:`launch` the :attr:`model` follows the run.

    A relaunch puts a new model in its place, before the first event of the new run arrives.
    """

    def __init__(self, pipe: Pipe, *, read_only: bool = False, clock: Callable[[], float] = time.time) -> None:
        self.model = RunModel()
        self._kept = Kept()
        self.read_only = read_only
        self.hello: Hello | None = None
        self.link = Link("connecting", since=clock())
        self._pipe = pipe
        self._clock = clock
        self._heard_at = clock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._subscribers: list[Callable[[], None]] = []
        self._listeners: list[Callable[[Event], None]] = []
        self._hello_came: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, pipe: Pipe, *, read_only: bool = False) -> Session:
        """Wait for the agent's hello. Raises :class:`Refused` with what the agent said when none comes."""
        session = cls(pipe, read_only=read_only)
        try:
            hello = await asyncio.wait_for(asyncio.shield(session._hello_came), HELLO_S)
        except asyncio.TimeoutError:
            await session.close()
            raise Refused(f"no agent answered on {pipe.target} within {HELLO_S:.0f} s") from None
        if hello.protocol != events.PROTOCOL:
            await session.close()
            raise Refused(
                f"the agent speaks protocol {hello.protocol}, this launchmon speaks {events.PROTOCOL}",
                f"the agent is launchmon {hello.version}: client and agent are of different versions",
            )
        return session

    @property
    def target(self) -> str:
        return self._pipe.target

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
        return max(0.0, self._clock() - self._heard_at)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back on the event loop whenever the model or the link changed. Returns how to stop."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def listen(self, callback: Callable[[Event], None]) -> None:
        """Call back with each event, after the model has taken it in. A model put in place of another has its own."""
        self._listeners.append(callback)

    # -------------------------------------------------------------------------------------------------------- requests

    async def request(self, do: str, **args: Any) -> Any:
        """The agent's answer as JSON values. Raises :class:`Refused`, also when the link ends first."""
        if self.link.state in ("lost", "ended"):
            raise Refused("the agent is gone", self.link.message)
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._pipe.write_line(wire.request_line(Request(number, do, args)))
        try:
            return await future
        finally:
            self._waiting.pop(number, None)

    async def attach(self, **selectors: Any) -> Run:
        """Follow a run that exists. Raises :class:`Refused`."""
        return _run(await self.request("attach", **selectors))

    async def launch(self, **plan: Any) -> Run:
        """Start a run and follow it. Raises :class:`Refused` when nothing was started."""
        return _run(await self.request("launch", **plan))

    async def relaunch_options(self) -> dict[str, Any]:
        """The run's command and variables, the flags and toggles of its SGLang, and the remedies of the verdict."""
        value = await self.request("relaunch-options")
        assert isinstance(value, dict)
        return value

    async def relaunch_plan(self, **change: Any) -> dict[str, Any]:
        """What :meth:`relaunch` with the same arguments would start; changes nothing. Raises :class:`Refused`."""
        value = await self.request("relaunch-plan", **change)
        assert isinstance(value, dict)
        return value

    async def relaunch(self, **change: Any) -> Run:
        """End the run and follow its next attempt, with a model of its own. Raises :class:`Refused`.

        ``change``: ``add``, ``drop``, ``set``, ``unset``, ``back_to`` (the id of the attempt whose command is changed),
        ``force`` (no TERM), ``anyway`` (start whatever the preflight says). After a refusal nothing was started.
        """
        if self.read_only:
            raise Refused("this view is read-only", "it was opened with --read-only")
        return _run(await self.request("relaunch", **change))

    async def ledger(self, run: str | None = None) -> dict[str, Any]:
        """The attempts of a series: that of ``run``, or of the run that is followed."""
        value = await self.request("ledger", run=run)
        assert isinstance(value, dict)
        return value

    async def window(
        self, at: int | str, before: int, after: int, only: Only = EVERYTHING, raw: bool = False
    ) -> Window:
        """Lines around a place in the log, see :func:`launchmon_agent.log.window.window`. Raises :class:`Refused`."""
        value = await self.request("window", at=at, before=before, after=after, raw=raw, **asdict(only))
        return Window(**{**value, "lines": tuple(Line(**line) for line in value["lines"])})

    async def search(
        self, pattern: str, start: int, forward: bool, regex: bool = False, only: Only = EVERYTHING
    ) -> Found:
        """One slice of a search for the first line that matches at or after ``start``, or the last one before it."""
        value = await self.request("search", pattern=pattern, start=start, forward=forward, regex=regex, **asdict(only))
        return Found(**value)

    async def count(
        self, pattern: str, start: int, stop: int | None, regex: bool = False, only: Only = EVERYTHING
    ) -> Counted:
        """One slice of counting the lines that match from ``start`` up to ``stop``, or to the end of the log."""
        return Counted(
            **await self.request("count", pattern=pattern, start=start, stop=stop, regex=regex, **asdict(only))
        )

    async def place(self, *, line: int | None = None, moment: str | None = None) -> int:
        """The offset of a line by its number, or of the first line of a time. Raises :class:`Refused`."""
        offset = (await self.request("place", line=line, moment=moment))["offset"]
        assert isinstance(offset, int)
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
            lines += zlib.decompress(base64.b64decode(part["data"])).splitlines(keepends=True)
            start = part["next"]
        return lines

    async def software(self) -> dict[str, str]:
        """Name → version of what is installed for the server: sglang, torch, python, cuda and more, as far as known."""
        value = await self.request("software")
        assert isinstance(value, dict)
        return value

    async def dump(self, native: bool = False, locals_of: str | None = None) -> Stacks:
        """The stacks of all ranks now; the dump is in the model too. Raises :class:`Refused`."""
        name = await self.request("dump", native=native, locals_of=locals_of)
        found = next((dump for dump in reversed(self.model.stacks) if dump.id == name), None)
        if found is None:
            raise Refused("the dump was taken, and has not arrived", "the link is slow, or lost", "d takes another")
        return found

    async def kill_plan(self) -> list[Victim]:
        """The processes that a kill would end now."""
        plan = await self.request("kill-plan")
        return [(one["pid"], one["role"], one["rank"], one["title"]) for one in plan["processes"]]

    async def kill(self, force: bool = False) -> Any:
        """Stop the server. Steps arrive as Action events; the answer comes when all is over."""
        if self.read_only:
            raise Refused("this view is read-only", "it was opened with --read-only")
        return await self.request("kill", force=force)

    async def close(self) -> None:
        """End the conversation. The server and its keeper go on."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._set_link("ended", await self._pipe.end())

    # --------------------------------------------------------------------------------------------------------- reading

    async def _read(self) -> None:
        while line := await self._pipe.read_line():
            self._heard_at = self._clock()
            try:
                message = wire.parse(line)
            except Malformed:
                continue  # a banner, or a damaged line: the next one stands on its own
            if isinstance(message, Hello):
                self._set_link("live")
                self.hello = message
                if not self._hello_came.done():
                    self._hello_came.set_result(message)
            elif isinstance(message, Reply):
                self._settle(message)
            elif isinstance(message, Event):
                self._begin_anew(message)
                self.model.fold(message)
                if self.model.run is not None and not self.model.run.launched:
                    self._kept.add(message, line)
                for callback in tuple(self._listeners):
                    callback(message)
                self._changed()
        self._lost(await self._pipe.end())

    def _begin_anew(self, event: Event) -> None:
        """The first event of another run: the agent has relaunched the one that was followed."""
        known = self.model.run
        if isinstance(event, Run) and known is not None and event.id != known.id:
            self.model, self._kept = RunModel(), Kept()

    def _settle(self, reply: Reply) -> None:
        future = self._waiting.get(reply.to)
        if future is None or future.done():
            return
        if reply.refused is not None:
            future.set_exception(reply.refused)
        else:
            future.set_result(reply.value)

    def _lost(self, why: str) -> None:
        self._set_link("lost", why or "the agent has ended")
        gone = Refused("the agent is gone", why)
        for future in (*self._waiting.values(), self._hello_came):
            if not future.done():
                future.set_exception(gone)

    def _set_link(self, state: str, message: str = "") -> None:
        self.link = Link(state, message, self._clock())
        self._changed()

    def _changed(self) -> None:
        for callback in tuple(self._subscribers):
            callback()


def _run(value: Any) -> Run:
    event = events.from_body(value)
    assert isinstance(event, Run)
    return event
