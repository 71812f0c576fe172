"""The stacks screen: every key, every state, every size."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Input

from launchmon.actions import in_scope
from launchmon.tui.screens.help import HelpScreen
from launchmon.tui.screens.run import RunScreen
from launchmon.tui.screens.stacks import StacksScreen
from launchmon.tui.widgets.lines import Lines
from launchmon.tui.widgets.prompt import Prompt
from launchmon_agent import events
from launchmon_agent.errors import Refused
from tests.support import fake_dumps
from tests.support import fake_session as fake
from tests.support.fake_session import FakeLink, FakeSession
from tests.support.tui_rig import Rig, running

SIZES = ((60, 18), (80, 24), (100, 50), (120, 40), (200, 60))


def with_dumps(*dumps: events.Stacks, kept: int = 0) -> FakeSession:
    """The dead-lock; of these dumps the first ``kept`` are there already, the others come when they are asked for."""
    session = fake.seed()
    session.model.stacks.extend(dumps[:kept])
    session.dumps.extend(dumps[kept:])
    return session


async def opened(rig: Rig, *keys: str) -> StacksScreen:
    await rig.press("d", *keys)
    await rig.settle()
    screen = rig.app.screen
    assert isinstance(screen, StacksScreen)
    return screen


def box(screen: StacksScreen) -> str:
    return f"{screen.query_one('#stacks-box').border_title}\n{screen.query_one('#stacks-box', Lines).text}"


def at(rig: Rig, before_s: float) -> float:
    return rig.session.model.now - before_s


# ----------------------------------------------------------------------------------------------------- sizes and states


@pytest.mark.parametrize("size", SIZES)
async def test_what_matters_is_on_the_screen(size: tuple[int, int]) -> None:
    async with running(fake.kept(), size) as rig:
        screen = await opened(rig)
        text = rig.screen_text()
        assert "dump 4 of 4 ◇◇◇●" in text
        assert "by py-spy" in text
        assert "[TP3]" in text
        assert "▶ ├ TP3" in text
        assert "└ TP0-2,4-7" in text
        assert "unchanged ×3 since" in box(screen)
        assert "FRAMES" in text
        assert "FileLock.acquire" in rig.text("stacks-frames")
        assert "Esc back" in text
        assert "? help" in text


async def test_at_80x24_the_explanation_the_tree_and_the_frames_fit() -> None:
    async with running(fake.kept(), (80, 24)) as rig:
        await opened(rig)
        text = rig.screen_text()
        for words in (
            "ends with  the builder",
            "if not     if no compiler runs",
            "7 of 8  compares",
            "launcher             waits",
        ):
            assert words in text
        assert "Scheduler.init_tp_model_worker" in text


async def test_wide_screens_put_the_frames_beside_the_tree() -> None:
    async with running(fake.kept(), (120, 40)) as rig:
        screen = await opened(rig)
        tree, frames = screen.query_one("#stacks-list"), screen.query_one("#stacks-frames")
        assert tree.region.y == frames.region.y
        assert tree.region.right <= frames.region.x
        await rig.pilot.resize_terminal(80, 24)
        await rig.settle()
        assert tree.region.bottom <= frames.region.y


async def test_a_real_dump_is_explained() -> None:
    async with running(with_dumps(fake_dumps.recorded()), (200, 60)) as rig:
        screen = await opened(rig)
        assert box(screen).startswith("TP1 · 1 of 2")
        assert "Is loading its weights." in box(screen)
        assert "monitored_barrier ‹ dist_barrier_after_load" in rig.text("stacks-list")
        await rig.press("down")
        assert "waits for the ranks that still load theirs" in box(screen)
        await rig.press("down")
        assert "Waits for its ranks to get ready" in box(screen)


async def test_while_it_reads_it_says_so_and_then_shows_the_result() -> None:
    session = fake.seed()
    session.dump_gate = asyncio.Event()
    async with running(session) as rig:
        await rig.pilot.press("d")
        await rig.pilot.pause()
        assert "◉ reading 8 ranks…" in rig.text("stacks-head")
        screen = rig.app.screen
        assert isinstance(screen, StacksScreen)
        assert "Each process has five seconds" in box(screen)
        await rig.pilot.press("D")
        assert session.dumped == [(False, None)], "one at a time"
        session.dump_gate.set()
        await rig.settle()
        assert "dump 1 of 1" in rig.text("stacks-head")
        assert "TP3 · 1 of 8" in box(screen)


async def test_earlier_dumps_stay_on_the_screen_while_another_is_read() -> None:
    session = fake.kept()
    session.dump_gate = asyncio.Event()
    async with running(session) as rig:
        await rig.pilot.press("d")
        await rig.pilot.pause()
        screen = rig.app.screen
        assert isinstance(screen, StacksScreen)
        screen.look()
        assert "◉ reading 8 ranks…" in rig.text("stacks-head")
        assert "= unchanged ×2 since" in box(screen)
        session.dump_gate.set()
        await rig.settle()
        assert "= unchanged ×3 since" in box(screen)


async def test_leaving_before_the_dump_has_come_does_no_harm() -> None:
    session = fake.seed()
    session.dump_gate = asyncio.Event()
    async with running(session) as rig:
        await rig.pilot.press("d")
        await rig.pilot.press("escape")
        await rig.pilot.pause()
        assert isinstance(rig.app.screen, RunScreen)
        session.dump_gate.set()
        await rig.settle()
        assert "DEAD-LOCK" in rig.screen_text()


async def test_without_ptrace_it_gives_one_cause_and_one_command() -> None:
    session = fake.seed()
    session.dumps = [fake_dumps.kernel_view(fake_dumps.odd_one(session.model.now))]
    async with running(session, (80, 24)) as rig:
        screen = await opened(rig)
        text = rig.text("stacks-problems").replace("\n", " ")
        assert "! TP0-7 + launcher: the stacks cannot be read" in text
        assert rig.text("stacks-problems").count("try: sudo sysctl kernel.yama.ptrace_scope=0") == 1
        assert "by /proc" in rig.text("stacks-head")
        assert "this is the kernel's view" in box(screen)


async def test_a_rank_that_vanished_is_named_and_can_be_selected() -> None:
    session = fake.seed()
    whole = fake_dumps.odd_one(session.model.now)
    session.dumps = [fake_dumps.without(whole, "TP5", fake_dumps.VANISHED, "look at the log of TP5")]
    async with running(session) as rig:
        screen = await opened(rig)
        assert "✗ TP5: the process ended before it could be read" in rig.text("stacks-problems")
        assert "by py-spy (8 of 9)" in rig.text("stacks-head")
        assert "✗TP5" in rig.text("stacks-chips")
        await rig.press("5")
        assert "✗ the process ended before it could be read" in box(screen)
        assert "try        look at the log of TP5" in box(screen)
        assert "no frames" in rig.text("stacks-frames")


async def test_a_stopped_rank_is_marked() -> None:
    session = fake.seed()
    whole = fake_dumps.odd_one(session.model.now)
    stopped = tuple(replace(each, state_before="T") if each.rank == "TP3" else each for each in whole.stacks)
    session.dumps = [replace(whole, stacks=stopped)]
    async with running(session) as rig:
        screen = await opened(rig)
        assert "[!TP3]" in rig.text("stacks-chips")
        assert "TP3 stopped by a signal" in box(screen)


async def test_nothing_alive_is_said() -> None:
    async with running(with_dumps(events.Stacks(fake.T0, id="none", seconds=0.0))) as rig:
        screen = await opened(rig)
        assert "No process of this run was alive" in box(screen)
        await rig.press(*(key for action in in_scope("panel") for key in action.keys), "t", "c", "y", "f", "0")
        assert isinstance(rig.app.screen, StacksScreen)


async def test_a_refusal_without_any_dump_says_why_and_what_helps() -> None:
    session = fake.seed()
    session.refusal = Refused("there is nothing to read", "the run has ended", "launchmon runs")
    async with running(session) as rig:
        screen = await opened(rig)
        for words in ("✗ there is nothing to read", "cause: the run has ended", "try: launchmon runs", "d try again"):
            assert words in box(screen)
        session.refusal = None
        await rig.press("d")
        assert "TP3 · 1 of 8" in box(screen)


async def test_a_refusal_leaves_earlier_dumps_to_look_at() -> None:
    session = fake.kept()
    session.refusal = Refused("there is nothing to read", "the run has ended", "launchmon runs")
    async with running(session) as rig:
        screen = await opened(rig)
        assert "✗ there is nothing to read" in rig.text("stacks-problems")
        assert "dump 3 of 3 ◇◇◆" in rig.text("stacks-head")
        assert "TP3 · 1 of 8" in box(screen)
        await rig.press("left_square_bracket")
        assert not rig.text("stacks-problems").strip()


async def test_a_lost_link_is_said() -> None:
    async with running(fake.kept()) as rig:
        screen = await opened(rig)
        rig.session.link, rig.session.since_event = FakeLink("lost", "Connection reset"), 12.0
        screen.look()
        assert "lost 12 s ago" in rig.text("stacks-header")
        assert screen.has_class("-stale")


async def test_512_ranks_have_no_chips_but_a_tree() -> None:
    session = fake.seed()
    session.dumps = [fake_dumps.odd_one(session.model.now, 512, 77)]
    async with running(session, (80, 24)) as rig:
        await opened(rig)
        assert "TP0-76,78-511" in rig.screen_text()
        assert not rig.app.screen.query_one("#stacks-chips").display


async def test_text_from_the_target_is_never_obeyed() -> None:
    session = fake.seed()
    nasty = events.Frame("\x1b[2Jevil[bold]", "/env/a\nb.py", 3)
    whole = fake_dumps.odd_one(session.model.now)
    session.dumps = [replace(whole, frames=(nasty, *whole.frames[1:]))]
    async with running(session) as rig:
        await opened(rig, "end")
        assert "\x1b" not in rig.screen_text()
        assert "evil[bold]" in rig.screen_text()


# ----------------------------------------------------------------------------------------------------------------- keys


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_every_key_works_with_and_without_a_dump(size: tuple[int, int]) -> None:
    keys = [key for action in in_scope("stacks", "panel") for key in action.keys if key != "escape"]
    for session in (fake.kept(), fake.empty()):
        async with running(session, size) as rig:
            screen = await opened(rig)
            for key in keys:
                await rig.press(key)
                if screen.query_one(Prompt).open:
                    await rig.press("escape")
            assert rig.app.screen is screen


async def test_native_frames_on_request() -> None:
    async with running(fake.seed()) as rig:
        await rig.press("D")
        await rig.settle()
        assert rig.session.dumped == [(True, None)]
        assert "with native frames" in rig.text("stacks-head")
        await rig.press("D", "d")
        assert rig.session.dumped == [(True, None), (True, None), (False, None)]


async def test_locals_of_the_selected_rank() -> None:
    session = fake.seed()
    plain = fake_dumps.odd_one(session.model.now - 1)
    frames = tuple(
        replace(each, locals={"lock_path": "'/home/me/lock'"}) if each.function == "FileBaton.wait" else each
        for each in plain.frames
    )
    session.dumps = [plain, replace(plain, at=session.model.now, id="later", frames=frames)]
    async with running(session) as rig:
        await opened(rig)
        assert "lock_path" not in rig.text("stacks-frames")
        await rig.press("l")
        assert session.dumped[-1] == (False, "TP3")
        assert "variables of TP3" in rig.text("stacks-frames")
        assert "lock_path = '/home/me/lock'" in rig.text("stacks-frames")
        await rig.press("down")
        assert "variables" not in rig.text("stacks-frames"), "they are not those of another rank"


async def test_the_selection_moves_and_survives_another_dump() -> None:
    async with running(fake.kept()) as rig:
        screen = await opened(rig)
        await rig.press("down")
        assert box(screen).startswith("TP0-2,4-7 · 7 of 8")
        assert "[TP0][TP1][TP2] TP3" in rig.text("stacks-chips")
        await rig.press("d")
        assert box(screen).startswith("TP0-2,4-7 · 7 of 8")
        await rig.press("end")
        assert box(screen).startswith("launcher")
        await rig.press("home", "up")
        assert box(screen).startswith("TP3")
        await rig.press("4")
        assert box(screen).startswith("TP0-2,4-7")
        await rig.press("9")
        assert "There is no rank 9" in {note.message for note in rig.app._notifications}.pop()


async def test_chips_and_entries_can_be_clicked() -> None:
    async with running(fake.kept()) as rig:
        screen = await opened(rig)
        await rig.pilot.click("#stacks-chips", offset=(rig.text("stacks-chips").index("TP6"), 0))
        await rig.settle()
        assert box(screen).startswith("TP0-2,4-7")
        rows = rig.text("stacks-list").splitlines()
        place = next(at for at, row in enumerate(rows) if "launcher" in row)
        await rig.pilot.click("#stacks-list", offset=(6, place))
        await rig.settle()
        assert box(screen).startswith("launcher")


async def test_runtime_frames_are_folded_until_asked_for() -> None:
    async with running(fake.kept()) as rig:
        await opened(rig)
        assert "… 5 frames of Python" in rig.text("stacks-frames")
        await rig.press("f")
        assert "… 5 frames" not in rig.text("stacks-frames")
        assert "spawn_main" in rig.text("stacks-frames")
        await rig.press("f", "down")
        assert "… 2 frames of torch" in rig.text("stacks-frames")


async def test_other_threads_are_reachable() -> None:
    async with running(fake.kept()) as rig:
        screen = await opened(rig, "down", "t")
        assert "OTHER THREADS  of TP0-2,4-7" in rig.text("stacks-list")
        assert "thread-0" in rig.text("stacks-list")
        assert "7 threads" in box(screen)
        assert "_pin_memory_loop" in rig.text("stacks-frames")
        await rig.press("escape")
        assert box(screen).startswith("TP0-2,4-7 · 7 of 8")
        await rig.press("end", "t")
        assert "no threads beside their main ones" in box(screen)
        await rig.press("t")
        assert "WHO IS WHERE" in rig.text("stacks-list")


async def test_the_filter_narrows_while_it_is_typed() -> None:
    async with running(fake.kept()) as rig:
        screen = await opened(rig, "slash", *"baton")
        assert "only “baton”" in rig.text("stacks-list")
        assert "TP3" in rig.text("stacks-list")
        assert "TP0-2" not in rig.text("stacks-list")
        await rig.press("x")
        assert "Nothing here holds “batonx”" in box(screen)
        assert " filter batonx" in rig.screen_text()
        await rig.press("backspace", "enter")
        assert "only “baton”" in rig.text("stacks-list")
        await rig.press("escape")
        assert "TP0-2,4-7" in rig.text("stacks-list")
        assert rig.app.screen is screen
        await rig.press("slash", *"tp5", "escape")
        assert "only “" not in rig.text("stacks-list"), "Esc in the prompt forgets it"


async def test_the_history_goes_back_and_forth() -> None:
    async with running(fake.kept()) as rig:
        screen = await opened(rig)
        assert "automatic" not in rig.text("stacks-head")
        await rig.press("left_square_bracket")
        assert "dump 3 of 4 ◇◇◆○" in rig.text("stacks-head")
        assert "◆ automatic" in rig.text("stacks-head")
        assert "= unchanged ×2 since" in box(screen)
        await rig.press("left_square_bracket", "left_square_bracket")
        assert "unchanged" not in box(screen)
        await rig.press("left_square_bracket")
        assert "This is the first dump." in {note.message for note in rig.app._notifications}
        await rig.press(*["right_square_bracket"] * 4)
        assert "dump 4 of 4" in rig.text("stacks-head")
        assert any("d takes another" in note.message for note in rig.app._notifications)


async def test_a_dump_that_comes_by_itself_is_shown_unless_an_older_one_is_held() -> None:
    async with running(fake.kept()) as rig:
        await opened(rig)
        rig.session.model.stacks.append(fake_dumps.odd_one(at(rig, 0.1), automatic=True, number=8))
        rig.session.changed()
        assert "dump 5 of 5 ◇◇◇○◆" in rig.text("stacks-head")
        await rig.press("left_square_bracket")
        rig.session.model.stacks.append(fake_dumps.odd_one(at(rig, 0.0), automatic=True, number=9))
        rig.session.changed()
        assert "dump 4 of 6" in rig.text("stacks-head")


async def test_two_dumps_stand_side_by_side() -> None:
    now = fake.seed().model.now
    session = with_dumps(fake_dumps.odd_one(now - 9), fake_dumps.odd_one(now - 1, odd=5, number=2), kept=1)
    async with running(session) as rig:
        screen = await opened(rig, "c")
        assert "SINCE THE DUMP BEFORE" in rig.text("stacks-list")
        assert "moved from FileLock.acquire to all_reduce" in box(screen)
        frames = rig.text("stacks-frames")
        assert "− FileLock.acquire" in frames
        assert "+ all_reduce" in frames
        assert "… 10 frames in common" in frames
        await rig.press("f")
        assert "run_scheduler_process" in rig.text("stacks-frames")
        await rig.press("0")
        assert box(screen).startswith("TP0-2,4,6-7")
        assert "= the same, line for line" in rig.text("stacks-frames")
        await rig.press("left_square_bracket")
        assert "WHO IS WHERE" in rig.text("stacks-list"), "the first dump has none before it"
        await rig.press("c")
        assert any("no dump before this one" in note.message for note in rig.app._notifications)


async def test_a_rank_that_is_new_or_gone_is_told_in_the_comparison() -> None:
    now = fake.seed().model.now
    before = fake_dumps.odd_one(now - 9)
    after = fake_dumps.odd_one(now - 1, ranks=7, number=2)
    fresh = tuple(replace(each, pid=9000) if each.rank == "TP2" else each for each in after.stacks)
    async with running(with_dumps(before, replace(after, stacks=fresh), kept=1)) as rig:
        await opened(rig, "c")
        rows = rig.text("stacks-list")
        assert "is new: the dump before" in rows
        assert "TP7" in rows
        assert "is gone since" in rows


async def test_copying() -> None:
    async with running(fake.kept()) as rig:
        await opened(rig, "y")
        assert rig.app.clipboard.startswith("TP3 (1 of 8)\n  waits for whoever builds")
        assert "FileBaton.wait (torch/utils/file_baton.py:49)" in rig.app.clipboard
        assert "monitored" not in rig.app.clipboard
        await rig.press("Y")
        assert rig.app.clipboard.startswith("stacks of 8 ranks and launcher at ")
        assert "TP0-2,4-7  7 of 8" in rig.app.clipboard


@pytest.mark.parametrize(
    ("ending", "begins"),
    [(".txt", "stacks of 8 ranks"), (".json", '{"kind":"stacks"'), (".speedscope.json", '{"$schema"')],
)
async def test_saving(ending: str, begins: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with running(fake.kept(), (80, 24)) as rig:
        screen = await opened(rig, "s")
        field = screen.query_one(Input)
        assert field.value == "stacks-kimi-k2.5-20251129-180504-4.txt"
        assert f"save as {field.value}" in rig.screen_text()
        field.value = f"dump{ending}"
        await rig.press("enter")
        text = (tmp_path / f"dump{ending}").read_text()
        assert text.startswith(begins)
        if ending != ".txt":
            json.loads(text)
        assert any(str(tmp_path / f"dump{ending}") in note.message for note in rig.app._notifications)
        assert not screen.query_one(Prompt).open


async def test_a_name_that_cannot_be_written_can_be_corrected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.txt").write_text("mine")
    async with running(fake.kept()) as rig:
        screen = await opened(rig, "s")
        for name, words in (
            ("there.txt", "exists already"),
            ("nowhere/x.txt", "No such file or directory"),
            ("x.doc", "says no format"),
            ("", "says no format"),
        ):
            screen.query_one(Input).value = name
            await rig.press("enter")
            assert any(words in note.message for note in rig.app._notifications), words
            assert screen.query_one(Prompt).open
        await rig.press("escape")
        assert not screen.query_one(Prompt).open
        assert (tmp_path / "there.txt").read_text() == "mine"
        assert list(tmp_path.iterdir()) == [tmp_path / "there.txt"]


async def test_tab_goes_to_the_frames_and_back() -> None:
    async with running(fake.kept(), (80, 24)) as rig:
        screen = await opened(rig)
        assert rig.text("stacks-list").startswith("▸")
        await rig.press("f", "tab")
        assert rig.text("stacks-frames").startswith("▸FRAMES")
        await rig.press("end")
        assert "<module>" in rig.text("stacks-frames")
        assert "FileLock" not in rig.text("stacks-frames")
        await rig.press("up", "home")
        assert "FileLock" in rig.text("stacks-frames")
        assert box(screen).startswith("TP3"), "the selection stays"
        await rig.press("tab", "pagedown")
        assert rig.text("stacks-list").startswith("▸")
        assert "FileLock" not in rig.text("stacks-frames")


async def test_escape_closes_one_thing_after_the_other() -> None:
    async with running(fake.kept()) as rig:
        screen = await opened(rig, "t", "slash", *"wait", "enter", "escape")
        assert "OTHER THREADS" in rig.text("stacks-list")
        await rig.press("escape")
        assert rig.app.screen is screen
        await rig.press("escape")
        assert isinstance(rig.app.screen, RunScreen)


async def test_help_explains_the_screen_and_lists_its_keys() -> None:
    async with running(fake.kept(), (120, 70)) as rig:
        await opened(rig)
        await rig.press("question_mark")
        assert isinstance(rig.app.screen, HelpScreen)
        text = rig.text("help-text")
        for action in in_scope("stacks", "panel", "app"):
            assert action.shown_keys in text
        titles = {command.title for command in rig.app.get_system_commands(rig.app.screen_stack[-2])}
        assert {"compare", "save", "threads", "theme"} <= titles
        assert "kill" not in titles


# ------------------------------------------------------------------------------------------------------ the main screen


async def test_kept_dumps_are_told_on_the_main_screen() -> None:
    async with running(fake.kept(), (80, 24)) as rig:
        assert "d stacks (kept 3)" in rig.text("footer")
        assert "3 dumps kept" in str(rig.run.query_one("#verdict").border_subtitle)
    async with running(fake.seed(), (80, 24)) as rig:
        assert "kept" not in rig.screen_text()
        rig.session.model.stacks.append(fake_dumps.odd_one(at(rig, 1), automatic=True))
        await rig.tell()
        assert "d stacks (kept 1)" in rig.text("footer")
        assert "1 dump kept" in str(rig.run.query_one("#verdict").border_subtitle)
