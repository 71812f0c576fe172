"""Every screen in every state that a person meets: nothing is cut, nothing overlaps, and it looks as it is kept."""

from __future__ import annotations

import pytest

from launchmon.tui.screens.run import RunScreen
from launchmon.tui.widgets.lines import Lines
from tests.support.scenes import SCENES, Scene, Size, named, shown
from tests.support.snapshots import ANEW, SNAPSHOTS, difference, file_of, painted, written
from tests.support.still import Still, faults, take
from tests.support.tui_rig import Rig

SHOTS = [pytest.param(scene, size, id=f"{scene.name}-{size[0]}x{size[1]}") for scene in SCENES for size in scene.sizes]


@pytest.mark.parametrize(("scene", "size"), SHOTS)
async def test_the_screen_fits_and_is_as_it_is_kept(scene: Scene, size: Size) -> None:
    async with shown(scene, size) as rig:
        now, wrong = await painted(rig)
        text = take(rig.app).text
        if isinstance(rig.app.screen, RunScreen):
            hidden = [name for name in ("header", "rail", "verdict") if not rig.text(name).strip()]
            assert hidden == [], "these stay at every size"
    assert wrong == []
    assert [words for words in scene.says if words not in text] == [], text
    file = file_of(scene, size)
    kept = file.read_text() if file.exists() else ""
    if now != kept:
        name = f"{scene.name} {size[0]}x{size[1]}"
        pytest.fail(f"{difference(kept, now, name)}\n\nmeant? {ANEW} {scene.name}", pytrace=False)


def test_nothing_is_kept_of_what_is_no_scene() -> None:
    kept = {file.relative_to(SNAPSHOTS) for file in SNAPSHOTS.rglob("*.txt")}
    assert kept == {file_of(scene, size).relative_to(SNAPSHOTS) for scene in SCENES for size in scene.sizes}


async def _with(rig: Rig, rows: int, text: str) -> list[str]:
    """The faults once the rail has these rows."""
    rig.run.query_one("#rail", Lines).show([((text, "plain"),)] * rows)
    return faults(rig.app)


async def test_what_is_cut_or_overlaps_is_found() -> None:
    async with shown(named("dead-lock"), (80, 24)) as rig:
        assert await _with(rig, 1, "x" * 81) == [f"rail: 81 cells in a widget of 80: {'x' * 81!r}"]
        assert await _with(rig, 3, "x") == ["rail: 3 rows in a widget of 1"]
        await _with(rig, 1, "x")
        rig.run.query_one("#verdict").styles.offset = (0, 3)
        await rig.settle()
        assert "verdict and gpus overlap" in " ".join(faults(rig.app))


async def test_a_footer_without_the_last_keys_is_found() -> None:
    async with shown(named("dead-lock"), (80, 24)) as rig:
        rig.run.query_one("#footer", Lines).show([((" d stacks", "key"),)])
        await rig.settle()
        assert any("the footer lacks" in fault for fault in faults(rig.app))


def test_a_difference_is_told_line_by_line() -> None:
    assert difference("a\nb\n", "a\nc\n", "run 80x24").splitlines()[2:] == ["@@ -1,2 +1,2 @@", " a", "-b", "+c"]


def test_characters_come_before_looks_and_rows_that_look_alike_are_written_once() -> None:
    still = Still(4, ((("ab", "bold #fff on #000"), ("  ", "#fff on #000")), (("c   ", "#fff on #000"),)))
    assert written(still, [("dark", still)]).splitlines() == [
        *("ab", "c", "── dark", "a = bold #fff on #000", "b = #fff on #000", "    0  a2 b2", "    1  b4"),
    ]
