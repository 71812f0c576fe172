from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.events import Paste

from launchmon.config import Config, Effective
from launchmon.connect import Asker
from launchmon.listed import Found, Place
from launchmon.tui.app import LaunchmonApp
from launchmon.tui.beginning import Beginnings
from launchmon.tui.screens.connect import ConnectScreen
from launchmon.tui.screens.home import HomeScreen
from launchmon.tui.screens.launch import LaunchScreen
from launchmon.tui.screens.run import RunScreen
from launchmon_agent.errors import Refused
from tests.support import fake_session as fake
from tests.support.fake_launcher import OTHER, PYTHON, FakeLauncher
from tests.support.fake_session import FakeSession
from tests.support.tui_rig import PLAIN, Rig

SIZES = [(120, 40), (80, 24)]
MODULE = ("-m", "sglang.launch_server")
PLACE = Place("root@gpu7", "gpu7", "2m ago")


class Home:
    def __init__(self) -> None:
        self.launcher = FakeLauncher()
        self.places: list[Place | None] = []
        self.refusal: Refused | None = None
        self.demo = fake.seed()
        self.runs: list[Found] = []
        self.there: list[Found] = []

    async def begin(self, place: Place | None, _: Asker) -> FakeLauncher:
        self.places.append(place)
        if self.refusal is not None:
            raise self.refusal
        return self.launcher

    async def begin_demo(self) -> FakeSession:
        if self.refusal is not None:
            raise self.refusal
        return self.demo

    async def pick(self, _: Asker) -> list[Found]:
        return self.runs

    async def pick_there(self, _: Place, __: Asker) -> list[Found]:
        if self.refusal is not None:
            raise self.refusal
        return self.there

    async def attach(self, _: Found, __: Asker) -> FakeSession:
        return self.demo

    @asynccontextmanager
    async def shown(self, size: tuple[int, int] = (120, 40), config: Config = PLAIN) -> AsyncIterator[Rig]:
        app = LaunchmonApp(
            None,
            pick=self.pick,
            places=lambda: [PLACE],
            pick_there=self.pick_there,
            attach=self.attach,
            beginnings=Beginnings(self.begin, self.begin_demo),
            settings=Effective(config),
        )
        async with app.run_test(size=size) as pilot:
            rig = Rig(app, pilot, self.demo)
            await rig.settle()
            yield rig


async def typed(rig: Rig, text: str) -> None:
    assert rig.app.focused is not None
    rig.app.focused.post_message(Paste(text))
    await rig.settle()


async def filled(rig: Rig, text: str) -> None:
    """Into the prompt of the selected row."""
    await rig.press("enter")
    await typed(rig, text)
    await rig.press("enter")


async def added(rig: Rig, text: str) -> None:
    await rig.press("a")
    await typed(rig, text)
    await rig.press("enter")


def row(rig: Rig, label: str) -> str:
    """The row of the list, without pointer and label."""
    return next(
        text[2:].removeprefix(label).strip()
        for text in rig.text("launch-list").splitlines()
        if text[2:].startswith(label)
    )


def one_line(text: str) -> str:
    return " ".join(text.split())


# ------------------------------------------------------------------------------------------------------------- the home


@pytest.mark.parametrize("size", SIZES)
async def test_home_offers_a_launch_and_the_demo_between_runs_and_machines(size: tuple[int, int]) -> None:
    async with Home().shown(size) as rig:
        shown = rig.text("home-list")
        assert shown.index("new launch") < shown.index("demo  ") < shown.index("root@gpu7")
        assert "▶  new launch" in shown
        assert "n new launch" in rig.text("footer")


async def test_the_demo_starts_from_home_and_is_stopped_with_the_screen() -> None:
    home = Home()
    async with home.shown() as rig:
        await rig.press("down", "enter")
        assert isinstance(rig.app.screen, RunScreen)
        await rig.press("q")
        assert home.demo.killed == [True]


