"""What the home screen can begin: a launch by the form, on this machine or another, and the demo."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from launchmon.answers import an_object
from launchmon.cli.common import open_on
from launchmon.cli.demo import opened as opened_demo
from launchmon.cli.showing import Prepare, effective
from launchmon.connect import Asker
from launchmon.connect.target import LOCAL, Target
from launchmon.session import Session

if TYPE_CHECKING:
    from launchmon.listed import Place
    from launchmon.session_like import SessionLike
    from launchmon.tui.beginning import Beginnings

DEMO = "seed"
"""The kind of launch that launchmon is made for."""

Begun = Callable[[Sequence[Target] | None], None]
"""Told where something was started that goes on when the screen is left; None: it does not."""


class SessionLauncher:
    """A session with an agent that follows no run yet."""

    def __init__(self, session: Session, where: Target, prepare: Prepare, begun: Begun) -> None:
        self._session = session
        self._where = where
        self._prepare = prepare
        self._begun = begun

    @property
    def target(self) -> str:
        return self._where.label

    async def options(self, python: str | None) -> dict[str, Any]:
        keys = ("python", "pythons", "version", "flags", "flags_complete", "cwd")
        return an_object("launch-options", await self._ask("launch-options", python=python), *keys)

    async def plan(self, argv: Sequence[str], env: Mapping[str, str | None]) -> dict[str, Any]:
        answer = await self._ask("launch-plan", argv=list(argv), env=dict(env))
        return an_object("launch-plan", answer, "refused", "findings", "preparations")

    async def directories(self, text: str) -> dict[str, Any]:
        return an_object("directories", await self._ask("directories", text=text), "directories", "more", "late")

    async def launch(self, argv: Sequence[str], env: Mapping[str, str | None], *, anyway: bool) -> SessionLike:
        """As ``launchmon launch`` does."""
        await self._session.launch(
            argv=list(argv),
            env=dict(env),
            name=None,
            without=list(effective().config.launch_without),
            anyway=anyway,
            cwd=None,
            login=self._login,
        )
        self._begun((self._where,))
        return self._prepare(self._session)

    async def close(self) -> None:
        await self._session.close()

    @property
    def _login(self) -> bool:
        return self._where != LOCAL

    async def _ask(self, do: str, **args: Any) -> Any:
        return await self._session.request(do, login=self._login, cwd=None, **args)


def beginnings(named: Sequence[Target], begun: Begun, prepare: Prepare) -> Beginnings:
    """For the list of the runs on the targets that were ``named``. Several nodes need a command for each."""
    from launchmon.tui.beginning import Beginnings

    async def launcher(place: Place | None, asker: Asker) -> SessionLauncher:
        where: Target = named[0] if place is None else place.selector
        return SessionLauncher(await open_on(where, asker=asker), where, prepare, begun)

    async def demo() -> SessionLike:
        session = await opened_demo(DEMO)
        begun(None)
        return prepare(session)

    single = len(named) == 1 and named[0].kind != "slurm"
    here = tuple(named) == (LOCAL,)
    return Beginnings(launcher if single else None, demo if here else None)


def offering(named: Sequence[Target], begun: Begun) -> Callable[[Prepare], Beginnings]:
    """As :func:`launchmon.cli.showing.show` takes it."""
    return partial(beginnings, named, begun)
