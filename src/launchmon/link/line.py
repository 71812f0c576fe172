"""A line to an agent that mends itself: when a conversation ends, another one is begun, and what was asked is settled.

A question that was cut off is asked again. An action never is: it is asked what became of it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from launchmon.answers import an_object
from launchmon.connect import Barred, Pipe
from launchmon.link import Cut, Gone, Link
from launchmon.link.clock import Clock, SystemClock, awoken, first
from launchmon.link.conversation import Conversation, Hear
from launchmon_agent.errors import Refused
from launchmon_agent.wire import Hello

logger = logging.getLogger("launchmon.link")

OpenPipe = Callable[[], Awaitable[Pipe]]
"""Starts an agent and gives the pipe to it. Raises :class:`Refused`."""

FIRST_S = 0.5
LONGEST_S = 15.0
"""Between two attempts at mending: from the first to the longest, doubled each time."""

TOUCHES = {"launch": "nothing was started", "relaunch": "the run is as it was", "kill": "the run is as it was"}
"""What it means that an action was not done."""

STEADY_S = 20.0
"""A conversation that lasted less counts as an attempt that failed: the next waits longer."""


class _BrokenOffError(Exception):
    """An attempt is given up for another one at once."""


def delay(attempt: int, chance: float) -> float:
    """Seconds before an attempt, from 0; shortened by up to a third, so that many clients do not come all at once."""
    return float(min(LONGEST_S, FIRST_S * 2.0**attempt)) * (1 - chance / 3)


class Line:
    """Made by :meth:`open`.

    ``hear`` takes events, ``come_back`` makes an agent that is fresh take up what was followed (it raises :class:`Gone`
    where that is no more), ``changed`` is called when the :attr:`link` changes. ``attended``: somebody is there who can
    ask for another attempt, so that a line that is given up is not ended.
    """

    def __init__(
        self,
        open_pipe: OpenPipe,
        hear: Hear,
        come_back: Callable[[Conversation], Coroutine[Any, Any, None]],
        changed: Callable[[], None],
        *,
        attended: bool,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.clock = clock or SystemClock()
        self.link = Link("connecting", since=self.clock.wall())
        self.hello: Hello | None = None
        self.target = ""
        self._open_pipe = open_pipe
        self._hear = hear
        self._come_back = come_back
        self._changed = changed
        self._attended = attended
        self._chance = chance
        self._conversation: Conversation | None = None
        self._heard_at = self.clock.wall()
        self._turn = asyncio.Event()  # set, and replaced, whenever the link changes
        self._now = asyncio.Event()  # somebody wants another attempt at once
        self._closing: set[asyncio.Task[str]] = set()
        self._keeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """The first conversation. Raises :class:`Refused`; then there is no line."""
        self._conversation = await self._begin()
        self._set(Link("live", since=self.clock.wall()))
        self._keeping = asyncio.create_task(self._keep(self._conversation))

    @property
    def heard_at(self) -> float:
        """When the agent was last heard, by the client's clock."""
        return self._heard_at if self._conversation is None else self._conversation.heard_at

    def try_now(self) -> None:
        """Do not wait for the next attempt, nor for the end of one that is under way."""
        if self.link.state == "lost":
            self._now.set()

    async def ask(self, do: str, args: dict[str, Any]) -> Any:
        """A question, asked again when it is cut off. Raises :class:`Refused`, at once where the link is lost."""
        conversation = self._live()
        while True:
            try:
                return await conversation.ask(do, args)
            except Cut:
                await self._after(conversation, or_given_up=True)
                conversation = self._live()

    async def act(self, do: str, args: dict[str, Any]) -> Any:
        """An action, asked for once. Raises :class:`Refused`; when it was cut off, with what became of it."""
        action, conversation = uuid.uuid4().hex, self._live()
        try:
            return await conversation.ask(do, {**args, "action": action})
        except Cut as cut:
            await self._after(conversation)
            return await self._what_became(do, action, str(cut))

    async def back(self) -> None:
        """Wait while the link is lost. Raises :class:`Refused` when it has ended."""
        await self._until(lambda: self.link.state != "lost")
        self._live()

    async def close(self) -> None:
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
        ending = self.link.message
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            self._heard_at = conversation.heard_at
            ending = await conversation.close()
        if self._closing:
            await asyncio.wait(tuple(self._closing))
        self._set(Link("ended", ending, self.clock.wall()))

    # --------------------------------------------------------------------------------------------------------- mending

    async def _keep(self, conversation: Conversation) -> None:
        attempt = 0
        while True:
            since = self.clock.monotonic()
            why = await conversation.over()
            self._drop(conversation)
            attempt = attempt if self.clock.monotonic() - since < STEADY_S else 0
            mended = await self._mend(why, attempt)
            attempt += 1
            if mended is None:
                return
            conversation = mended

    async def _mend(self, why: str, attempt: int) -> Conversation | None:
        """Try until there is a conversation again; None when there will be none. ``attempt``: how many went before."""
        since, barred = self.clock.wall(), False
        while True:
            if barred and not self._attended:
                self._set(Link("ended", why, since, given_up=True))
                return None
            if await self._pause(attempt, why, since, barred):
                attempt = 0
            self._set(Link("lost", why, since))
            self._now.clear()
            try:
                return await self._attempt()
            except Gone as gone:
                self._set(Link("ended", str(gone), since))
                return None
            except _BrokenOffError:
                attempt = 0
                continue
            except Cut as cut:
                why, barred = str(cut), False
            except (Refused, ConnectionError, OSError) as error:
                why, barred = _words(error), isinstance(error, Barred)
            except Exception as error:  # what is hostile or broken at the other end must not end the trying
                logger.exception("an attempt at the link failed")
                why, barred = f"a fault in launchmon ({type(error).__name__}: {error})", False
            attempt += 1

    async def _pause(self, attempt: int, why: str, since: float, barred: bool) -> bool:
        """Wait for the time of the next attempt; True when it was somebody's wish or the end of a sleep instead.

        Where waiting does not help only a wish counts.
        """
        if barred:
            self._set(Link("lost", why, since, given_up=True))
            return await self._now.wait()
        if self._now.is_set():
            return True
        seconds = delay(attempt, self._chance())
        self._set(Link("lost", why, since, retry_at=self.clock.wall() + seconds))
        return await first(self.clock.sleep(seconds), self._now.wait(), awoken(self.clock)) > 0

    async def _attempt(self) -> Conversation:
        """Raises :class:`Refused`, :class:`Gone`, :class:`Cut`, and when it was broken off for another one."""
        attempt = asyncio.create_task(self._return())
        try:
            broken_off = await first(asyncio.wait({attempt}), self._now.wait(), awoken(self.clock)) > 0
            if broken_off and not attempt.done():
                self._now.set()
                raise _BrokenOffError
            return await attempt
        finally:
            attempt.cancel()
            await asyncio.gather(attempt, return_exceptions=True)

    async def _return(self) -> Conversation:
        conversation = await self._begin()
        returning = asyncio.create_task(self._come_back(conversation))
        ended = asyncio.create_task(conversation.over())
        try:
            try:
                await asyncio.wait({returning, ended}, return_when=asyncio.FIRST_COMPLETED)
                if not returning.done():
                    raise Cut(ended.result())
                await returning
            finally:
                returning.cancel()
                ended.cancel()
                await asyncio.gather(returning, ended, return_exceptions=True)
        except BaseException:
            self._drop(conversation)
            raise
        self._conversation = conversation
        self._set(Link("live", since=self.clock.wall()))
        return conversation

    async def _begin(self) -> Conversation:
        pipe = await self._open_pipe()
        self.target = pipe.target
        conversation = Conversation(pipe, self._hear, self.clock)
        try:
            self.hello = await conversation.greet()
        except BaseException:
            self._end(conversation)
            raise
        return conversation

    def _drop(self, conversation: Conversation) -> None:
        if self._conversation is conversation:
            self._conversation, self._heard_at = None, conversation.heard_at
        self._end(conversation)

    def _end(self, conversation: Conversation) -> None:
        """A channel that hangs takes seconds to close: nobody waits for that."""
        closing = asyncio.create_task(conversation.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    # -------------------------------------------------------------------------------------------------------- settling

    async def _what_became(self, do: str, action: str, why: str) -> Any:
        """The value of an action that was cut off. Raises :class:`Refused` that says what is known of it."""
        if self.link.state == "ended":
            raise Refused(
                f"the {do}: unknown whether it was done",
                f"the link ended before that was told: {why}",
                "launchmon runs",
            )
        outcome = an_object("outcome", await self.ask("outcome", {"action": action}), "state")
        match outcome["state"]:
            case "done":
                return outcome.get("value")
            case "refused":
                raise Refused.from_json(outcome.get("refused"))
            case "not done":
                told = TOUCHES.get(do, "nothing has happened")
                raise Refused(
                    f"the {do}: not done, {told}", "the link was lost before the request arrived", "ask for it again"
                )
        raise Refused(
            f"the {do}: unknown whether it was done",
            "the link was lost, and who did it has ended without a word",
            "look at what is alive before asking for it again",
        )

    def _live(self) -> Conversation:
        if self._conversation is not None and self.link.state == "live":
            return self._conversation
        if self.link.state == "ended":
            raise Refused(f"the link to {self.target} has ended", self.link.message)
        again = "it is tried again only when you ask for it" if self.link.given_up else "it is being tried again"
        cause = f"{self.link.message}; {again}" if self.link.message else again
        raise Refused(f"the link to {self.target} is lost", cause)

    async def _after(self, conversation: Conversation, *, or_given_up: bool = False) -> None:
        """Wait for another conversation, or for the certainty that there will be none."""

        def decided() -> bool:
            link = self.link
            return link.state in ("live", "ended") or (or_given_up and link.given_up)

        await self._until(lambda: self._conversation is not conversation and decided())

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._turn.wait()

    def _set(self, link: Link) -> None:
        if link != self.link:
            self.link = link
            self._turn.set()
            self._turn = asyncio.Event()
            self._changed()


def _words(error: Exception) -> str:
    if isinstance(error, Refused):
        return "; ".join(part for part in (error.what, error.cause) if part)
    return str(error) or type(error).__name__