async def test_after_a_demo_that_did_not_start_no_other_run_is_stopped_with_the_screen() -> None:
    home = Home()
    home.runs = [Found("mine", "run mine", pid=1)]
    home.refusal = Refused("no port is free")
    async with home.shown() as rig:
        await rig.press("down", "down", "enter")
        assert isinstance(rig.app.screen, ConnectScreen)
        await rig.press("escape", "up", "up", "enter")
        assert isinstance(rig.app.screen, RunScreen)
        await rig.press("q")
        assert home.demo.killed == []


async def test_of_a_list_that_can_no_longer_be_had_nothing_is_opened() -> None:
    home = Home()
    home.there = [Found(f"there {number}", number, pid=number) for number in range(3)]
    async with home.shown() as rig:
        await rig.press("up", "enter", "down", "down")
        assert "there 2" in next(row for row in rig.text("home-list").splitlines() if "▶" in row)
        home.refusal = Refused("gpu7 did not answer")
        await rig.press("r", "enter")
        assert not isinstance(rig.app.screen, RunScreen)


async def test_a_launch_is_begun_on_this_machine_or_on_the_one_that_is_selected() -> None:
    home = Home()
    async with home.shown() as rig:
        await rig.press("enter")
        assert isinstance(rig.app.screen, LaunchScreen)
        await rig.press("escape", "up", "n")
        assert isinstance(rig.app.screen, LaunchScreen)
        await rig.press("escape", "enter", "n")  # on the list of the runs there
        assert home.places == [None, PLACE, PLACE]


async def test_a_view_that_may_change_nothing_starts_no_launch() -> None:
    home = Home()
    async with home.shown(config=Config(theme="launchmon-dark", glyphs="unicode", read_only=True)) as rig:
        await rig.press("n", "down")
        await filled(rig, "org/model")
        await rig.press("s", "exclamation_mark")
        assert home.launcher.launched == [] and isinstance(rig.app.screen, LaunchScreen)


async def test_a_machine_that_cannot_be_reached_says_why() -> None:
    home = Home()
    home.refusal = Refused("gpu7 did not answer", "it is down", "ssh gpu7 true")
    async with home.shown() as rig:
        await rig.press("n")
        assert "gpu7 did not answer" in rig.text("launch-result") and "ssh gpu7 true" in rig.text("launch-result")
        await rig.press("s", "enter", "space", "a", "escape")
        assert isinstance(rig.app.screen, HomeScreen)


# ------------------------------------------------------------------------------------------------------------- the form


@asynccontextmanager
async def form(home: Home | None = None, size: tuple[int, int] = (120, 40)) -> AsyncIterator[tuple[Rig, FakeLauncher]]:
    home = home or Home()
    async with home.shown(size) as rig:
        await rig.press("n")
        await rig.settle()  # the answer has changed the heights
        yield rig, home.launcher


@pytest.mark.parametrize("size", SIZES)
async def test_from_nothing_to_a_running_server(size: tuple[int, int]) -> None:
    async with form(size=size) as (rig, launcher):
        assert "no model is chosen yet" in rig.text("launch-result")
        await rig.press("down")
        await filled(rig, "/models/llama")
        await rig.press("down")
        await filled(rig, "8")
        command = f"{PYTHON} -m sglang.launch_server --model-path /models/llama --tp-size 8"
        assert command in one_line(rig.text("launch-result"))
        assert "in /srv" in rig.text("launch-result")
        assert "nothing speaks against it" in rig.text("launch-result")
        await rig.press("s")
        argv = (PYTHON, *MODULE, "--model-path", "/models/llama", "--tp-size", "8")
        assert launcher.launched == [(argv, {}, False)]
        assert launcher.asked[-1] == (argv, {})
        assert isinstance(rig.app.screen, RunScreen) and rig.app.session is launcher.session
        assert not launcher.closed  # it is the session of the run now


