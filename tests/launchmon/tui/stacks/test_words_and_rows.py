"""A dump in words, and as rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launchmon.tui.stacks import rows, words
from launchmon.tui.stacks.history import History
from launchmon.tui.widgets.lines import Row, row_width
from launchmon_agent.stacks.merge import MergedFrame, merge
from tests.support import fake_dumps
from tests.support.stacks_text import dump


def text(row: Row) -> str:
    return "".join(part for part, _ in row)


def frame(function: str, file: str, *lines: int, native: bool = False, runtime: bool = False) -> MergedFrame:
    return MergedFrame(function, file, lines, native, runtime)


# --------------------------------------------------------------------------------------------------------------- words


def test_which_means_were_used() -> None:
    found = fake_dumps.odd_one(100.0, ranks=2)
    assert words.means(found) == "by py-spy"
    mixed = replace(found, stacks=(replace(found.stacks[0], means="faulthandler"), *found.stacks[1:]))
    assert words.means(mixed) == "by py-spy (2 of 3) and the launch hook (1)"
    assert words.means(replace(found, stacks=())) == "nothing could be read"
    quiet = tuple(replace(stack, means="py-spy --nonblocking") for stack in found.stacks)
    assert words.means(replace(found, stacks=quiet)) == "by py-spy"


def test_equal_problems_are_told_once_whatever_the_pid() -> None:
    found = fake_dumps.odd_one(100.0, ranks=2)
    stacks = tuple(
        replace(stack, problem=f"the stacks of process {stack.pid} cannot be read", cure=f"sudo {stack.pid}")
        for stack in found.stacks
    )
    (problem,) = words.problems(replace(found, stacks=stacks))
    assert problem.text == "the stacks cannot be read"
    assert problem.label == "TP0-1 + launcher"
    assert problem.cure == "sudo 1000"
    assert not problem.unread


def test_some_moved_and_some_did_not() -> None:
    before = fake_dumps.odd_one(100.0, odd=3)
    after = fake_dumps.odd_one(105.0, odd=5, number=2)
    changes = merge(after, [before]).changes
    assert words.movement(changes, ("TP0", "TP3"))[0].endswith(", but TP3 moved")
    assert words.movement(changes, ("nobody",)) == ("", "muted")
    assert words.movement(changes, ("TP3",))[0] == "↷ moved, was in FileLock.acquire (filelock/_api.py:332)"


@pytest.mark.parametrize(
    ("file", "native", "family"),
    [
        ("torch/nn/module.py", False, "torch"),
        ("threading.py", False, "Python"),
        ("<frozen runpy>", False, "Python"),
        ("multiprocessing/process.py", False, "Python"),
        ("mine.py", False, "mine"),
        ("", False, "Python"),
        ("libc.so.6", True, "native code"),
    ],
)
def test_whose_code_a_frame_is(file: str, native: bool, family: str) -> None:
    assert words.family(frame("f", file, native=native)) == family


def test_code_that_matters_stands_for_a_stack() -> None:
    frames = [frame("recv", "libc.so.6", native=True), frame("wait", "threading.py"), frame("barrier", "torch/d.py")]
    assert words.path(frames) == "barrier"
    assert words.path(frames[:2]) == "recv ‹ wait", "where there is no other"


# ---------------------------------------------------------------------------------------------------------------- rows


def test_frames_are_folded_in_runs() -> None:
    frames = [
        frame("_call_impl", "torch/nn/module.py", 1, runtime=True),
        frame("_wrapped", "torch/nn/module.py", 2, runtime=True),
        frame("forward", "sglang/model.py", 3, 9),
        frame("run", "threading.py", 4, runtime=True),
        frame("loop", "triton/x.py", 4, runtime=True),
        frame("go", "zz/x.py", 4, runtime=True),
    ]
    shown = [text(row) for row in rows.frame_rows(frames, 80, fold=True)]
    assert shown == [
        "  … 2 frames of torch",
        "  forward  sglang/model.py:3,9",
        "  … 3 frames of Python and triton and others",
    ]
    assert len(rows.frame_rows(frames, 80, fold=False)) == 6
    assert len(rows.frame_rows(frames[:2], 80, fold=True)) == 2, "where there are no others, they are shown"


def test_long_paths_keep_their_end() -> None:
    (row,) = rows.frame_rows([frame("forward", "sglang/srt/models/deepseek_v2.py", 1234)], 36, fold=True)
    assert text(row).startswith("  forward  …")
    assert text(row).endswith("/deepseek_v2.py:1234")
    assert row_width(row) <= 36


def test_what_is_searched_is_marked() -> None:
    (row,) = rows.frame_rows([frame("FileLock.acquire", "filelock/_api.py", 3)], 80, fold=True, text="LOCK")
    assert [part for part, tone in row if tone == "hit"] == ["Lock", "lock"]


def test_the_history_is_a_mark_each_and_bounded() -> None:
    dumps = [fake_dumps.odd_one(100.0 + at, ranks=1, automatic=at % 2 == 0, number=at) for at in range(30)]
    assert text(rows.history(dumps[:3], 1)) == "◇●◇"
    assert text(rows.history(dumps[:1], 0)) == ""
    middle = text(rows.history(dumps, 14))
    assert middle.startswith("…")
    assert middle.endswith("…")
    assert len(middle) == rows.MARKS + 2


def test_chips_leave_where_there_is_no_room() -> None:
    found = fake_dumps.odd_one(100.0, ranks=4)
    row, places = rows.chips(found, ("TP2",), 80)
    assert text(row) == "  launcher  TP0  TP1 [TP2] TP3 "
    assert [text(row)[begin:end].strip(" []") for begin, end, _ in places] == [who for *_, who in places]
    assert rows.chips(found, (), 20) == ((), [])


def test_two_stacks_side_by_side_meet_at_the_bottom() -> None:
    shown = [text(row) for row in rows.pair_rows(["main", "a", "b"], ["main", "c"], 1, 43, fold=True)]
    assert shown == ["− b                  │ ", "− a                  │ + c", "  main"]


def test_every_row_fits_its_width() -> None:
    merged = merge(fake_dumps.recorded())
    (group, *_) = merged.groups
    for width in (24, 40, 80):
        for fold in (True, False):
            for row in rows.frame_rows(group.frames, width, fold=fold):
                assert row_width(row) <= width


# ------------------------------------------------------------------------------------------------------------- history


def test_the_newest_is_followed_until_an_older_one_is_asked_for() -> None:
    first, second, third = (fake_dumps.odd_one(100.0 + at, ranks=1, odd=9, number=at) for at in range(3))
    history = History()
    assert history.current is None
    assert history.merged() is None
    assert not history.step(-1)
    history.take([first])
    assert history.current is first
    assert history.before is None
    history.take([second])
    assert history.current is second
    assert history.step(-1)
    history.take([third])
    assert history.current is first
    assert history.step(1)
    assert history.step(1)
    assert not history.step(1)
    assert history.current is third
    assert history.before is second


def test_a_dump_that_arrives_twice_or_late_keeps_the_order_of_time() -> None:
    first, second = (fake_dumps.odd_one(100.0 + at, ranks=1, number=at) for at in range(2))
    history = History()
    history.take([second])
    history.take([second, first, first])
    assert history.dumps == (first, second)
    merged = history.merged()
    assert merged is history.merged(), "merged once"
    assert merged is not None
    assert all(change.unchanged == 1 for change in merged.changes)


def test_a_dump_without_anything_has_an_empty_tree() -> None:
    history = History()
    history.take([dump({})])
    merged = history.merged()
    assert merged is not None
    assert merged.groups == ()
