from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from launchmon.connect import Asker
from launchmon.listed import Found, Place
from launchmon.tui.app import LaunchmonApp
from launchmon.tui.screens.ask import AskScreen
from launchmon.tui.screens.home import HomeScreen
from launchmon.tui.screens.run import RunScreen
from launchmon_agent.errors import Refused
from tests.support import fake_session as fake
from tests.support.fake_session import FakeSession
from tests.support.tui_rig import Rig

HERE = [Found("here", "run here", model="kimi", pid=1), Found("here too", "run here too", model="qwen", pid=2)]
THERE = [Found("there", "run there", model="llama", pid=3)]
PLACES = [Place("root@gpu7", "gpu7", "2m ago"), Place("gpu8", "gpu8", "SSH configuration")]


class Elsewhere:
    """Runs here and there; what was opened."""

    def __init__(self, here: list[Found] = HERE, places: list[Place] = PLACES) -> None:
        self.here = here
        self.places = places
        self.looked: list[Any] = []
        self.opened: list[Any] = []
        self.refusal: Refused | None = None
        self.asks = False

    async def pick(self, _: Asker) -> list[Found]:
        return self.here

    async def pick_there(self, place: Place, asker: Asker) -> list[Found]:
        self.looked.append(place.selector)
        if self.asks and not await asker.confirm(f"{place.label} is a stranger"):
            raise Refused("it is a stranger")
        if self.refusal is not None:
            raise self.refusal
        return THERE

    async def attach(self, found: Found, _: Asker) -> FakeSession:
        self.opened.append(found.selector)
        return fake.seed()

    @asynccontextmanager
    async def shown(self, size: tuple[int, int] = (100, 24), *, settled: bool = True) -> AsyncIterator[Rig]:
        app = LaunchmonApp(
            None, pick=self.pick, places=lambda: self.places, pick_there=self.pick_there, attach=self.attach
        )
        async with app.run_test(size=size) as pilot:
            rig = Rig(app, pilot, fake.empty())
            if settled:
                await rig.settle()
            yield rig


def selected(rig: Rig) -> str:
    (row,) = [row for row in rig.text("home-list").splitlines() if "▶" in row]
    return row


async def test_other_machines_are_listed_below_the_runs_with_the_reason() -> None:
    async with Elsewhere().shown() as rig:
        rows = [row.split() for row in rig.text("home-list").splitlines()]
        assert rows[-3:] == [["other", "machines"], ["root@gpu7", "2m", "ago"], ["gpu8", "SSH", "configuration"]]
        assert "here" in selected(rig)
        await rig.press("up")
        assert "gpu8" in selected(rig)
        await rig.press("down")
        assert "here" in selected(rig)


async def test_where_no_run_is_here_other_machines_are_still_offered() -> None:
    async with Elsewhere(here=[]).shown((80, 24)) as rig:
        assert "launchmon demo" in rig.text("home-list")
        assert "root@gpu7" in selected(rig)


async def test_many_machines_scroll_with_the_selection() -> None:
    many = [Place(f"gpu{number}", number) for number in range(100)]
    async with Elsewhere(places=many).shown((60, 18)) as rig:
        await rig.press("up")
        assert "gpu99" in selected(rig)
        assert "model" in rig.text("home-list").splitlines()[0]


async def test_enter_on_a_machine_lists_its_runs_and_enter_on_one_opens_it() -> None:
    there = Elsewhere()
    async with there.shown() as rig:
        await rig.press("down", "down", "enter")
        assert there.looked == ["gpu7"]
        assert "there" in selected(rig) and "gpu8" not in rig.text("home-list")
        assert "root@gpu7" in rig.text("home-title")
        await rig.press("enter")
        assert there.opened == ["run there"]
        assert isinstance(rig.app.screen, RunScreen)