@pytest.mark.parametrize("size", SIZES)
async def test_nothing_is_cut_and_each_row_is_reached(size: tuple[int, int]) -> None:
    async with form(size=size) as (rig, _):
        await rig.press("end")
        assert "▶ served as" in rig.text("launch-list")
        await rig.press("g")
        assert "▶ python" in rig.text("launch-list")
        painted = rig.screen_text().splitlines()
        assert "COMMAND LINE" in "\n".join(painted) and "^R start" in painted[-1] and "Esc back" in painted[-1]


async def test_the_flags_are_those_of_the_chosen_python() -> None:
    async with form() as (rig, _):
        assert "SGLang 0.5.23" in rig.text("launch-title") and row(rig, "memory") == "–"
        await rig.press("enter")
        assert f"{PYTHON}  SGLang 0.5.23" in rig.text("launch-hints") and OTHER in rig.text("launch-hints")
        await rig.press("ctrl+u")
        await typed(rig, OTHER)
        await rig.press("enter")
        assert row(rig, "python") == OTHER and "SGLang 0.3.6" in rig.text("launch-title")
        assert "memory" not in rig.text("launch-list")  # which that list has not


async def test_a_late_answer_about_a_python_closes_no_other_prompt() -> None:
    async with form() as (rig, launcher):
        options, gate = launcher.options, asyncio.Event()

        async def late(python: str | None) -> dict[str, Any]:
            await gate.wait()
            return await options(python)

        launcher.options = late  # type: ignore[method-assign]
        await rig.press("enter", "ctrl+u")
        await typed(rig, OTHER)
        await rig.pilot.press("enter", "escape", "down", "enter")
        gate.set()
        await rig.settle()
        await typed(rig, "/models/k")
        assert "/models/kimi-k2.5  a model" in rig.text("launch-hints")
        assert row(rig, "python") == PYTHON


async def test_a_python_that_is_not_there_leaves_the_prompt_with_the_reason() -> None:
    async with form() as (rig, _):
        await filled(rig, "x")
        assert "was not found" in rig.text("launch-hints")
        await rig.press("escape")
        assert row(rig, "python") == PYTHON


async def test_tab_completes_directories_and_says_which_are_models() -> None:
    async with form() as (rig, _):
        await rig.press("down", "enter")
        await typed(rig, "/models/k")
        assert "/models/kimi-k2.5  a model" in rig.text("launch-hints")
        await rig.press("tab")
        await typed(rig, "k")
        await rig.press("tab", "enter")
        assert row(rig, "model") == "/models/kimi-k2.5"
        await rig.press("enter", "ctrl+u")
        await typed(rig, "/models/ll")
        await rig.press("tab")  # no model itself: on to what is in it
        assert "/models/llama/8b  a model" in rig.text("launch-hints")
        await rig.press("tab", "enter")
        assert row(rig, "model") == "/models/llama/8b"


async def test_a_value_that_does_not_fit_is_refused_in_the_prompt_and_corrected_there() -> None:
    async with form() as (rig, _):
        await rig.press("down", "down")
        await filled(rig, "8x")
        assert "takes a whole number" in rig.text("launch-hints")
        await rig.press("backspace")
        assert "takes a whole number" not in rig.text("launch-hints")
        await rig.press("enter")
        assert row(rig, "tp") == "8"
        await rig.press("space")
        assert row(rig, "tp") == "– (1)"


async def test_a_switch_is_turned_by_enter_and_by_space() -> None:
    async with form() as (rig, _):
        await rig.press("end", "up")
        assert row(rig, "remote code") == "off"
        await rig.press("enter")
        assert row(rig, "remote code") == "on" and "--trust-remote-code" in rig.text("launch-result")
        await rig.press("space")
        assert row(rig, "remote code") == "off"


