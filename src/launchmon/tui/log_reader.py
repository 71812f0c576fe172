"""Moves a viewport over a log that a session serves: follow, scroll, jump, filter and search. No widgets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from launchmon.tui.format import percent, thousands
from launchmon.tui.log_buffer import Viewport
from launchmon.tui.protocol import SessionLike
from launchmon_agent.errors import Refused

logger = logging.getLogger("launchmon.tui")

MOST_OWED = 4
"""Screens of scrolling that may wait for lines: a held key must not go on for seconds after its release."""


class LogReader:
    """Requests run one after the other; ``changed`` is called whenever there is something new to paint."""

    def __init__(self, session: SessionLike, changed: Callable[[], None]) -> None:
        self.viewport = Viewport()
        self.rank: str | None = None
        self.pattern = ""
        self.regex = False
        self.current: int | None = None
        """Offset of the line that a search or a jump arrived at."""
        self.message = ""
        self.loaded = False
        self._session = session
        self._changed = changed
        self._turn = asyncio.Lock()
        self._owed = 0
        self._asked = 0

    # ---------------------------------------------------------------------------------------------------- on the spot

    def begin_anew(self) -> None:
        """Another log takes the place of this one: forget its lines, follow the new one."""
        self.viewport.forget()
        self.rank = self.current = None
        self.message, self.loaded, self._owed = "", False, 0
        self._asked += 1

    def scroll(self, rows: int) -> None:
        """Move as far as the lines at hand reach; :meth:`settle` fetches what is missing."""
        port = self.viewport
        if rows < 0:
            port.follow = False
        self.message = ""
        most = MOST_OWED * port.height
        self._owed = max(-most, min(most, self._owed + port.scroll(rows)))
        self._changed()

    def search_for(self, pattern: str, regex: bool) -> None:
        self.pattern, self.regex, self.current = pattern, regex, None

    def forget_search(self) -> None:
        self.pattern, self.current = "", None
        self.say("")

    def say(self, message: str) -> None:
        """Show a short message in the title until the next move."""
        self.message = message
        self._changed()

    def position(self) -> str:
        """Where in the file the screen is: ``62% · line 1,234``."""
        line, size = self.viewport.top_line, self._size()
        if line is None:
            return ""
        share = percent(100 * line.offset / size) if size else percent(0)
        return share if line.number is None else f"{share} · line {thousands(line.number)}"

    # ------------------------------------------------------------------------------------------------- with the session

    async def guarded(self, work: Callable[[], Awaitable[None]], asked: bool = True) -> None:
        """Run one of the methods below when its turn comes; what fails is said in the title.

        What a person ``asked`` for ends a long look for lines that went before it.
        """
        self._asked += asked
        async with self._turn:
            try:
                await work()
            except Refused as refusal:
                self._owed, self.message = 0, " ".join(part for part in (refusal.what, refusal.cause) if part)
            except (ConnectionError, OSError) as error:
                self._owed, self.message = 0, f"the log cannot be read now ({error})"
            except Exception as error:
                logger.exception("the log panel failed")
                self._owed, self.message = 0, f"this failed ({type(error).__name__}: {error})"
            self._changed()

    async def grown(self) -> None:
        """The log has grown or was replaced."""
        port = self.viewport
        if self.loaded and self._generation() != port.buffer.generation:
            self.current = None
            await self._tail()
            self.message = "the log was replaced"
        elif port.follow and self.rank is not None and self.loaded:
            # Lines of one rank may be far apart: what was found is kept, and only the new part is looked at.
            await self._later()
            if port.buffer.at_end:
                port.show_end()
            else:
                await self._tail()
        elif port.follow:
            await self._tail()

    async def to_end(self) -> None:
        self.message = ""
        await self._tail()

    async def to_start(self) -> None:
        self._hold()
        port = self.viewport
        port.buffer.replace(await self._session.window(0, 0, 3 * port.height, self.rank))
        self.loaded = True
        port.top = port.sub = 0

    async def settle(self) -> None:
        """Fetch lines until the scrolling that is owed is done or an end of the file is reached."""
        port, asked = self.viewport, self._asked
        while self._owed and asked == self._asked:
            up = self._owed < 0
            moved = await (self._earlier() if up else self._later())
            if (self._owed < 0) == up:
                self._owed = port.scroll(self._owed)
            self._changed()
            if self._owed and not moved:
                self._owed = 0
                port.follow = not up and port.at_bottom
        if port.follow and self.loaded:
            port.show_end()
        elif port.top < port.height:
            await self._earlier()  # ahead of the next page up

    async def show_rank(self, rank: str | None) -> None:
        place = None if self.viewport.follow else self.viewport.top_line
        self.rank, self._owed, self.message = rank, 0, ""
        if place is None:
            await self._tail()
        else:
            await self._jump(place.offset, above=0)

    async def next_of(self, offsets: Sequence[int], forward: bool, what: str) -> None:
        """Jump to the next of these lines, or the one before; round the end of the file where there is none."""
        if not offsets:
            self.message = f"no {what} in the log"
            return
        here = self._here()
        if forward:
            beyond = [offset for offset in offsets if here is None or offset > here]
            target, wrapped = (beyond[0], False) if beyond else (offsets[0], True)
        else:
            beyond = [offset for offset in offsets if here is None or offset < here]
            target, wrapped = (beyond[-1], False) if beyond else (offsets[-1], True)
        place = offsets.index(target) + 1
        await self._arrive(target, f"{what} {place} of {len(offsets)}" + (", from the other end" if wrapped else ""))

    async def find(self, forward: bool) -> None:
        """Go to the next hit of the search, or the one before; round the end of the file where there is none."""
        start = self._after_here() if forward else self._before_here()
        hit = await self._session.search(self.pattern, start, forward, self.regex, self.rank)
        wrapped = ""
        other_end = 0 if forward else self._size()
        if hit is None and start != other_end:
            wrapped = ", from the other end"
            hit = await self._session.search(self.pattern, other_end, forward, self.regex, self.rank)
        if hit is None:
            self.message = f"not found: {self.pattern}"
            return
        await self._arrive(hit.offset, f"found{wrapped}" if wrapped else "")

    # --------------------------------------------------------------------------------------------------------- fetching

    async def _arrive(self, offset: int, message: str) -> None:
        self.current = offset
        await self._jump(offset, above=self.viewport.height // 3)
        self.message = message

    async def _jump(self, offset: int, above: int) -> None:
        self._hold()
        port = self.viewport
        window = await self._session.window(offset, port.height, 2 * port.height, self.rank)
        port.buffer.replace(window)
        self.loaded = True
        port.show(offset, above)

    async def _tail(self) -> None:
        port, asked = self.viewport, self._asked
        port.buffer.replace(await self._session.window("end", port.height, 0, self.rank))
        self.loaded, self._owed, port.follow = True, 0, True
        port.show_end()
        while len(port.rows()) < port.height and asked == self._asked and await self._earlier():
            port.show_end()
            self._changed()

    async def _earlier(self) -> bool:
        """Fetch what lies before; False where nothing does. Filtered, it may bring no line and yet come further."""
        port = self.viewport
        if port.buffer.at_start:
            return False
        window = await self._session.window(port.buffer.start, 3 * port.height, 0, self.rank)
        if window.generation != port.buffer.generation:
            await self._tail()
            return False
        moved = window.start < port.buffer.start
        port.top += port.buffer.prepend(window)
        return moved

    async def _later(self) -> bool:
        """Fetch what lies behind; False where nothing does."""
        port = self.viewport
        window = await self._session.window(port.buffer.end, 0, 3 * port.height, self.rank)
        if window.generation != port.buffer.generation:
            await self._tail()
            return False
        moved = window.end > port.buffer.end
        port.dropped(port.buffer.append(window))
        return moved

    def _hold(self) -> None:
        self.viewport.follow, self._owed, self.message = False, 0, ""

    def _here(self) -> int | None:
        """Where "next" starts: the line a jump arrived at while in sight, else the top; ``None`` when following."""
        rows = self.viewport.rows()
        if self.current is not None and any(row.line.offset == self.current for row in rows):
            return self.current
        if self.viewport.follow or not rows:
            return None
        return rows[0].line.offset

    def _after_here(self) -> int:
        here = self._here()
        if here is None:
            return 0
        lines = self.viewport.buffer.lines
        following = (
            self.viewport.buffer.index_of(here) + 1 if self.current == here else self.viewport.buffer.index_of(here)
        )
        return lines[following].offset if following < len(lines) else self.viewport.buffer.end

    def _before_here(self) -> int:
        here = self._here()
        return self._size() if here is None else here

    def _size(self) -> int:
        log = self._session.model.log
        return self.viewport.buffer.size if log is None else log.size

    def _generation(self) -> int:
        log = self._session.model.log
        return 0 if log is None else log.generation
