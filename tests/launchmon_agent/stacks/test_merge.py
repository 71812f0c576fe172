"""Many stacks as one: groups, tree, what they have in common, and what moved."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from launchmon_agent import codec
from launchmon_agent.events import Frame, RankStack, Stacks
from launchmon_agent.stacks.compare import changes, side_by_side
from launchmon_agent.stacks.merge import Node, merge, other_threads
from launchmon_agent.stacks.model import combine, main_thread
from launchmon_agent.stacks.render import short_function, speedscope, text
from tests.support.stacks_text import dump, frames, sections

EXAMPLES = sections((Path(__file__).parent / "examples.txt").read_text())
BARRIER = EXAMPLES["load-barrier"]
LOADER = EXAMPLES["loading"]
LAUNCHER = EXAMPLES["wait-for-ready"]
OUTER = "run_scheduler_process (scheduler.py:9)\nspawn_main (multiprocessing/spawn.py:122)"


def one_of_eight() -> Stacks:
    stacks = {"launcher": LAUNCHER, **{f"TP{n}": LOADER if n == 3 else BARRIER for n in range(8)}}
    return dump(stacks)


def path(nodes: tuple[Node, ...]) -> list[str]:
    """The functions of a tree, in the order of a walk from the root."""
    return [line for node in nodes for line in (f"{node.label} {node.function}", *path(node.children))]


def test_the_odd_rank_comes_first() -> None:
    merged = merge(one_of_eight())
    assert [group.label for group in merged.groups] == ["TP3", "TP0-2,4-7"]
    assert [group.explanation.id for group in merged.groups if group.explanation] == ["loading", "load-barrier"]
    assert [group.waiting for group in merged.groups] == [False, True]
    assert [(group.label, group.explanation and group.explanation.id) for group in merged.others] == [
        ("launcher", "wait-for-ready")
    ]


def test_of_equal_sets_those_that_wait_for_the_others_come_last() -> None:
    assert [group.label for group in merge(dump({"TP0": BARRIER, "TP1": LOADER})).groups] == ["TP1", "TP0"]
    assert [group.label for group in merge(dump({"TP0": LOADER, "TP1": BARRIER})).groups] == ["TP0", "TP1"]


def test_all_in_one_place_are_one_group() -> None:
    (group,) = merge(dump({"TP0": BARRIER, "TP1": BARRIER})).groups
    assert group.ranks == ("TP0", "TP1")


def test_the_tree_parts_where_the_ranks_do_with_the_smallest_set_first() -> None:
    merged = merge(one_of_eight())
    assert path(merged.tree) == [
        "TP0-7 Scheduler.__init__",
        "TP3 ModelRunner.__init__",
        "TP3 ModelRunner.load_model",
        "TP3 wedge.<locals>.wrapper",
        "TP3 lock",
        "TP0-2,4-7 ModelRunner.load_model",
        "TP0-2,4-7 dist_barrier_after_load",
        "TP0-2,4-7 monitored_barrier",
    ]


def test_runtime_frames_are_folded_and_can_be_had() -> None:
    taken = dump({"TP0": f"work (own/a.py:3)\n{OUTER}", "TP1": f"other (own/a.py:4)\n{OUTER}"})
    assert path(merge(taken).tree) == ["TP0-1 run_scheduler_process", "TP0 work", "TP1 other"]
    assert path(merge(taken, fold=False).tree)[0] == "TP0-1 spawn_main"
    group = merge(taken).groups[0]
    assert [frame.function for frame in group.shown] == ["work", "run_scheduler_process"]
    assert [frame.function for frame in group.frames] == ["work", "run_scheduler_process", "spawn_main"]


def test_a_stack_of_runtime_frames_alone_is_shown_as_it_is() -> None:
    merged = merge(dump({"TP0": "<module> (<string>:1)"}))
    assert path(merged.tree) == ["TP0 <module>"]
    assert [frame.function for frame in merged.groups[0].shown] == ["<module>"]


def test_ranks_in_one_function_at_different_lines_stay_together() -> None:
    merged = merge(dump({"TP0": "spin (own/a.py:3)\nmain (own/a.py:9)", "TP1": "spin (own/a.py:5)\nmain (own/a.py:9)"}))
    (group,) = merged.groups
    assert group.label == "TP0-1"
    assert [frame.lines for frame in group.frames] == [(3, 5), (9,)]
    assert merged.tree[0].children[0].lines == (3, 5)
    assert merged.tree[0].children[0].ends == ("TP0", "TP1")


def test_packages_in_different_places_are_the_same() -> None:
    def at(home: str) -> list[Frame]:
        return [Frame("barrier", f"{home}/site-packages/torch/distributed/distributed_c10d.py", 3)]

    (group,) = merge(dump({"TP0": at("/opt/venv/lib/python3.11"), "TP1": at("/usr/lib/python3.12")})).groups
    assert group.label == "TP0-1"


def test_bare_and_qualified_names_are_the_same_where_both_occur() -> None:
    taken = dump({"TP0": "Group.barrier (own/a.py:1)", "TP1": "barrier (own/a.py:1)", "TP2": "Other.f (own/a.py:1)"})
    older = dataclasses.replace(taken.stacks[1], python="3.10")
    hooked = dataclasses.replace(taken.stacks[1], means="faulthandler")
    for odd in (older, hooked):
        stacks = (dataclasses.replace(taken.stacks[0], python="3.12"), odd, taken.stacks[2])
        merged = merge(dataclasses.replace(taken, stacks=stacks))
        assert [group.label for group in merged.groups] == ["TP2", "TP0-1"]
    assert len(merge(taken).groups) == 3


def test_deep_stacks_do_not_exhaust_the_interpreter() -> None:
    deep = [Frame(f"f{n}", "/own/a.py", n) for n in range(5000)]
    merged = merge(dump({"TP0": deep, "TP1": deep}))
    assert len(merged.groups[0].frames) == 5000


def test_what_the_odd_ones_share() -> None:
    stacks = {f"DP{d} TP{t}": LOADER if d == 1 else BARRIER for d in (0, 1, 2) for t in (0, 1)}
    first = merge(dump(stacks)).groups[0]
    assert (first.label, first.shared) == ("DP1 TP0-1", "DP1")


def test_nodes_are_merged_and_named() -> None:
    one = dump({"TP0": BARRIER, "TP1": BARRIER, "TP2": BARRIER}, nodes={"TP0": 0, "TP1": 0, "TP2": 0})
    two = dump({"TP3": LOADER, "TP4": LOADER}, nodes={"TP3": 1, "TP4": 1})
    merged = merge(combine([one, two]))
    assert [(group.label, group.shared) for group in merged.groups] == [("TP3-4", "node 1"), ("TP0-2", "node 0")]
    assert len(merged.dump.frames) == len({str(frame) for frame in merged.dump.frames})


def test_processes_without_frames_are_named_apart() -> None:
    gone = RankStack(pid=9, start_time=1.0, role="scheduler", rank="TP1", problem="a zombie")
    taken = dump({"TP0": BARRIER})
    merged = merge(Stacks(taken.at, frames=taken.frames, stacks=(*taken.stacks, gone)))
    assert merged.unread == (gone,)
    assert text(merged).endswith("\nwithout stacks\n  TP1: a zombie\n")


def test_the_thread_that_tells_is_chosen() -> None:
    taken = dump({"TP0": ""}, threads={"TP0": ["work (own/a.py:3)"]})
    thread = main_thread(taken.stacks[0])
    assert thread is not None and thread.name == "thread-0"
    assert main_thread(RankStack(pid=1, start_time=1.0, role="scheduler")) is None


def test_other_threads_are_grouped_over_ranks() -> None:
    waiter, reader = EXAMPLES["thread-wait"], "read (own/reader.py:3)"
    taken = dump(
        {"TP0": BARRIER, "TP1": BARRIER, "launcher": LAUNCHER},
        threads={"TP0": [waiter, waiter], "TP1": [waiter, reader]},
    )
    groups = other_threads(taken)
    assert [(group.ranks, group.count) for group in groups] == [(("TP1",), 1), (("TP0", "TP1"), 3)]
    assert groups[1].explanation is not None and groups[1].explanation.id == "thread-wait"
    assert [group.count for group in other_threads(taken, ["TP0"])] == [2]


# -------------------------------------------------------------------------------------------------------------- compare


def test_unchanged_frames_are_counted_back_to_the_first_difference() -> None:
    moved = dump({"TP0": LOADER, "TP1": EXAMPLES["reading-weights"]}, at=10.0)
    same = [dump({"TP0": LOADER, "TP1": LOADER}, at=at) for at in (20.0, 30.0)]
    now = dump({"TP0": LOADER, "TP1": LOADER}, at=40.0)
    one, two = changes(now, [moved, *same])
    assert (one.who, one.unchanged, one.since, one.moved) == ("TP0", 3, 10.0, False)
    assert (two.who, two.unchanged, two.since, two.moved) == ("TP1", 2, 20.0, False)


def test_another_line_of_one_function_is_a_move() -> None:
    (change,) = changes(dump({"TP0": "spin (own/a.py:4)"}, at=2.0), [dump({"TP0": "spin (own/a.py:3)"}, at=1.0)])
    assert change.moved and (change.was, change.now) == ("spin (own/a.py:3)", "spin (own/a.py:4)")


def test_without_an_earlier_dump_nothing_is_said() -> None:
    (change,) = changes(dump({"TP0": LOADER}), [])
    assert (change.unchanged, change.moved, change.threads_moved) == (0, None, None)


def test_another_process_of_the_same_rank_is_not_compared() -> None:
    before, now = dump({"TP0": LOADER, "TP1": LOADER}), dump({"TP1": LOADER}, at=200.0)  # pids are given in order
    assert before.stacks[1].rank == now.stacks[0].rank and before.stacks[1].pid != now.stacks[0].pid
    alone = Stacks(before.at, frames=before.frames, stacks=before.stacks[1:])
    (change,) = changes(now, [alone])
    assert change.moved is None


def test_threads_beside_the_main_one_may_move_alone() -> None:
    before = dump({"TP0": LOADER}, threads={"TP0": ["read (own/a.py:3)"]})
    (still,) = changes(dump({"TP0": LOADER}, threads={"TP0": ["read (own/a.py:3)"]}), [before])
    (moved,) = changes(dump({"TP0": LOADER}, threads={"TP0": ["read (own/a.py:7)"]}), [before])
    assert (still.unchanged, still.threads_moved) == (1, False)
    assert (moved.unchanged, moved.threads_moved) == (1, True)


def test_two_dumps_side_by_side() -> None:
    before = dump({"TP0": "a (own/a.py:1)\nmain (own/a.py:9)", "TP1": LOADER})
    after = dump({"TP0": "b (own/a.py:2)\nmain (own/a.py:9)", "TP1": LOADER})
    one, two = side_by_side(before, after)
    assert (one.common, one.same, one.before[-1], one.after[-1]) == (1, False, "a (own/a.py:1)", "b (own/a.py:2)")
    assert two.same


# ------------------------------------------------------------------------------------------------------------- render


def test_text_says_who_is_where_and_what_it_means() -> None:
    before = one_of_eight()
    said = text(merge(one_of_eight(), [before, before]))
    lines = said.splitlines()
    assert lines[0].startswith("stacks of 8 ranks and launcher at 1970-01-01 00:01:40 UTC, by py-spy")
    assert lines[2] == "TP3  1 of 8  unchanged ×2"
    assert lines[3] == "  is loading its weights"
    assert lines.index("TP3  1 of 8  unchanged ×2") < lines.index("TP0-2,4-7  7 of 8  unchanged ×2")
    assert "    monitored_barrier (torch/distributed/distributed_c10d.py:4820)" in lines
    assert not any("spawn_main" in line for line in lines)
    assert any("_run_module_as_main" in line for line in text(merge(before), whole=True).splitlines())


def test_names_of_templates_are_shortened() -> None:
    name = "c10::impl::call<std::vector<long, std::allocator<long> >, false>::run<int>"
    assert short_function(name) == "c10::impl::call::run"
    assert short_function("f.<locals>.wrapper") == "f.<locals>.wrapper"
    assert len(short_function("a::" + "b" * 500)) < 120


def test_a_lock_inside_a_loader_is_said() -> None:
    stack = EXAMPLES["python-lock"] + "\n" + LOADER.partition("\n")[2]
    (group,) = merge(dump({"TP0": stack})).groups
    assert group.waiting and group.inside is not None and group.inside.id == "python-lock"
    assert "  its innermost frame sleeps on a lock of Python\n" in text(merge(dump({"TP0": stack})))


def test_text_of_threads_on_request() -> None:
    taken = dump({"TP0": BARRIER}, threads={"TP0": [EXAMPLES["thread-wait"]]})
    assert "TP0  1 other thread: thread-0" in text(merge(taken), threads=True)
    assert "other thread" not in text(merge(taken))


def test_equal_remarks_are_made_once() -> None:
    taken = dump({"TP0": BARRIER, "TP1": BARRIER})
    stacks = tuple(
        RankStack(
            stack.pid,
            stack.start_time,
            stack.role,
            rank=stack.rank,
            threads=stack.threads,
            problem=f"the stacks of process {stack.pid} cannot be read: why",
            cure="do this",
        )
        for stack in taken.stacks
    )
    said = text(merge(Stacks(1.0, frames=taken.frames, stacks=stacks)))
    assert said.count("  TP0-1: the stacks cannot be read: why\n    try: do this\n") == 1


def test_a_stopped_rank_is_named_as_such() -> None:
    taken = dump({"TP0": BARRIER, "TP1": BARRIER})
    stacks = (taken.stacks[0], dataclasses.replace(taken.stacks[1], state_before="T"))
    said = text(merge(dataclasses.replace(taken, stacks=stacks)))
    assert "TP0-1  2 of 2  TP1 stopped by a signal\n" in said


def test_speedscope_file_has_one_sample_for_each_rank() -> None:
    taken = one_of_eight()
    body = speedscope(taken)
    (profile,) = body["profiles"]
    assert len(profile["samples"]) == len(profile["weights"]) == profile["endValue"] == 8
    names = [frame["name"] for frame in body["shared"]["frames"]]
    outermost = {names[sample[0]] for sample in profile["samples"]}
    assert outermost == {"Scheduler.__init__"}


# --------------------------------------------------------------------------------------------------------------- travel


def test_a_dump_travels() -> None:
    taken = dump({"TP0": BARRIER}, threads={"TP0": ["read (own/a.py:3)"]})
    assert codec.decode(codec.encode(taken)) == taken


def test_a_dump_of_eight_ranks_of_sixty_threads_is_small() -> None:
    ranks = {f"TP{n}": BARRIER for n in range(8)}
    taken = dump(ranks, threads={rank: [EXAMPLES["thread-wait"]] * 59 for rank in ranks})
    assert len(codec.encode(taken)) < 64 * 1024
    assert len(taken.frames) == len(frames(BARRIER)) + len(frames(EXAMPLES["thread-wait"]))
