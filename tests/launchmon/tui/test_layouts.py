"""Panels that are hidden and expanded, at the sizes that terminals have, and what is remembered of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from launchmon.tui.layout import Arrangement, Layouts, size_class
from tests.support import fake_session as fake
from tests.support.tui_rig import PLAIN, Rig, running

SIZES = {
    (200, 60): "very-wide-tall",
    (120, 40): "wide-medium",
    (80, 24): "narrow-short",
    (60, 20): "narrow-tiny",
    (50, 60): "narrow-tall",
}
THEMES = ("launchmon-dark", "launchmon-ansi")
REMEMBERING = replace(PLAIN, remember_layout=True)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "launchmon/layouts.json"


def shown(rig: Rig) -> dict[str, int]:
    """Panels that can be seen, and how high they are."""
    names = ("header", "rail", "verdict", "gpus", "ranks", "log", "footer")
    panels = {name: rig.run.query_one(f"#{name}") for name in names}
    return {name: panel.size.height for name, panel in panels.items() if panel.display and panel.size.height}


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("theme", THEMES)
async def test_every_size_shows_all_that_matters(size: tuple[int, int], theme: str) -> None:
    assert size_class(*size) == SIZES[size]
    async with running(fake.seed(), size, replace(PLAIN, theme=theme)) as rig:
        assert set(shown(rig)) == {"header", "rail", "verdict", "gpus", "ranks", "log", "footer"}
        assert shown(rig)["log"] >= 3
        text = rig.screen_text()
        for word in ("kv pool", "DEAD-LOCK", "GPU", "RANK", "TP0", "LOG", "q detach"):
            assert word in text, word
        assert all(len(line.rstrip()) <= size[0] for line in text.splitlines())


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("panel", ["gpus", "ranks", "log"])
async def test_each_panel_can_be_hidden_and_its_room_is_used(size: tuple[int, int], panel: str) -> None:
    async with running(fake.seed(), size) as rig:
        before = shown(rig)
        focus(rig, panel)
        await rig.press("h")
        after = shown(rig)
        assert set(before) - set(after) == {panel}
        focused = rig.run.focused
        assert focused is not None
        assert panel not in [node.id for node in focused.ancestors_with_self]
        assert rig.run.query_one("#footer").region.bottom == size[1]
        await rig.press("H")
        assert shown(rig) == before


async def test_the_verdict_and_the_last_panel_stay() -> None:
    async with running(fake.seed()) as rig:
        focus(rig, "verdict")
        await rig.press("h")
        assert "verdict" in shown(rig)
        for panel in ("gpus", "ranks", "log"):
            focus(rig, panel)
            await rig.press("h")
        assert {"verdict", "log"} <= set(shown(rig))


async def test_what_is_hidden_and_expanded_is_remembered_for_this_size_alone(state: Path) -> None:
    async with running(fake.seed(), (120, 40), REMEMBERING) as rig:
        focus(rig, "gpus")
        await rig.press("h")
        focus(rig, "ranks")
        await rig.press("z")
        assert "gpus" not in shown(rig)
    assert json.loads(state.read_text()) == {"wide-medium": {"hidden": ["gpus"], "expanded": "ranks"}}
    async with running(fake.seed(), (130, 40), REMEMBERING) as rig:
        assert {"gpus", "log"}.isdisjoint(shown(rig))
        await rig.press("escape")
        assert "log" in shown(rig)
    async with running(fake.seed(), (80, 24), REMEMBERING) as rig:
        assert {"gpus", "ranks", "log"} <= set(shown(rig))


async def test_another_size_has_its_own_arrangement_at_once(state: Path) -> None:
    async with running(fake.seed(), (120, 40), REMEMBERING) as rig:
        focus(rig, "gpus")
        await rig.press("h")
        await rig.pilot.resize_terminal(80, 24)
        await rig.settle()
        assert "gpus" in shown(rig)
        await rig.pilot.resize_terminal(120, 40)
        await rig.settle()
        assert "gpus" not in shown(rig)


async def test_the_configuration_says_what_is_hidden_at_first() -> None:
    async with running(fake.seed(), config=replace(PLAIN, hidden_panels=("log",))) as rig:
        assert "log" not in shown(rig)
        await rig.press("H")
        assert "log" in shown(rig)


@pytest.mark.parametrize(
    "body",
    ["", "[]", "nonsense", '{"wide-medium": 7}', '{"wide-medium": {"hidden": [7, "other"], "expanded": []}}'],
)
def test_a_broken_memory_is_none(tmp_path: Path, body: str) -> None:
    path = tmp_path / "layouts.json"
    path.write_text(body)
    assert Layouts(path, ("gpus", "log"), Arrangement()).of("wide-medium") == Arrangement()


def test_a_memory_that_hides_everything_hides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "layouts.json"
    path.write_text('{"wide-medium": {"hidden": ["gpus", "log"], "expanded": "gpus"}}')
    assert Layouts(path, ("gpus", "log"), Arrangement()).of("wide-medium") == Arrangement(expanded="gpus")


def test_a_place_that_cannot_be_written_costs_the_memory_only(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    layouts = Layouts(tmp_path / "file/layouts.json", ("gpus", "log"), Arrangement())
    layouts.keep("wide-medium", Arrangement(expanded="log"))
    assert layouts.of("wide-medium") == Arrangement(expanded="log")


def test_two_screens_write_into_one_memory(tmp_path: Path) -> None:
    path = tmp_path / "layouts.json"
    one, other = (Layouts(path, ("gpus", "log"), Arrangement()) for _ in range(2))
    one.keep("wide-medium", Arrangement(expanded="log"))
    other.keep("narrow-short", Arrangement(expanded="gpus"))
    assert set(json.loads(path.read_text())) == {"wide-medium", "narrow-short"}


def focus(rig: Rig, panel: str) -> None:
    rig.run.set_focus(rig.log.lines if panel == "log" else rig.run.query_one(f"#{panel}"))


@pytest.mark.parametrize("keys", [("tab", "tab", "tab", "z"), ("h",)])
async def test_what_is_done_with_the_log_brings_it_back_until_the_screen_is_arranged_anew(
    keys: tuple[str, ...],
) -> None:
    async with running(fake.kept()) as rig:
        await rig.press(*keys)
        assert "LOG" not in rig.screen_text()
        await rig.press("slash", *"step 7", "enter")
        text = rig.screen_text()
        assert "LOG" in text and "step 7" in text and "RANK" in text
        rig.run.on_resize(None)  # type: ignore[arg-type]
        await rig.settle()
        assert "LOG" not in rig.screen_text()
