"""Moves a viewport over a log that a session serves: follow, scroll, jump and filter. No widgets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from launchmon.format import percent, thousands
from launchmon.session_like import SessionLike, WindowLike
from launchmon.tui.log_buffer import Viewport
from launchmon.tui.log_places import Target, next_of
from launchmon.tui.log_pointer import Pointer
from launchmon.tui.log_search import Search
from launchmon_agent.errors import Refused
from launchmon_agent.log.only import EVERYTHING, Only

logger = logging.getLogger("launchmon.tui")

MOST_OWED = 4
"""Screens of scrolling that may wait for lines: a held key must not go on for seconds after its release."""


class LogReader:
    """Requests run one after the other; ``changed`` is called whenever there is something new to paint."""

    def __init__(self, session: SessionLike, changed: Callable[[], None]) -> None:
        self.viewport = Viewport()
        self.only: Only = EVERYTHING
        self.raw = False
        """Lines are shown with all that a terminal would not show."""
        self.pointer = Pointer(self.viewport)
        self.search = Search(session, changed)
        self.message = ""
        self.loaded = False
        self._session = session
        self._changed = changed
        self._turn = asyncio.Lock()
        self._owed = 0  # rows that were scrolled, and for which there are no lines yet
        self._asked = 0  # requests of a person so far
        self._turn_of = 0  # how many there were when the one that is carried out now was made

    # ---------------------------------------------------------------------------------------------------- on the spot

    def begin_anew(self) -> None:
        """Another log takes the place of this one: forget its lines, follow the new one."""
        self.viewport.forget()
        self.only = EVERYTHING
        self._forget_places()
        self.message, self.loaded, self._owed = "", False, 0
        self._asked += 1

    def rewound(self) -> None:
        """The end of the log was taken away: forget its lines."""
        self.viewport.forget()
        self.loaded, self._owed = False, 0
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
        """What :meth:`find` looks for from now on."""
        self.pointer.current = None
        self.search.begin(pattern, regex, self.only)

    def forget_search(self) -> None:
        self.pointer.current = None
        self.search.forget()
        self.say("")

    def say(self, message: str) -> None:
        """Show a short message in the title until the next move."""
        self.message = message
        self._changed()

    def point(self, rows: int) -> None:
        """Move the pointer by shown lines; the screen follows it."""
        in_sight = self.pointer.move(rows)
        self.message = ""
        if not in_sight:
            self.scroll(rows)
        self._changed()

    def position(self) -> str:
        """Where in the file the screen is: ``62% · line 1,234``."""
        line, size = self.viewport.top_line, self._size()
        if line is None:
            return ""
        share = percent(100 * line.offset / size) if size else percent(0)
        return share if line.number is None else f"{share} · line {thousands(line.number)}"

    @property
    def local_log(self) -> str | None:
        """Path of the log, where it is a file on this machine."""
        return self._session.local_log

    @property
    def place(self) -> int:
        """Offset of the line that is pointed at, else of the one at the top of the screen."""
        shown, line = self.pointer.shown, self.viewport.top_line
        return shown.line.offset if shown is not None else 0 if line is None else line.offset

    # ------------------------------------------------------------------------------------------------- with the session

    async def guarded(self, work: Callable[[], Awaitable[None]], asked: bool = True) -> None:
        """Run one of the methods below when its turn comes; what fails is said in the title.

        What a person ``asked`` for ends a long look for lines that went before it.
        """
        self._asked += asked
        mine = self._asked
        async with self._turn:
            self._turn_of = mine
            try:
                await work()
            except Refused as refusal:
                self._owed, self.message = 0, ": ".join(part for part in (refusal.what, refusal.cause) if part)
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
            self._forget_places()
            await self._tail()
            self.message = "the log was replaced"
        elif port.follow and not self.only.all and self.loaded:
            # Wanted lines may be far apart: what was found is kept, and only the new part is looked at.
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
        port.buffer.replace(await self._window(0, 0, 3 * port.height))
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

    async def show_only(self, only: Only) -> None:
        """Show the lines that are wanted, from about the same place on."""
        self.only = only
        if self.search.pattern:
            self.search.begin(self.search.pattern, self.search.regex, only)
        await self._look_again()

    async def show_raw(self, raw: bool) -> None:
        self.raw = raw
        await self._look_again()

    async def set_fold(self, fold: bool) -> None:
        """Show identical lines of several ranks as one, or each again; what is missing on the screen is fetched."""
        kept = self._kept()
        self.viewport.set_fold(fold)
        if kept is None:
            await self._tail()
        else:
            self.viewport.show(*kept)
            await self._fill(*kept)

    async def next_of(self, offsets: Iterable[int], forward: bool, what: str) -> None:
        """Jump to the next of these lines, or the one before; round the end of the file where there is none."""
        found = next_of(offsets, self.pointer.here, forward)
        if found is None:
            self.message = f"no {what} in the log"
            return
        place = f"{what} {found.place} of {found.of}" + (", from the other end" if found.wrapped else "")
        await self.arrive(found.offset, place)

    async def go(self, target: Target) -> None:
        """Where a person wants to go. Raises :class:`Refused` where there is no such place."""
        if target.share is not None:
            offset, name = int(target.share * self._size()), ""
        elif target.offset is not None:
            offset, name = target.offset, target.name
        else:
            offset, name = await self._session.place(line=target.line, moment=target.moment), ""
        await self.arrive(offset, name)

    async def bookmarked(self) -> list[str]:
        """All bookmarked lines in the order of the log, also those that a filter hides."""
        windows = [await self._session.window(offset, 0, 1) for offset in sorted(self.pointer.bookmarks)]
        return [line.text for window in windows for line in window.lines]

    async def around(self, count: int) -> tuple[list[str], int]:
        """``count`` lines before :attr:`place` and from it on, as they are filtered; and which of them it is."""
        place = self.place
        lines = (await self._window(place, count, count)).lines
        return [line.text for line in lines], sum(line.offset < place for line in lines)

    async def find(self, forward: bool) -> None:
        """Go to the next hit of the search, or the one before; round the end of the file where there is none."""
        start = self._after_here() if forward else self._before_here()
        hit = await self._find(start, forward)
        wrapped = False
        other_end = 0 if forward else self._size()
        if hit is None and start != other_end and not self._overtaken:
            wrapped = True
            hit = await self._find(other_end, forward)
        if hit is not None:
            await self.arrive(hit, "from the other end" if wrapped else "")
        elif not self._overtaken:
            group = self.pointer.shown
            folded = group is not None and group.times > 1
            self.message = "no other hit" if folded else f"not found: {self.search.pattern}"

    async def arrive(self, offset: int, message: str) -> None:
        """Show and point at the line that holds ``offset``; where it is not wanted, at one beside it."""
        await self._jump(offset, above=self.viewport.height // 3)
        exact = self.pointer.arrive(offset)
        if message and not exact and not self.only.all:
            message += ", hidden by the filter"
        self.message = message

    # --------------------------------------------------------------------------------------------------------- fetching

    async def _find(self, start: int, forward: bool) -> int | None:
        """Slice by slice, until something is found or a person wants something else. A folded line is found once."""
        size = self._size()
        group = self.pointer.shown
        at: int | None = start
        while at is not None and not self._overtaken:
            found = await self._session.search(self.search.pattern, at, forward, self.search.regex, self.only)
            if found.offset is None:
                at = found.next
                if at is not None and size:
                    self.say(f"searching… {percent(100 * (at if forward else size - at) / size)}")
            elif group is not None and group.times > 1 and group.holds(found.offset):
                at = found.offset + 1 if forward else found.offset
            else:
                return found.offset
        return None

    @property
    def _overtaken(self) -> bool:
        """A person has asked for something else since the turn of this request began."""
        return self._asked != self._turn_of

    async def _jump(self, offset: int, above: int) -> None:
        self._hold()
        port = self.viewport
        port.buffer.replace(await self._window(offset, port.height, 2 * port.height))
        self.loaded = True
        while not port.buffer.lines and not port.buffer.at_end and not self._overtaken:
            await self._later()
        if port.fold and not port.buffer.at_start:
            await self._earlier()  # what folds into the first lines must not depend on where the window began
        port.show(offset, above)
        await self._fill(offset, above)

    async def _fill(self, offset: int | None = None, above: int = 0) -> None:
        """Fetch until the screen is full, where there is as much: filters and folds leave few lines of a window."""
        port = self.viewport
        while len(port.rows()) < port.height and not self._overtaken:
            if not await self._later() and not await self._earlier():
                break
            if offset is not None:
                port.show(offset, above)
            self._changed()

    async def _tail(self) -> None:
        port = self.viewport
        port.buffer.replace(await self._window("end", port.height, 0))
        self.loaded, self._owed, port.follow = True, 0, True
        port.show_end()
        while len(port.rows()) < port.height and not self._overtaken and await self._earlier():
            port.show_end()
            self._changed()

    async def _earlier(self) -> bool:
        """Fetch what lies before; False where nothing does. Filtered, it may bring no line and yet come further."""
        port = self.viewport
        if port.buffer.at_start:
            return False
        window = await self._window(port.buffer.start, 3 * port.height, 0)
        if window.generation != port.buffer.generation:
            await self._tail()
            return False
        moved = window.start < port.buffer.start
        port.prepend(window)
        return moved

    async def _later(self) -> bool:
        """Fetch what lies behind; False where nothing does."""
        port = self.viewport
        window = await self._window(port.buffer.end, 0, 3 * port.height)
        if window.generation != port.buffer.generation:
            await self._tail()
            return False
        moved = window.end > port.buffer.end
        port.append(window)
        return moved

    async def _look_again(self) -> None:
        """Fetch what is on the screen anew: it is to be shown differently."""
        kept = self._kept()
        self._owed, self.message = 0, ""
        if kept is None:
            await self._tail()
        else:
            await self._jump(*kept)

    def _kept(self) -> tuple[int, int] | None:
        """The line that stays where it is when lines are shown differently, and the rows above it; None: the end."""
        port = self.viewport
        rows = port.rows()
        if port.follow or not rows:
            return None
        for above, row in enumerate(rows):
            if row.shown.holds(self.pointer.current):
                return row.line.offset, above
        return rows[0].line.offset, 0

    async def _window(self, at: int | str, before: int, after: int) -> WindowLike:
        return await self._session.window(at, before, after, self.only, self.raw)

    def _forget_places(self) -> None:
        """Offsets mean nothing any more: another file begins."""
        self.pointer.forget()
        self.search.begin(self.search.pattern, self.search.regex, self.only)

    def _hold(self) -> None:
        self.viewport.follow, self._owed, self.message = False, 0, ""

    def _after_here(self) -> int:
        here = self.pointer.here
        if here is None:
            return 0
        buffer = self.viewport.buffer
        following = buffer.index_of(here) + (self.pointer.place is not None)
        return buffer.lines[following].offset if following < len(buffer.lines) else buffer.end

    def _before_here(self) -> int:
        here = self.pointer.here
        return self._size() if here is None else here

    def _size(self) -> int:
        log = self._session.model.log
        return self.viewport.buffer.size if log is None else log.size

    def _generation(self) -> int:
        log = self._session.model.log
        return 0 if log is None else log.generation
