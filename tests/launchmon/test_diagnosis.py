from __future__ import annotations

import dataclasses
import json
from typing import Any

from launchmon.diagnosis import RECENT_S, diagnosis
from launchmon_agent.events import Expected, RankStack, Stacks
from launchmon_agent.model import RunModel
from tests.support.story import T0, Story

ALL_REDUCE = """
all_reduce (torch/distributed/distributed_c10d.py:2810)
get_available_gpu_memory (sglang/srt/utils/common.py:500)
init_memory_pool (sglang/srt/model_executor/model_runner.py:1000)
"""
LOADED = "Load weight end. elapsed=5.0 s, type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=70.00 GB."
BARRIER = """
monitored_barrier (torch/distributed/distributed_c10d.py:4321)
dist_barrier_after_load (sglang/srt/model_loader/load_model_utils.py:80)
"""
READS = """
read_weights (sglang/srt/model_loader/strange.py:12)
load_model (sglang/srt/model_executor/model_runner.py:700)
"""


def told(story: Story, seconds: float) -> RunModel:
    """The model as a client has it: with the newest verdict, and dumps of the very processes of the story."""
    played = story.play(seconds)
    model = played.model
    model.fold(played.last)
    pids = {row.rank: row.pid for row in model.rank_rows()}
    model.stacks = [
        dataclasses.replace(
            dump, stacks=tuple(dataclasses.replace(one, pid=pids.get(one.rank, one.pid)) for one in dump.stacks)
        )
        for dump in model.stacks
    ]
    return model


def object_of(model: RunModel) -> dict[str, Any]:
    """As a script reads it."""
    found: dict[str, Any] = json.loads(json.dumps(diagnosis(model, None, "this machine")))
    return found


def barrier(seconds: float = 100) -> RunModel:
    """One of two ranks waits for the other in the barrier after loading, which has a clock."""
    story = Story(tp=2).up_to("weights").quiet(30).says(30, "TP0", LOADED)
    return told(story.stacks(BARRIER, "TP0").stacks(READS, "TP1"), seconds)


def test_of_nothing_everything_is_unknown() -> None:
    found = object_of(RunModel())
    assert found["clocks"] == [] and found["phase"]["expected_s"] is None and found["verdict"]["quiet_s"] is None


def test_the_countdowns_of_the_verdict_go_on_until_the_moment_of_the_look() -> None:
    model = barrier()
    assert model.verdict is not None and model.verdict.clocks
    clock, first = model.verdict.clocks[0], object_of(model)["clocks"][0]
    assert set(first) == {"name", "ends_in_s", "effect"} and first["effect"]
    assert first == {"name": clock.name, "ends_in_s": round(clock.ends_in_s, 1), "effect": clock.effect}
    model.now += 7
    assert object_of(model)["clocks"][0]["ends_in_s"] == round(clock.ends_in_s - 7, 1)
    model.now += 10_000
    assert object_of(model)["clocks"][0]["ends_in_s"] == 0.0


def test_the_verdict_has_no_second_list_of_countdowns() -> None:
    assert "clocks" not in object_of(barrier())["verdict"]


def test_what_works_has_no_countdown_beyond_its_phase_and_no_silence() -> None:
    found = object_of(told(Story(tp=2).up_to("ready"), 60))
    assert found["verdict"]["kind"] in ("ready", "serving")
    assert found["clocks"] == [] and found["verdict"]["quiet_s"] is None


def test_the_time_expected_is_that_of_earlier_runs_else_of_the_table() -> None:
    model = barrier()
    assert object_of(model)["phase"]["name"] == "weights"
    by_table = object_of(model)["phase"]["expected_s"]
    assert by_table is not None and by_table > 0
    model.fold(Expected(model.now, runs=3, usual={"weights": 21.74}, longest={"weights": 30.0}))
    assert object_of(model)["phase"]["expected_s"] == 21.7


def test_a_phase_without_an_end_is_expected_to_take_no_time_at_all() -> None:
    assert object_of(told(Story(tp=2).up_to("ready"), 60))["phase"]["expected_s"] is None


def test_each_rank_has_the_innermost_frame_of_its_main_thread() -> None:
    assert [rank["top_frame"] for rank in object_of(barrier())["ranks"]] == [
        "monitored_barrier (torch/distributed/distributed_c10d.py:4321)",
        "read_weights (sglang/srt/model_loader/strange.py:12)",
    ]


def test_an_old_dump_still_tells_where_ranks_are_that_have_not_moved_since() -> None:
    model = told(Story(tp=2).up_to("kv-pool").quiet(31).stacks(ALL_REDUCE), 300)
    assert model.now - model.stacks[-1].at > RECENT_S
    assert object_of(model)["verdict"]["quiet_s"] > RECENT_S
    assert "all_reduce" in object_of(model)["ranks"][0]["top_frame"]


def test_an_old_dump_of_ranks_that_have_moved_tells_nothing() -> None:
    model = barrier()
    assert model.verdict is not None
    model.verdict = dataclasses.replace(model.verdict, quiet_s=None)
    model.now = model.stacks[-1].at + RECENT_S + 1
    assert [rank["top_frame"] for rank in object_of(model)["ranks"]] == [None, None]


def test_a_rank_that_could_not_be_read_or_is_another_process_now_has_no_frame() -> None:
    model = barrier()
    dump = model.stacks[-1]
    stacks = [one for one in dump.stacks if one.rank is not None]
    unread = RankStack(stacks[0].pid, stacks[0].start_time, "scheduler", rank="TP0", problem="ptrace refused")
    other = dataclasses.replace(stacks[1], pid=stacks[1].pid + 1)
    model.fold(Stacks(model.now, id="other", frames=dump.frames, stacks=(unread, other)))
    assert [rank["top_frame"] for rank in object_of(model)["ranks"]] == [None, None]


def test_the_frame_of_python_is_told_where_native_ones_lie_inside_it() -> None:
    model = barrier()
    dump = model.stacks[-1]
    frames = (dataclasses.replace(dump.frames[0], function="futex_wait", native=True), *dump.frames)
    moved = tuple(
        dataclasses.replace(
            stack,
            threads=tuple(
                dataclasses.replace(thread, frames=(0, *(at + 1 for at in thread.frames))) for thread in stack.threads
            ),
        )
        for stack in dump.stacks
    )
    model.fold(Stacks(T0 + 100, id="native", native=True, frames=frames, stacks=moved))
    assert object_of(model)["ranks"][0]["top_frame"].startswith("monitored_barrier")
