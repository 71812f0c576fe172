"""What is asked of one node of a cluster session only: lines of the log that is shown, the past of the first node."""

from __future__ import annotations

from typing import Any

from launchmon.session import Session
from launchmon_agent.errors import Refused
from launchmon_agent.log.only import EVERYTHING, Only
from launchmon_agent.log.search import Counted, Found
from launchmon_agent.log.window import Window


def node_by_node() -> Refused:
    """Of what is done with a recording."""
    return Refused(
        "a recording is of one node, and several were named",
        "each node records what it sees",
        "the same with one --on or --via, node by node",
    )


class Reading:
    """Passes requests on. Offsets are those of the log that is shown."""

    def _reader(self) -> Session:
        """Of the node whose log is shown."""
        raise NotImplementedError

    def _first_attached(self) -> Session:
        """Of the first node that has the run. Raises :class:`Refused` when none has."""
        raise NotImplementedError

    @property
    def local_log(self) -> str | None:
        return self._reader().local_log

    async def window(
        self, at: int | str, before: int, after: int, only: Only = EVERYTHING, raw: bool = False
    ) -> Window:
        return await self._reader().window(at, before, after, only, raw)

    async def search(
        self, pattern: str, start: int, forward: bool, regex: bool = False, only: Only = EVERYTHING
    ) -> Found:
        return await self._reader().search(pattern, start, forward, regex, only)

    async def count(
        self, pattern: str, start: int, stop: int | None, regex: bool = False, only: Only = EVERYTHING
    ) -> Counted:
        return await self._reader().count(pattern, start, stop, regex, only)

    async def place(self, *, line: int | None = None, moment: str | None = None) -> int:
        return await self._reader().place(line=line, moment=moment)

    async def recording(self) -> list[bytes]:
        """Raises :class:`Refused`: there is one on each node."""
        raise node_by_node()

    async def software(self) -> dict[str, str]:
        return await self._first_attached().software()

    async def ledger(self, run: str | None = None) -> dict[str, Any]:
        return await self._first_attached().ledger(run)

    async def request(self, do: str, **args: Any) -> Any:
        return await self._first_attached().request(do, **args)
