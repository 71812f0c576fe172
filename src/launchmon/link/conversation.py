"""The talk with an agent over one pipe, until the pipe ends or falls silent."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from launchmon.connect import Barred, Pipe
from launchmon.link import Cut
from launchmon.link.clock import JUMP_S, TICK_S, Clock
from launchmon_agent import codec, wire
from launchmon_agent.codec import Malformed
from launchmon_agent.errors import Refused
from launchmon_agent.events import Event
from launchmon_agent.wire import Hello, Reply, Request

logger = logging.getLogger("launchmon.link")

HELLO_S = 20.0

SILENT_S = 8.0
"""An agent that watches says something each second. After so long without a byte it is asked whether it is there."""

ANSWER_S = 8.0
"""How long it may take to answer that: a flooded link, a target that swaps."""

AWAKE_S = 3.0
"""The same after this machine was asleep, when a link is more likely dead than slow."""

SPEAK_S = 30.0
"""The agent hears from us at least so often: it ends by itself when a link is dead that nobody closed."""

Hear = Callable[[Event, bytes], None]
"""Takes each event, with its line."""


@dataclass(frozen=True)
class _Question:
    """Whether the agent is there. ``strict``: only its answer counts, as what else comes may have waited here."""

    task: asyncio.Task[None]
    until: float
    strict: bool


class Conversation:
    """Made over a fresh pipe; :meth:`greet` comes first, :meth:`over` says when it has ended."""

    def __init__(self, pipe: Pipe, hear: Hear, clock: Clock) -> None:
        self.hello: Hello | None = None
        self.heard_at = clock.wall()
        self.target = pipe.target
        self._pipe = pipe
        self._hear = hear
        self._clock = clock
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._spoke_at = clock.monotonic()
        self._hello_came: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read())

    async def greet(self) -> Hello:
        """The agent's hello. Raises :class:`Refused` with what the agent said when none comes; ends with it."""
        try:
            hello = await asyncio.wait_for(asyncio.shield(self._hello_came), HELLO_S)
        except asyncio.TimeoutError:
            await self.close()
            raise Refused(f"no agent answered on {self.target} within {HELLO_S:.0f} s") from None
        except Cut as cut:
            await self.close()
            raise Refused("the agent is gone", str(cut)) from None
        if hello.protocol != codec.PROTOCOL:
            await self.close()
            raise Barred(
                f"the agent speaks protocol {hello.protocol}, this launchmon speaks {codec.PROTOCOL}",
                f"the agent is launchmon {hello.version}: client and agent are of different versions",
            )
        return hello

    async def ask(self, do: str, args: dict[str, Any]) -> Any:
        """The agent's answer as JSON values. Raises :class:`Refused`, and :class:`Cut` when the pipe ends first."""
        if self._reading.done():
            raise Cut("the agent is gone")
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._spoke_at = self._clock.monotonic()
        self._pipe.write_line(wire.request_line(Request(number, do, args)))
        try:
            return await future
        finally:
            self._waiting.pop(number, None)

    async def over(self) -> str:
        """Wait until nothing more will come, and say why in words: the pipe has ended, or the agent is silent."""
        silence = asyncio.create_task(self._silence())
        try:
            await asyncio.wait({self._reading, silence}, return_when=asyncio.FIRST_COMPLETED)
            if self._reading.done():
                return self._reading.result()
            return silence.result()
        finally:
            silence.cancel()
            await asyncio.gather(silence, return_exceptions=True)

    async def close(self) -> str:
        """End the pipe; what waits for an answer is told. Returns how the agent ended ("": as it should)."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._give_up("the link was closed")
        return await self._pipe.end()

    async def _read(self) -> str:
        """Until the end of the pipe: why it ended."""
        while line := await self._pipe.read_line():
            self.heard_at = self._clock.wall()
            try:
                message = wire.parse(line)
            except Malformed:
                continue  # a banner, or a damaged line: the next one stands on its own
            if isinstance(message, Hello):
                self.hello = message
                if not self._hello_came.done():
                    self._hello_came.set_result(message)
            elif isinstance(message, Reply):
                self._settle(message)
            elif isinstance(message, Event):
                try:
                    self._hear(message, line)
                except Exception as error:
                    logger.exception("an event could not be taken in")
                    await self._pipe.end()
                    why = f"what the agent says cannot be understood ({type(error).__name__})"
                    self._give_up(why)
                    return why
        why = await self._pipe.end() or "the agent has ended"
        self._give_up(why)
        return why

    async def _silence(self) -> str:
        """Returns when nothing comes any more, although it was asked for."""
        received, heard = self._pipe.received, self._clock.monotonic()
        ahead = self._clock.wall() - heard
        question: _Question | None = None
        asked: set[asyncio.Task[None]] = set()
        try:
            while True:
                await self._clock.sleep(TICK_S)
                now = self._clock.monotonic()
                slept = self._clock.wall() - now - ahead > JUMP_S
                ahead = self._clock.wall() - now
                if self._pipe.received != received:
                    received, heard = self._pipe.received, now
                if question is not None and (question.task.done() or (heard == now and not question.strict)):
                    question = None
                if question is not None:
                    if now >= question.until:
                        return f"nothing came for {now - heard:.0f} s, not even an answer"
                elif slept or now - heard >= SILENT_S or now - self._spoke_at >= SPEAK_S:
                    task = asyncio.create_task(self._ping())
                    asked.add(task)
                    question = _Question(task, now + (AWAKE_S if slept else ANSWER_S), strict=slept)
        finally:
            for task in asked:
                task.cancel()

    async def _ping(self) -> None:
        try:
            await self.ask("ping", {})
        except (Refused, Cut):
            return

    def _settle(self, reply: Reply) -> None:
        future = self._waiting.get(reply.to)
        if future is None or future.done():
            return
        if reply.refused is not None:
            future.set_exception(reply.refused)
        else:
            future.set_result(reply.value)

    def _give_up(self, why: str) -> None:
        for future in (*self._waiting.values(), self._hello_came):
            if not future.done():
                future.set_exception(Cut(why))
                future.exception()  # whoever waits sees it; where nobody does, it is no fault