async def test_any_flag_and_variable_can_be_added_and_taken_out() -> None:
    async with form() as (rig, launcher):
        await rig.press("down")
        await filled(rig, "org/model")
        await added(rig, "--device cpu")
        await added(rig, "--tensor-parallel-size=2")  # the row tp, by its other name
        await added(rig, "A_B=1")
        assert row(rig, "--device") == "cpu" and row(rig, "tp") == "2" and row(rig, "A_B") == "1"
        await added(rig, "--devise=cpu")
        assert "--device" in rig.text("launch-hints") and "SGLang 0.5.23 has no flag --devise" in rig.text(
            "launch-hints"
        )
        await rig.press("escape", "end", "space", "s")
        argv = (PYTHON, *MODULE, "--model-path", "org/model", "--device", "cpu", "--tp-size", "2")
        assert launcher.launched == [(argv, {}, False)]


async def test_what_the_target_finds_is_shown_before_the_start() -> None:
    home = Home()
    finding = {"id": "shm", "severity": "warning", "what": "/dev/shm is small", "why": "ranks die", "try": "--shm-size"}
    home.launcher.findings = [finding]
    async with form(home) as (rig, launcher):
        await rig.press("down")
        await filled(rig, "org/model")
        shown = rig.text("launch-result")
        assert "! /dev/shm is small" in shown and "ranks die" in shown and "try: --shm-size" in shown
        await rig.press("s")
        assert len(launcher.launched) == 1  # a warning keeps nobody


@pytest.mark.parametrize("by", ["finding", "refusal"])
async def test_what_is_hopeless_starts_only_when_it_is_insisted_on(by: str) -> None:
    home = Home()
    if by == "finding":
        home.launcher.findings = [{"id": "gpus", "severity": "error", "what": "2 GPUs, 8 needed", "why": "", "try": ""}]
    else:
        home.launcher.refused = Refused("Port 30000 is in use", "process 7 listens there", "--port 30001")
    async with form(home) as (rig, launcher):
        await rig.press("down")
        await filled(rig, "org/model")
        await rig.press("s")
        assert launcher.launched == []
        assert isinstance(rig.app.screen, LaunchScreen)
        await rig.press("exclamation_mark")
        assert [anyway for _, _, anyway in launcher.launched] == [True]


async def test_a_start_that_is_refused_leads_back_to_the_form() -> None:
    home = Home()
    home.launcher.launch_refusal = Refused("Port 30000 is in use", "since just now", "--port 30001")
    async with form(home) as (rig, launcher):
        await rig.press("down")
        await filled(rig, "org/model")
        await rig.press("s")
        assert isinstance(rig.app.screen, ConnectScreen) and "since just now" in rig.text("connect-lines")
        await rig.press("escape")
        launcher.launch_refusal = None
        assert row(rig, "model") == "org/model"
        await rig.press("s")
        assert len(launcher.launched) == 1


async def test_without_a_model_nothing_starts() -> None:
    async with form() as (rig, launcher):
        await rig.press("s", "exclamation_mark")
        assert launcher.launched == [] and isinstance(rig.app.screen, LaunchScreen)


async def test_a_secret_is_hidden_on_the_screen_and_whole_in_what_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    async with form() as (rig, _):
        monkeypatch.setattr(rig.app, "copy_to_clipboard", copied.append)
        await rig.press("down")
        await filled(rig, "org/model")
        await added(rig, "--api-key=geheim")
        assert "geheim" not in rig.screen_text()
        await rig.press("y")
        assert copied == [f"{PYTHON} -m sglang.launch_server --model-path org/model --api-key geheim"]


async def test_leaving_the_form_closes_what_was_opened_for_it() -> None:
    async with form() as (rig, launcher):
        await rig.press("escape")
        assert isinstance(rig.app.screen, HomeScreen) and launcher.closed


async def test_an_answer_without_sense_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home()

    async def nonsense(_: str | None) -> dict[str, Any]:
        return {"python": "p", "pythons": [], "version": None, "flags": [7], "flags_complete": True, "cwd": "/"}

    monkeypatch.setattr(home.launcher, "options", nonsense)
    async with form(home) as (rig, _):
        assert "makes no sense" in rig.text("launch-result")
