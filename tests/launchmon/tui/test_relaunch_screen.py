"""The relaunch dialog: every key, every refusal, and the run that follows."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from textual.widgets import Input

from launchmon.actions import in_scope
from launchmon.tui.relaunch.draft import in_prompt_words
from launchmon.tui.screens.help import HelpScreen
from launchmon.tui.screens.ladder import LadderScreen
from launchmon.tui.screens.relaunch import RelaunchScreen
from launchmon.tui.screens.run import RunScreen
from launchmon.tui.screens.start import StartScreen
from launchmon.tui.widgets.lines import Lines
from launchmon.tui.widgets.pager import Pager
from launchmon_agent import events
from launchmon_agent.errors import Refused
from tests.support import fake_relaunch
from tests.support import fake_session as fake
from tests.support.fake_session import T0
from tests.support.tui_rig import Rig, running


async def opened(rig: Rig, *keys: str) -> RelaunchScreen:
    await rig.press("r", *keys)
    screen = rig.app.screen
    assert isinstance(screen, RelaunchScreen)
    return screen


def listed(screen: RelaunchScreen) -> str:
    """The whole list, also what is out of sight."""
    return "\n".join("".join(text for text, _ in row) for row in screen.query_one("#relaunch-list", Pager).body)


def result(screen: RelaunchScreen) -> str:
    return "\n".join("".join(text for text, _ in row) for row in screen.query_one("#relaunch-plan", Pager).body)


async def select(rig: Rig, screen: RelaunchScreen, text: str) -> None:
    """Go down to the line that has this text."""
    await rig.press("home")
    for _ in range(60):
        line = next(line for line in listed(screen).splitlines() if line.startswith("▶"))
        if text in line:
            return
        await rig.press("down")
    raise AssertionError(f"{text} is not in the list:\n{listed(screen)}")


async def type_in(rig: Rig, text: str) -> None:
    field = rig.app.screen.query_one("#relaunch-prompt Input", Input)
    field.value = text
    await rig.settle()


# -------------------------------------------------------------------------------------------------------- what is shown


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (120, 40), (200, 60)])
async def test_remedies_changes_and_command_are_on_the_screen(size: tuple[int, int]) -> None:
    async with running(fake.seed(), size) as rig:
        await opened(rig)
        text = rig.screen_text()
        for words in ("REMEDIES", "▶ [x] + --disable-cuda-graph", "WHAT CHANGES", "COMMAND LINE", "Enter start", "Esc"):
            assert words in text, words


async def test_the_first_remedy_is_on_with_its_reason_and_source() -> None:
    async with running(fake.seed()) as rig:
        screen = await opened(rig)
        assert screen.draft.words == ("--disable-cuda-graph",)
        text = listed(screen)
        assert "No CUDA graphs at all cures this kind of wait" in text
        assert "source: sglang 1234" in text
        assert "[ ] + --disable-custom-all-reduce + NCCL_P2P_DISABLE=1" in text
        assert "+ --disable-cuda-graph" in result(screen)
        assert "cd /srv && env -u SGLANG_OLD" in result(screen)
        assert rig.session.planned == [
            {"add": ("--disable-cuda-graph",), "drop": (), "set": {}, "unset": (), "back_to": None}
        ]


async def test_without_remedies_nothing_is_changed_at_first() -> None:
    session = fake.ready()
    session.options = fake_relaunch.options(remedies=())
    async with running(session) as rig:
        screen = await opened(rig)
        assert screen.draft.words == ()
        assert "REMEDIES" not in listed(screen)
        assert "nothing changes" in result(screen)


async def test_no_remedy_is_on_while_all_goes_well() -> None:
    async with running(fake.loading()) as rig:
        screen = await opened(rig)
        assert screen.draft.words == ()
        assert "▶ [ ] + --disable-cuda-graph" in listed(screen)


async def test_concerns_are_closed_until_they_are_opened() -> None:
    async with running(fake.seed()) as rig:
        screen = await opened(rig)
        assert "▸ memory" in listed(screen)
        assert "--mem-fraction-static" not in listed(screen)
        await select(rig, screen, "memory")
        await rig.press("space")
        assert "▾ memory" in listed(screen)
        assert "[ ] --mem-fraction-static" in listed(screen)
        await rig.press("space")
        assert "--mem-fraction-static" not in listed(screen)


async def test_why_a_run_cannot_be_relaunched_is_said() -> None:
    session = fake.seed()
    async with running(session) as rig:
        session.refusal = Refused("process 48001 belongs to sglang.service", "systemd owns it", "systemctl restart sg")
        await opened(rig, "enter", "a", "e", "space", "y", "down")
        text = rig.screen_text()
        assert "✗ process 48001 belongs to sglang.service" in text
        assert "try: systemctl restart sg" in text
        assert session.relaunched == []


# --------------------------------------------------------------------------------------------------------- the choices


async def test_space_switches_a_remedy_off_and_on() -> None:
    async with running(fake.seed()) as rig:
        screen = await opened(rig, "space")
        assert screen.draft.words == ()
        assert "[ ] + --disable-cuda-graph" in listed(screen)
        await rig.press("x")
        assert screen.draft.words == ("--disable-cuda-graph",)
        await rig.press("down", "space")
        assert screen.draft.words == (
            "--disable-cuda-graph",
            "--disable-custom-all-reduce",
            "NCCL_P2P_DISABLE=1",
        )
        assert "+ NCCL_P2P_DISABLE=1" in result(screen)


async def test_a_toggle_is_added_and_shown_as_a_change_that_can_be_taken_back() -> None:
    async with running(fake.seed()) as rig:
        screen = await opened(rig)
        await select(rig, screen, "graphs")
        await rig.press("space", "down", "down")
        await select(rig, screen, "--disable-cuda-graph-padding")
        await rig.press("space")
        assert "--disable-cuda-graph-padding" in screen.draft.words
        assert "· 2 changed" in listed(screen), "the remedy is one of them"
        assert "CHANGES" in listed(screen)
        await select(rig, screen, "[x] --disable-cuda-graph-padding")
        await rig.press("space")
        assert "--disable-cuda-graph-padding" not in screen.draft.words


async def test_a_variable_that_is_set_now_is_unset_by_its_toggle() -> None:
    async with running(fake.seed()) as rig:
        screen = await opened(rig)
        await select(rig, screen, "▸ nccl")
        await rig.press("space")
        await select(rig, screen, "NCCL_DEBUG")
        assert "[x] NCCL_DEBUG=INFO" in listed(screen)
        await rig.press("space")
        assert "unset NCCL_DEBUG" in screen.draft.words
        assert "- NCCL_DEBUG" in result(screen)


async def test_a_flag_of_the_command_is_dropped_and_kept_again() -> None:
    async with running(fake.seed()) as rig:
        screen = await opened(rig)
        await select(rig, screen, "    --enable-symm-mem-x")
        await rig.press("space")
        assert "drop --enable-symm-mem-x" in screen.draft.words
        assert " - --enable-symm-mem-x  dropped" in listed(screen)
        assert "- --enable-symm-mem-x" in result(screen)
        await select(rig, screen, " - --enable-symm-mem-x")
        await rig.press("space")
        assert screen.draft.words == ("--disable-cuda-graph",)


async def test_a_flag_of_the_command_is_edited() -> None:
    async with running(fake.seed()) as rig:
        screen = await opened(rig)
        await select(rig, screen, "--port 30000")
        await rig.press("e")
        field = screen.query_one("#relaunch-prompt Input", Input)
        assert field.value == "--port=30000"
        await type_in(rig, "--port=31000")
        await rig.press("enter")
        assert "~ --port 30000 → 31000" in result(screen)
        assert "~ --port 30000  → --port=31000" in listed(screen)


async def test_a_variable_of_the_run_is_removed_edited_or_given_back() -> None:
    async with running(fake.seed()) as rig:
        screen = await opened(rig)
        await rig.press("end")
        assert "▶     SGLANG_OLD  removed" in listed(screen)
        await rig.press("space")
        assert screen.draft.words == ("--disable-cuda-graph",)
        await rig.press("e")
        assert screen.query_one("#relaunch-prompt Input", Input).value == "SGLANG_OLD="
        await type_in(rig, "SGLANG_OLD=1")
        await rig.press("enter")
        assert "+ SGLANG_OLD=1" in result(screen)
        await rig.press("up", "end", "up", "space")
        assert "unset NCCL_DEBUG" in screen.draft.words


@pytest.mark.parametrize(
    ("typed", "word", "shown"),
    [
        ("--tp=4", "--tp=4", "~ --tp-size 8 → 4"),
        ("--tp 4", "--tp=4", "~ --tp-size 8 → 4"),
        ("drop --enable-symm-mem-x", "drop --enable-symm-mem-x", "- --enable-symm-mem-x"),
        ("FOO=bar", "FOO=bar", "+ FOO=bar"),
        ("unset NCCL_DEBUG", "unset NCCL_DEBUG", "- NCCL_DEBUG"),
    ],
)
async def test_any_change_can_be_typed(typed: str, word: str, shown: str) -> None:
    async with running(fake.seed()) as rig:
        screen = await opened(rig, "a")
        await type_in(rig, typed)
        await rig.press("enter")
        assert word in screen.draft.words
        assert shown in result(screen)
        assert f"[x] {word}" in listed(screen)
        assert not screen.query_one("#relaunch-prompt").display
        await rig.press("u")
        assert screen.draft.words == ()
        assert "nothing changes" in result(screen)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--mem-fraction-statik=0.8", ("has no flag --mem-fraction-statik", "--mem-fraction-static")),
        ("drop --attention-backend", ("--attention-backend is not in the command",)),
        ("--port=many", ("--port",)),
        ("hello", ("'hello' is no change", "--flag=VALUE")),
    ],
)
async def test_what_sglang_would_not_take_is_refused_in_place(typed: str, said: tuple[str, ...]) -> None:
    async with running(fake.seed(), (80, 24)) as rig:
        screen = await opened(rig, "plus")
        await type_in(rig, typed)
        await rig.press("enter")
        hints = screen.query_one("#relaunch-hints", Lines)
        assert hints.display
        for words in said:
            assert words in hints.text
        assert "--add" not in hints.text, "advice is in the words of the prompt"
        assert screen.draft.words == ("--disable-cuda-graph",)
        assert screen.query_one("#relaunch-prompt Input", Input).value == typed, "to be corrected"
        await type_in(rig, typed + "x")
        assert "✗" not in hints.text
        await rig.press("escape")
        assert not hints.display
        assert isinstance(rig.app.screen, RelaunchScreen)


async def test_flags_are_offered_while_one_is_typed() -> None:
    async with running(fake.seed(), (80, 24)) as rig:
        screen = await opened(rig, "a")
        hints = screen.query_one("#relaunch-hints", Lines)
        await type_in(rig, "--model-p")
        assert "--model-path  Where the weights are." in hints.text
        await type_in(rig, "--tp-size=4")
        assert "int · default 1" in hints.text
        await type_in(rig, "--disable")
        assert "more" in hints.text
        await type_in(rig, "FOO=1")
        assert not hints.display


async def test_questions_are_asked_one_at_a_time_until_the_answer_is_about_the_newest_choices() -> None:
    async with running(fake.seed()) as rig:
        screen = await opened(rig)
        gate = rig.session.plan_gate = asyncio.Event()
        before = len(rig.session.planned)
        await rig.pilot.press("space")
        assert screen.query_one("#relaunch-plan", Lines).text.splitlines()[0].endswith("…")
        for key in ("space", "space", "space"):
            await rig.pilot.press(key)
        assert len(rig.session.planned) == before + 1
        gate.set()
        await rig.settle()
        assert len(rig.session.planned) == before + 2
        assert "+ --disable-cuda-graph" in result(screen)


async def test_the_command_line_is_copied() -> None:
    async with running(fake.seed()) as rig:
        await opened(rig, "y")
        assert rig.app.clipboard.startswith("cd /srv && env -u SGLANG_OLD NCCL_DEBUG=INFO python3 -m sglang")
        assert rig.app.clipboard.endswith("--disable-cuda-graph")


async def test_a_line_can_be_clicked() -> None:
    async with running(fake.seed()) as rig:
        screen = await opened(rig)
        lines = rig.text("relaunch-list").splitlines()
        place = next(at for at, line in enumerate(lines) if "--disable-custom-all" in line)
        await rig.pilot.click("#relaunch-list", offset=(8, place))
        await rig.settle()
        assert "--disable-custom-all-reduce" in screen.draft.words


# ----------------------------------------------------------------------------------------------------------- the start


@pytest.mark.parametrize("key", ["enter", "ctrl+r"])
async def test_three_keys_start_the_first_remedy_and_the_screen_follows(key: str) -> None:
    session = fake.seed()
    async with running(session) as rig:
        assert "attempt 3" in rig.text("header")
        assert "Load weight end" in rig.log_text()
        await rig.press("r", key)
        assert isinstance(rig.app.screen, StartScreen)
        text = rig.text("start-lines")
        assert "+ --disable-cuda-graph" in text
        assert "10 processes of the old run end first." in text
        assert session.relaunched == []
        await rig.press("y")
        assert session.relaunched == [
            {
                "add": ("--disable-cuda-graph",),
                "drop": (),
                "set": {},
                "unset": (),
                "back_to": None,
                "force": False,
                "anyway": False,
            }
        ]
        assert isinstance(rig.app.screen, RunScreen)
        await rig.tell()
        assert "attempt 4" in rig.text("header")
        assert "Load weight end" not in rig.log_text(), "the log of the old run is gone"
        session.write("[2025-11-29 18:10:00] the new one")
        await rig.tell()
        assert "the new one" in rig.log_text()


async def test_keys_may_come_before_the_answers() -> None:
    session = fake.seed()
    gate = session.plan_gate = asyncio.Event()
    async with running(session) as rig:
        await rig.pilot.press("r", "enter")
        assert isinstance(rig.app.screen, RelaunchScreen)
        gate.set()
        await rig.settle()
        assert isinstance(rig.app.screen, StartScreen)


async def test_where_nothing_is_alive_nothing_ends() -> None:
    session = fake.seed()
    session.plan = []
    async with running(session) as rig:
        await rig.press("r", "enter")
        assert "nothing has to end first" in rig.text("start-lines")
        await rig.press("escape")
        assert isinstance(rig.app.screen, RelaunchScreen)
        await rig.press("escape")
        assert isinstance(rig.app.screen, RunScreen)
        assert session.relaunched == []


async def test_without_grace() -> None:
    async with running(fake.seed()) as rig:
        await rig.press("r", "enter", "exclamation_mark")
        assert [one["force"] for one in rig.session.relaunched] == [True]


async def test_steps_are_shown_and_a_refusal_leaves_the_choice() -> None:
    session = fake.seed()
    session.model.actions["k0"] = [events.Action(at=T0, action="kill", id="k0", step="older", state="done")]
    gate = session.relaunch_gate = asyncio.Event()
    session.relaunch_refusal = Refused("GPU 3 has 40 GiB in use", "process 7 holds it", "kill 7")
    async with running(session) as rig:
        await rig.press("r", "enter")
        await rig.pilot.press("a")
        assert session.relaunched == [], "the preflight is not skipped before it has refused"
        await rig.pilot.press("y")
        step = events.Action(at=T0, action="kill", id="k1", step="TERM launcher", state="doing", text="48001")
        session.model.actions["k1"] = [step, replace(step, state="done")]
        session.changed()
        assert isinstance(rig.app.screen, StartScreen)
        rig.app.screen.draw()
        text = rig.text("start-lines")
        assert "✓ TERM launcher 48001" in text
        assert "older" not in text
        assert "the relaunch goes on" in text
        gate.set()
        await rig.settle()
        text = rig.text("start-lines")
        assert "✗ GPU 3 has 40 GiB in use" in text
        assert "try: kill 7" in text
        session.relaunch_refusal = None
        await rig.press("a")
        assert [one["anyway"] for one in session.relaunched] == [False, True]
        assert isinstance(rig.app.screen, RunScreen)


async def test_a_second_yes_starts_nothing_once_the_attempt_has_started() -> None:
    session = fake.seed()
    gate = session.relaunch_gate = asyncio.Event()
    async with running(session) as rig:
        await rig.press("r", "enter")
        await rig.pilot.press("y")
        dialog = rig.app.screen
        assert isinstance(dialog, StartScreen)
        gate.set()
        await rig.settle()
        dialog.action_go()
        await rig.settle()
        assert len(session.relaunched) == 1


async def test_an_answer_about_a_change_that_was_given_up_closes_no_other_prompt() -> None:
    async with running(fake.seed()) as rig:
        screen = await opened(rig, "a")
        await type_in(rig, "--tp 4")
        gate = rig.session.plan_gate = asyncio.Event()
        await rig.pilot.press("enter", "escape", "a")
        gate.set()
        await rig.settle()
        assert screen.query_one("#relaunch-prompt").display
        assert "--tp=4" not in screen.draft.words


async def test_closing_does_not_stop_what_has_begun() -> None:
    session = fake.seed()
    gate = session.relaunch_gate = asyncio.Event()
    async with running(session) as rig:
        await rig.press("r", "enter")
        await rig.pilot.press("y", "escape")
        assert isinstance(rig.app.screen, RelaunchScreen)
        gate.set()
        await rig.settle()
        assert isinstance(rig.app.screen, RunScreen)
        await rig.tell()
        assert "attempt 4" in rig.text("header")


async def test_a_refusal_is_told_where_the_dialog_is_closed_meanwhile() -> None:
    session = fake.seed()
    gate = session.relaunch_gate = asyncio.Event()
    async with running(session) as rig:
        await rig.press("r", "enter")
        await rig.pilot.press("y", "escape")
        assert isinstance(rig.app.screen, RelaunchScreen)
        session.relaunch_refusal = Refused("the old run does not end")
        gate.set()
        await rig.settle()
        said = [notice.message for notice in rig.app._notifications]
        assert said == ["✗ No attempt was started: the old run does not end"]


async def test_what_cannot_start_is_not_asked_for() -> None:
    session = fake.seed()
    session.options = fake_relaunch.options(remedies=((("--no-such-flag",), "It is gone.", "nowhere"),))
    async with running(session) as rig:
        screen = await opened(rig, "enter")
        assert "has no flag --no-such-flag" in result(screen)
        assert isinstance(rig.app.screen, RelaunchScreen)


# ------------------------------------------------------------------------------------------------------------- the rest


async def test_read_only_refuses() -> None:
    session = fake.seed()
    session.read_only = True
    async with running(session) as rig:
        assert "next       relaunch + --disable-cuda-graph" in rig.text("verdict")
        await rig.press("r")
        assert isinstance(rig.app.screen, RunScreen)
        await rig.press("v", "r")
        assert not isinstance(rig.app.screen, RelaunchScreen)


async def test_it_is_offered_in_the_verdict_and_opens_from_there() -> None:
    async with running(fake.seed(), (80, 24)) as rig:
        assert "next       r relaunch + --disable-cuda-graph" in rig.text("verdict")
        assert "r relaunch" in rig.text("footer")
        await rig.press("v", "r")
        assert isinstance(rig.app.screen, RelaunchScreen)
        await rig.press("enter", "y")
        assert isinstance(rig.app.screen, RunScreen)


@pytest.mark.parametrize("scenario", sorted(fake.SCENARIOS))
async def test_every_key_works_in_every_state(scenario: str) -> None:
    async with running(fake.SCENARIOS[scenario](), (80, 24)) as rig:
        for action in in_scope("relaunch"):
            for key in action.keys:
                if not isinstance(rig.app.screen, RelaunchScreen):
                    await rig.press("r")
                assert isinstance(rig.app.screen, RelaunchScreen)
                await rig.press(key)
                if isinstance(rig.app.screen, (StartScreen, LadderScreen)) or isinstance(rig.app.focused, Input):
                    await rig.press("escape")


async def test_help_lists_its_keys() -> None:
    async with running(fake.seed(), (120, 60)) as rig:
        await rig.press("r", "question_mark")
        assert isinstance(rig.app.screen, HelpScreen)
        text = rig.text("help-text")
        for action in in_scope("relaunch"):
            assert action.help.split()[0] in text


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("--add --port=1", "--port=1"),
        ("launchmon relaunch --add --port=1", "--port=1"),
        ("launchmon relaunch --drop --port", "drop --port"),
        ("launchmon relaunch --set A=1", "A=1"),
        ("kill 7", "kill 7"),
    ],
)
def test_advice_is_put_into_the_words_of_the_prompt(said: str, typed: str) -> None:
    assert in_prompt_words(Refused("x", "", said)).try_ == typed
