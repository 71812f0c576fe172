"""The list on the left: a tree of the ranks, threads, and two dumps compared."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

import pytest

from launchmon.tui.stacks import tree
from launchmon.tui.stacks.tree import Fork, Item
from launchmon_agent.stacks.merge import merge
from tests.support import fake_dumps
from tests.support.stacks_text import dump

OUTER = "load (sglang/a.py:1)\nrun_scheduler_process (sglang/srt/managers/scheduler.py:9)"


def drawn(entries: list[tree.Entry]) -> list[str]:
    return [
        f"{entry.lead}{entry.label} in {entry.function}" if isinstance(entry, Fork) else f"{entry.lead}{entry.label}"
        for entry in entries
    ]


def test_the_odd_one_stands_first_under_what_all_have_in_common() -> None:
    entries = tree.groups(merge(fake_dumps.odd_one(100.0)))
    assert drawn(entries) == ["all 8 in ModelRunner.init_memory_pool", "├ TP3", "└ TP0-2,4-7", "launcher"]
    odd, rest = tree.items(entries)[:2]
    assert (odd.count, rest.count) == ("1 of 8", "7 of 8")
    assert odd.path == "FileLock.acquire ‹ FileBaton.wait"
    assert odd.under == "│ "
    assert rest.under == "  "


def test_forks_within_forks_and_ranks_that_end_where_others_go_on() -> None:
    stacks = {f"TP{rank}": f"deep (sglang/d.py:1)\nb (sglang/b.py:1)\n{OUTER}" for rank in (0, 1, 2)}
    stacks["TP3"] = f"other (sglang/o.py:1)\nb (sglang/b.py:1)\n{OUTER}"
    stacks.update({f"TP{rank}": OUTER for rank in (4, 5)})
    entries = tree.groups(merge(dump(stacks)))
    assert drawn(entries) == [
        "all 6 in load",
        "├ TP0-3 in b",
        "│ ├ TP3",
        "│ └ TP0-2",
        "└ TP4-5",
    ]


def test_ranks_that_all_stand_in_one_place_need_no_tree() -> None:
    entries = tree.groups(merge(dump({f"TP{rank}": OUTER for rank in range(4)})))
    assert drawn(entries) == ["TP0-3"]


def test_ranks_with_nothing_in_common_stand_side_by_side() -> None:
    entries = tree.groups(merge(dump({"TP0": "a (x/a.py:1)", "TP1": "b (x/b.py:1)", "TP2": "b (x/b.py:1)"})))
    assert drawn(entries) == ["TP0", "TP1-2"]


@pytest.fixture
def shallow() -> Iterator[int]:
    """Python may go so much deeper than here, and no more."""
    before, room = sys.getrecursionlimit(), 100
    sys.setrecursionlimit(len(inspect.stack(0)) + room)
    yield room
    sys.setrecursionlimit(before)


def test_a_tree_deeper_than_python_may_recurse(shallow: int) -> None:
    count = 2 * shallow

    def stack(rank: int) -> str:
        return "\n".join(f"f{depth} (x/a.py:1)" for depth in range(rank, -1, -1))

    entries = tree.groups(merge(dump({f"TP{rank}": stack(rank) for rank in range(count)})))
    assert len(tree.items(entries)) == count


def test_what_could_not_be_read_stands_last_and_says_why() -> None:
    found = fake_dumps.without(fake_dumps.odd_one(100.0), "TP5", fake_dumps.VANISHED)
    last = tree.groups(merge(found))[-1]
    assert isinstance(last, Item)
    assert (last.label, last.gist) == ("TP5", f"✗ {fake_dumps.VANISHED}")


def test_unchanged_and_moved() -> None:
    before, after = fake_dumps.odd_one(100.0), fake_dumps.odd_one(105.0, odd=5, number=2)
    marks = {item.label: item.mark[0] for item in tree.items(tree.groups(merge(after, [before])))}
    assert marks == {"TP5": "↷ moved", "TP0-4,6-7": "↷ moved", "launcher": "= unchanged ×1"}


def test_a_comparison_has_the_movers_first_and_names_who_came_and_went() -> None:
    before = fake_dumps.odd_one(100.0, ranks=3, odd=1)
    after = fake_dumps.odd_one(105.0, ranks=2, odd=0, number=2)
    found = tree.items(tree.compared(before, after))
    assert [item.label for item in found] == ["TP0", "TP1", "launcher", "TP2"]
    assert found[0].gist == "moved from all_reduce to FileLock.acquire"
    assert found[-1].gist == "is gone since"


def test_filtering_looks_at_everything_and_drops_the_tree() -> None:
    entries = tree.groups(merge(fake_dumps.odd_one(100.0)))
    for text in ("tp3", "file_baton.py", "FileLock", "C++ EXTENSION"):
        (found,) = tree.items(tree.matching(entries, text))
        assert (found.label, found.lead) == ("TP3", "")
    assert [item.label for item in tree.items(tree.matching(entries, "tp5"))] == ["TP0-2,4-7"]
    assert tree.matching(entries, "nowhere") == []
    assert tree.matching(entries, "") == entries