async def test_escape_goes_back_to_all_machines_and_no_further() -> None:
    async with Elsewhere().shown() as rig:
        await rig.press("up", "enter")
        assert "gpu8" in rig.text("home-title")
        await rig.press("escape")
        assert "gpu8" in selected(rig)
        await rig.press("escape")
        assert isinstance(rig.app.screen, HomeScreen)


async def test_a_machine_that_cannot_be_reached_says_why_and_is_tried_again() -> None:
    there = Elsewhere()
    there.refusal = Refused("gpu7 did not answer", "it is down", "ssh gpu7 true")
    async with there.shown() as rig:
        await rig.press("down", "down", "enter")
        text = rig.text("home-list")
        assert "gpu7 did not answer" in text and "it is down" in text and "ssh gpu7 true" in text
        await rig.press("enter")
        assert there.opened == []
        there.refusal = None
        await rig.press("r")
        assert there.looked == ["gpu7", "gpu7"]
        assert "there" in selected(rig)


async def test_what_a_login_asks_is_put_over_the_list() -> None:
    there = Elsewhere()
    there.asks = True
    async with there.shown() as rig:
        await rig.pilot.press("up", "enter")
        while not isinstance(rig.app.screen, AskScreen):
            await rig.pilot.pause()
        await rig.pilot.pause()
        assert "gpu8 is a stranger" in rig.text("ask-lines")
        await rig.pilot.press("y")
        await rig.settle()
        assert "there" in selected(rig)


async def test_a_click_selects_what_it_hits() -> None:
    async with Elsewhere().shown() as rig:
        rows = rig.text("home-list").splitlines()
        row = next(number for number, text in enumerate(rows) if "gpu7" in text)
        await rig.pilot.click("#home-list", offset=(5, row + 1))  # below the padding
        assert "gpu7" in selected(rig)
        await rig.pilot.click("#home-list", offset=(5, rows.index(next(row for row in rows if "other" in row)) + 1))
        assert "gpu7" in selected(rig)


async def test_a_look_that_takes_longer_than_the_time_to_the_next_is_not_begun_again() -> None:
    there = Elsewhere()
    gate = asyncio.Event()
    looks = 0

    async def slow(_: Asker) -> list[Found]:
        nonlocal looks
        looks += 1
        await gate.wait()
        return HERE

    there.pick = slow  # type: ignore[method-assign]
    async with there.shown(settled=False) as rig:
        home = rig.app.screen
        assert isinstance(home, HomeScreen)
        home._look_again()
        await rig.pilot.pause()
        assert looks == 1
        gate.set()
        await rig.settle()
        assert "here" in selected(rig)
        before = looks
        home._look_again()
        await rig.settle()
        assert looks > before


async def test_the_selection_stays_with_its_run_while_others_come_and_go() -> None:
    there = Elsewhere()
    new = Found("new", "run new", model="glm", pid=4)
    async with there.shown() as rig:
        await rig.press("down")
        assert "here too" in selected(rig)
        there.here = [new, *HERE]
        await rig.press("r")
        assert "here too" in selected(rig)
        await rig.press("down")
        assert "root@gpu7" in selected(rig)
        there.here = [new]
        await rig.press("r")
        assert "root@gpu7" in selected(rig)


async def test_the_selection_outlives_a_look_that_failed() -> None:
    there = Elsewhere()

    async def pick(_: Asker) -> list[Found]:
        if there.refusal is not None:
            raise there.refusal
        return there.here

    there.pick = pick  # type: ignore[method-assign]
    async with there.shown() as rig:
        await rig.press("down")
        there.refusal = Refused("the agent did not answer")
        await rig.press("r")
        there.refusal = None
        await rig.press("r")
        assert "here too" in selected(rig)


async def test_of_two_runs_that_are_selected_alike_the_selection_stays_with_its_own() -> None:
    twins = [Found("on a", {}, model="kimi", target="a"), Found("on b", {}, model="kimi", target="b")]
    there = Elsewhere(here=twins)
    async with there.shown() as rig:
        await rig.press("down")
        assert "on b" in selected(rig)
        await rig.press("r")
        assert "on b" in selected(rig)
