"""What the home screen can begin, besides watching what is there. The command line fulfils it; so do fakes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from launchmon.connect import Asker
from launchmon.listed import Place
from launchmon.session_like import SessionLike


class LauncherLike(Protocol):
    """An agent on one machine that is asked about a launch, and then for it."""

    @property
    def target(self) -> str: ...
    async def options(self, python: str | None) -> dict[str, Any]:
        """``launchmon_agent.beginning``: Pythons, flags of the chosen one. Raises Refused."""

    async def plan(self, argv: Sequence[str], env: Mapping[str, str | None]) -> dict[str, Any]:
        """What keeps it from starting, and what is worth knowing before. Raises Refused."""

    async def directories(self, text: str) -> dict[str, Any]:
        """How a path that is being typed may go on. Raises Refused."""

    async def launch(self, argv: Sequence[str], env: Mapping[str, str | None], *, anyway: bool) -> SessionLike:
        """Start it; the session follows it. After a refusal another launch can be asked for. Raises Refused."""

    async def close(self) -> None:
        """Unless something was launched, which goes on."""


@dataclass(frozen=True)
class Beginnings:
    """``launcher``: None of a place is the machine that the list of runs is about."""

    launcher: Callable[[Place | None, Asker], Awaitable[LauncherLike]] | None = None
    demo: Callable[[], Awaitable[SessionLike]] | None = None

    @property
    def offered(self) -> tuple[str, ...]:
        """Keys of ``screens.home.BEGIN``."""
        known = (("launch", self.launcher), ("demo", self.demo))
        return tuple(what for what, begin in known if begin is not None)
