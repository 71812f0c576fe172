"""The app on a fake session: every key, every state, every size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from textual.filter import NoColor
from textual.widgets import Input

from launchmon.actions import in_scope
from launchmon.connect import Asker
from launchmon.listed import Found
from launchmon.tui.app import LaunchmonApp, Outcome
from launchmon.tui.screens.connect import ConnectScreen
from launchmon.tui.screens.help import HelpScreen
from launchmon.tui.screens.home import HomeScreen
from launchmon.tui.screens.kill import KillScreen
from launchmon.tui.screens.run import RunScreen
from launchmon.tui.view import View
from launchmon.tui.widgets.lines import Lines
from launchmon.tui.widgets.panel import Content, Panel, Space
from launchmon_agent import events
from launchmon_agent.errors import Refused
from tests.support import fake_session as fake
from tests.support.fake_session import T0, FakeLink, FakeSession
from tests.support.tui_rig import Rig, running

SIZES = ((80, 24), (100, 30), (120, 40), (200, 60), (60, 18))


# ----------------------------------------------------------------------------------------------------- sizes and states


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scenario", sorted(fake.SCENARIOS))
async def test_everything_that_matters_is_on_the_screen(scenario: str, size: tuple[int, int]) -> None:
    async with running(fake.SCENARIOS[scenario](), size) as rig:
        text = rig.screen_text()
        assert "live 0.4 s ago" in text
        assert "launchmon" in text
        assert " LOG" in text or "▸LOG" in text
        assert "q detach" in text
        assert "? help" in text
        assert "GPU" in text
        assert "RANK" in text
        assert rig.run.query_one("#verdict").size.height >= 1
        if scenario != "empty":
            assert "kimi-k2.5" in text


async def test_at_80x24_the_whole_story_fits() -> None:
    async with running(fake.seed(), (80, 24)) as rig:
        rows = rig.screen_text().splitlines()
        text = "\n".join(rows)
        assert "◉ kv pool 4m58s" in rows[1]
        assert "DEAD-LOCK · silent · high confidence" in rows[2]
        assert "next" in text
        assert "8 × RTX PRO 6000" in text
        assert all(f"TP{rank} " in text for rank in range(8))
        assert sum("Load weight end" in row for row in rows) == 5
        assert rows[-1].strip().startswith("d stacks  k kill")


async def test_wide_screens_put_gpus_and_ranks_side_by_side() -> None:
    async with running(fake.seed(), (200, 60)) as rig:
        gpus, ranks = rig.run.query_one("#gpus"), rig.run.query_one("#ranks")
        assert gpus.region.y == ranks.region.y
        assert gpus.region.right <= ranks.region.x
        await rig.pilot.resize_terminal(100, 40)
        await rig.settle()
        assert gpus.region.bottom <= ranks.region.y


@pytest.mark.parametrize("size", SIZES)
async def test_resizing_live_leaves_a_whole_screen(size: tuple[int, int]) -> None:
    async with running(fake.seed(), (120, 40)) as rig:
        for place in (size, (80, 24), size):
            await rig.pilot.resize_terminal(*place)
            await rig.settle()
        text = rig.screen_text()
        assert "q detach" in text.splitlines()[-1]
        assert "Load weight end" in text
        assert "DEAD-LOCK" in text


async def test_sixteen_ranks_at_80x24_scroll_and_say_so() -> None:
    async with running(fake.seed(16), (80, 24)) as rig:
        assert "1–8 of 19 ▾" in rig.text("ranks")
        await rig.press("tab", "tab", "tab", "down")
        assert "2–9 of 19 ▾" in rig.text("ranks")
        assert "TP0 " not in rig.text("ranks")
        await rig.press("end")
        assert "TP15" in rig.text("ranks")
        await rig.press("home")
        assert "TP0 " in rig.text("ranks")


async def test_no_gpu_is_said_in_the_panel_and_the_rest_works() -> None:
    async with running(fake.no_gpu()) as rig:
        assert "no libnvidia-ml.so.1 on this machine" in rig.text("gpus")
        assert "TP1" in rig.text("ranks")


async def test_a_lost_link_dims_and_dates_everything() -> None:
    async with running(fake.seed()) as rig:
        assert not rig.run.has_class("-stale")
        rig.session.link, rig.session.since_event = FakeLink("lost", "Connection reset"), 12.0
        await rig.tell()
        assert rig.run.has_class("-stale")
        assert "◌ lost 12 s ago" in rig.text("header")
        for id_ in ("gpus", "ranks", "log-title"):
            assert "as of 12 s ago" in rig.text(id_)
        assert "as of then" in str(rig.run.query_one("#verdict").border_title)
        assert rig.run.query_one("#gpus").styles.text_opacity < 1
        rig.session.link, rig.session.since_event = FakeLink("live"), 0.1
        await rig.tell()
        assert "as of" not in rig.screen_text()


async def test_what_was_written_while_the_link_was_lost_is_read_when_it_is_back() -> None:
    async with running(fake.seed()) as rig:
        rig.session.link, rig.session.refusal = FakeLink("lost", "Connection reset"), Refused("the link is lost")
        rig.session.write("the last words")
        await rig.tell()
        assert "the last words" not in rig.text("log-lines")
        rig.session.link, rig.session.refusal = FakeLink("live"), None
        await rig.tell()
        assert "the last words" in rig.text("log-lines")


async def test_a_key_tries_a_lost_link_at_once() -> None:
    async with running(fake.seed()) as rig:
        await rig.press("L")
        assert rig.session.tried == 0
        rig.session.link = FakeLink("lost", "Connection reset")
        await rig.press("L")
        assert rig.session.tried == 1


async def test_the_verdict_follows_the_session_without_waiting_for_the_second() -> None:
    async with running(fake.loading()) as rig:
        rig.session.model.verdict = events.Verdict(
            at=T0, verdict="crashed", confidence="high", summary="TP3 has ended."
        )
        rig.session.changed()
        assert rig.run._soon is not None  # one timer, however many changes
        rig.session.changed()
        rig.run._look_soon()
        assert "TP3 has ended." in rig.text("verdict")
        assert "CRASHED" in str(rig.run.query_one("#verdict").border_title)
        assert rig.run.query_one("#verdict").has_class("-bad")


async def test_lines_that_did_not_change_are_not_painted_again() -> None:
    async with running(fake.seed()) as rig:
        painted: list[int] = []
        ranks = rig.run.query_one("#ranks", Panel)
        original = ranks.refresh

        def refresh(*regions: object, **options: bool) -> Panel:
            painted.append(len(regions))
            original(*regions, **options)  # type: ignore[arg-type]
            return ranks

        ranks.refresh = refresh  # type: ignore[method-assign, assignment]
        rig.run.look()
        assert painted == []
        rig.session.model.rows[3] = replace(rig.session.model.rows[3], tree_cpu_percent=50.0)
        rig.run.look()
        assert painted == [1]


async def test_a_failing_panel_says_so_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(fake.seed()) as rig:

        def broken(self: Panel, view: View, space: Space) -> Content:
            raise ValueError("seven\nis not a colour")

        gpus = rig.run.query_one("#gpus", Panel)
        monkeypatch.setattr(type(gpus), "content", broken)
        await rig.tell()
        assert "✗ this panel failed (ValueError: seven is not a colour)" in rig.text("gpus").replace("\n", " ")
        await rig.tell()
        assert len(caplog.records) == 1, "once, not every second"
        assert "TP7" in rig.text("ranks")
        monkeypatch.undo()
        await rig.tell()
        assert "76.0/96" in rig.text("gpus")


# ----------------------------------------------------------------------------------------------------------------- keys


@pytest.mark.parametrize("scenario", sorted(fake.SCENARIOS))
async def test_every_key_works_in_every_state(scenario: str) -> None:
    session = fake.SCENARIOS[scenario]()
    keys = [key for action in in_scope("run", "panel") for key in action.keys]
    async with running(session, (80, 24)) as rig:
        for state in ("live", "lost"):
            session.link = FakeLink(state)
            await rig.tell()
            for key in keys:
                await rig.press(key)
                if not isinstance(rig.app.screen, RunScreen) or rig.log.has_class("-searching"):
                    await rig.press("escape")
        assert isinstance(rig.app.screen, RunScreen)
        assert "failed" not in rig.text("log-title")


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_leaving_closes_the_session_and_kills_nothing(key: str) -> None:
    session = fake.seed()
    async with running(session) as rig:
        await rig.pilot.press(key)
    assert rig.app.return_value == Outcome(session)
    assert session.closed
    assert session.killed == []


async def test_ctrl_c_leaves_out_of_a_dialog_and_a_text_field() -> None:
    for keys in (("slash",), ("k",), ("question_mark",)):
        session = fake.seed()
        async with running(session) as rig:
            await rig.press(*keys)
            await rig.pilot.press("ctrl+c")
        assert rig.app.return_value == Outcome(session)


async def test_a_demo_is_stopped_on_leaving() -> None:
    session = fake.ready()

    async def open_session(_: Asker) -> FakeSession:
        return session

    app = LaunchmonApp(open_session, kill_on_exit=True)
    async with app.run_test() as pilot:
        await app.workers.wait_for_complete()
        await pilot.press("q")
        await app.workers.wait_for_complete()
    assert session.killed == [True]
    assert session.closed


async def test_help_explains_the_focused_panel_and_lists_all_keys() -> None:
    async with running(fake.seed(), (120, 60)) as rig:
        await rig.press("tab", "tab", "question_mark")
        assert isinstance(rig.app.screen, HelpScreen)
        text = rig.text("help-text")
        assert "the gpus panel (focused)" in text
        for action in in_scope("run", "panel", "app"):
            assert action.help.split()[0] in text
        await rig.press("escape")
        assert isinstance(rig.app.screen, RunScreen)


async def test_expanding_gives_the_focused_panel_the_middle() -> None:
    async with running(fake.seed(), (80, 24)) as rig:
        assert "8 × RTX" in rig.text("gpus")
        await rig.press("tab", "tab", "z")
        assert len(rig.text("gpus").splitlines()) == 9
        assert not rig.run.query_one("#ranks").display
        assert not rig.log.display
        assert "DEAD-LOCK" in rig.screen_text()
        await rig.press("escape")
        assert rig.log.display
        assert "8 × RTX" in rig.text("gpus")


async def test_expanding_the_verdict_shows_all_of_it() -> None:
    async with running(fake.seed(), (80, 24)) as rig:
        assert "ptrace" not in rig.text("verdict")
        assert "lines 1–3 of" in str(rig.run.query_one("#verdict").border_subtitle)
        await rig.press("tab", "z")
        assert "ptrace" in rig.text("verdict")
        assert not rig.run.query_one("#verdict").border_subtitle
        await rig.press("z")
        assert "ptrace" not in rig.text("verdict")


async def test_the_focus_is_shown_by_a_glyph() -> None:
    async with running(fake.seed()) as rig:
        assert rig.text("log-title").startswith("▸LOG")
        await rig.press("tab", "tab")
        assert rig.text("log-title").startswith(" LOG")
        assert rig.text("gpus").startswith("▸")


async def test_the_footer_can_be_clicked() -> None:
    async with running(fake.seed()) as rig:
        place = rig.text("footer").index("help")
        await rig.pilot.click("#footer", offset=(place, 0))
        await rig.settle()
        assert isinstance(rig.app.screen, HelpScreen)


async def test_the_palette_offers_the_actions_and_themes() -> None:
    async with running(fake.seed()) as rig:
        titles = {command.title for command in rig.app.get_system_commands(rig.app.screen)}
        assert {"kill", "search", "theme", "detach"} <= titles
        assert "attach" not in titles


async def test_no_color_means_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    session = fake.seed()

    async def open_session(_: Asker) -> FakeSession:
        return session

    app = LaunchmonApp(open_session)
    async with app.run_test() as pilot:
        await Rig(app, pilot, session).settle()
        assert app.theme == "launchmon-ansi"
        assert [type(line_filter) for line_filter in app._filters if line_filter.enabled] == [NoColor]


@pytest.mark.parametrize("name", ["launchmon-dark", "launchmon-light", "launchmon-ansi"])
async def test_themes_can_be_changed_live(name: str) -> None:
    async with running(fake.seed()) as rig:
        rig.app.theme = name
        await rig.settle()
        assert "DEAD-LOCK" in rig.screen_text()


# ----------------------------------------------------------------------------------------------------------------- kill


async def test_kill_lists_what_will_end_and_asks() -> None:
    async with running(fake.seed()) as rig:
        await rig.press("k")
        text = rig.text("kill-lines")
        assert "This ends 10 processes" in text
        assert "48107  TP7" in text
        assert "detokenizer" in text
        await rig.press("escape")
        assert rig.session.killed == []


@pytest.mark.parametrize(("key", "force"), [("y", False), ("exclamation_mark", True)])
async def test_kill_shows_its_steps_until_the_end(key: str, force: bool) -> None:
    async with running(fake.seed()) as rig:
        rig.session.model.actions["k0"] = [events.Action(at=T0, action="kill", id="k0", step="old", state="done")]
        rig.session.kill_gate = asyncio.Event()
        await rig.press("k")
        await rig.pilot.press(key)
        await rig.pilot.pause()
        assert rig.session.killed == [force]
        steps = rig.session.model.actions.setdefault("k1", [])
        steps.append(events.Action(at=T0, action="kill", id="k1", step="TERM launcher", state="done"))
        steps.append(events.Action(at=T0, action="kill", id="k1", step="wait", state="doing", text="up to 10 s"))
        screen = rig.app.screen
        assert isinstance(screen, KillScreen)
        screen.draw()
        assert "✓ TERM launcher" in rig.text("kill-lines")
        assert "◉ wait up to 10 s" in rig.text("kill-lines")
        assert "old" not in rig.text("kill-lines")
        assert "the kill goes on" in rig.text("kill-lines")
        steps.append(events.Action(at=T0, action="kill", id="k1", step="wait", state="done", text="2 s"))
        steps.append(events.Action(at=T0, action="kill", id="k1", step="done", state="done", text="port 30000 is free"))
        rig.session.kill_gate.set()
        await rig.settle()
        assert "✓ wait 2 s" in rig.text("kill-lines")
        assert "port 30000 is free" in rig.text("kill-lines")
        assert "is stopped" in str(screen.query_one("Vertical").border_title)
        assert screen.has_class("-over")


async def test_closing_the_dialog_does_not_stop_the_kill() -> None:
    async with running(fake.seed()) as rig:
        rig.session.kill_gate = asyncio.Event()
        await rig.press("k")
        await rig.pilot.press("y", "escape")
        await rig.pilot.pause()
        assert isinstance(rig.app.screen, RunScreen)
        assert len([worker for worker in rig.app.workers if worker.group == "kill"]) == 1
        rig.session.kill_gate.set()
        await rig.settle()


async def test_leftovers_are_named() -> None:
    async with running(fake.seed()) as rig:
        await rig.press("k", "y")
        rig.session.model.actions["k1"] = [
            events.Action(at=T0, action="kill", id="k1", step="done", state="failed", text="pid 48103 is in D state")
        ]
        screen = rig.app.screen
        assert isinstance(screen, KillScreen)
        screen.draw()
        assert "✗ done pid 48103 is in D state" in rig.text("kill-lines")
        assert screen.has_class("-failed")


async def test_a_refused_kill_says_why() -> None:
    async with running(fake.seed()) as rig:
        await rig.press("k")
        rig.session.refusal = Refused("not permitted", "the server belongs to root", "sudo launchmon kill")
        await rig.press("y")
        text = rig.text("kill-lines")
        assert "✗ not permitted" in text
        assert "cause: the server belongs to root" in text
        assert "try: sudo launchmon kill" in text


async def test_a_plan_that_cannot_be_made_says_why() -> None:
    async with running(fake.seed()) as rig:
        rig.session.refusal = Refused("the agent is gone")
        await rig.press("k", "y")
        assert "✗ the agent is gone" in rig.text("kill-lines")
        assert rig.session.killed == []


async def test_nothing_to_kill() -> None:
    async with running(fake.empty()) as rig:
        await rig.press("k", "y")
        assert "Nothing of this run is alive." in rig.text("kill-lines")
        assert rig.session.killed == []


async def test_read_only_sessions_kill_nothing() -> None:
    session = fake.seed()
    session.read_only = True
    async with running(session) as rig:
        await rig.press("k")
        assert isinstance(rig.app.screen, RunScreen)
        assert "read-only" in rig.text("header")


async def test_many_processes_fit_into_the_dialog() -> None:
    async with running(fake.seed(64), (80, 24)) as rig:
        await rig.press("k")
        text = rig.text("kill-lines")
        assert "This ends 66 processes" in text
        assert "more" in text
        assert "Esc" in rig.screen_text()


# ------------------------------------------------------------------------------------------------------------ the start


async def opening(open_session: Callable[[], object]) -> LaunchmonApp:
    app = LaunchmonApp(open_session)  # type: ignore[arg-type]
    async with app.run_test() as pilot:
        await pilot.pause()
        await app.workers.wait_for_complete()
    return app


async def test_a_refused_session_ends_the_app_with_the_reason() -> None:
    refusal = Refused("no such run", "it has ended", "launchmon runs")

    async def open_session(_: Asker) -> FakeSession:
        raise refusal

    assert (await opening(open_session)).return_value == Outcome(refusal=refusal)


async def test_a_broken_pipe_at_the_start_is_a_reason_too() -> None:
    async def open_session(_: Asker) -> FakeSession:
        raise ConnectionResetError("peer is gone")

    outcome = (await opening(open_session)).return_value
    assert outcome is not None
    assert outcome.refusal is not None
    assert "peer is gone" in outcome.refusal.cause


def test_an_app_needs_a_session_or_a_list() -> None:
    with pytest.raises(ValueError, match="attach"):
        LaunchmonApp(None)


FOUND = (
    Found("kimi", 1, model="kimi-k2.5", tp=8, port=30000, phase="kv-pool", launched=True, pid=48001, age_s=341),
    Found("48900", 2, model="qwen3", tp=2, port=30010, phase="ready", pid=48900, age_s=93_000),
    Found("old", 3, model="llama", tp=1, alive=False, phase="crashed", launched=True, age_s=400_000),
)


@asynccontextmanager
async def at_home(
    found: list[Found], attach: Callable[[Found], object], size: tuple[int, int] = (100, 24)
) -> AsyncIterator[Rig]:
    async def pick(_: Asker) -> list[Found]:
        return found

    app = LaunchmonApp(None, pick=pick, attach=attach)  # type: ignore[arg-type]
    async with app.run_test(size=size) as pilot:
        rig = Rig(app, pilot, fake.empty())
        await rig.settle()
        yield rig


async def never(found: Found) -> FakeSession:
    raise AssertionError("nothing was chosen")


async def test_home_lists_runs_and_enter_attaches() -> None:
    chosen: list[Found] = []

    async def attach(found: Found, _: Asker) -> FakeSession:
        chosen.append(found)
        return fake.seed()

    async with at_home(list(FOUND), attach) as rig:
        text = rig.text("home-list")
        assert "▶  kimi" in text
        assert "◉ kv pool" in text
        assert "✓ ready" in text
        assert "■ crashed" in text
        assert "launched" in text
        await rig.press("down", "up", "up", "down", "down", "enter")
        assert chosen == [FOUND[1]]
        assert isinstance(rig.app.screen, RunScreen)


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (200, 60)])
async def test_home_fits(size: tuple[int, int]) -> None:
    many = [replace(FOUND[0], label=f"run {number}") for number in range(100)]
    async with at_home(many, never, size) as rig:
        await rig.press("up")
        assert "run 99" in rig.screen_text()
        assert "q detach" in rig.screen_text()


async def test_an_empty_home_teaches() -> None:
    async with at_home([], never, (80, 24)) as rig:
        text = rig.screen_text()
        for words in ("launchmon demo", "launchmon launch -- COMMAND", "launchmon attach --pid PID"):
            assert words in text
        await rig.press("enter", "down", "r", "question_mark", "escape")
        assert isinstance(rig.app.screen, HomeScreen)


async def test_a_server_that_starts_now_appears() -> None:
    found: list[Found] = []
    async with at_home(found, never) as rig:
        found.append(FOUND[0])
        await rig.press("r")
        assert "kimi" in rig.text("home-list")


async def test_a_refused_attach_goes_back_to_the_list() -> None:
    async def attach(found: Found, _: Asker) -> FakeSession:
        raise Refused("it has just ended", "", "")

    async with at_home(list(FOUND), attach) as rig:
        await rig.press("enter")
        assert isinstance(rig.app.screen, ConnectScreen)
        assert "it has just ended" in rig.text("connect-lines")
        await rig.press("escape")
        assert isinstance(rig.app.screen, HomeScreen)


async def test_a_list_that_cannot_be_made_says_why() -> None:
    async def pick(_: Asker) -> list[Found]:
        raise Refused("the agent did not start", "no psutil", "launchmon doctor")

    app = LaunchmonApp(None, pick=pick, attach=never)
    async with app.run_test() as pilot:
        await pilot.pause()
        await app.workers.wait_for_complete()
        text = app.screen.query_one("#home-list", Lines).text
        assert "the agent did not start" in text
        assert "launchmon doctor" in text


async def test_the_search_prompt_is_the_only_text_field() -> None:
    async with running(fake.seed()) as rig:
        assert len(rig.run.query(Input)) == 1
