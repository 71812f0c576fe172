"""What is said beside a failure or a stall: orphans that hold memory or a port, low limits. And when nothing is."""

from __future__ import annotations

import dataclasses

import pytest

from launchmon_agent.events import LAUNCHER, Evidence, GpuProcess, Leftovers, Next, Orphan, Verdict
from tests.support.story import GIB, T0, Story

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
TAKEN = "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): address already in use"
MEETING = "torch.distributed.DistNetworkError: The server socket failed to listen. port: 28001, code: -98, EADDRINUSE"
ORPHANS = (
    Orphan(41, T0 - 5000, "sglang::scheduler_TP0", (28001,)),
    Orphan(42, T0 - 5000, "sglang::scheduler_TP1"),
)
HUNG = """
all_reduce (torch/distributed/distributed_c10d.py:2100)
init_memory_pool (sglang/srt/model_executor/model_runner.py:900)
"""


def orphaned(told: Story, *orphans: Orphan) -> Story:
    return told.event(Leftovers(T0 + 1, orphans or ORPHANS))


def fails(told: Story, at: float, who: str, last_line: str) -> Verdict:
    told.says(at, who, "Scheduler hit an exception: Traceback (most recent call last):")
    told.bare(at, f'  File "scheduler.py", line 1, in run\n    work()\n{last_line}\n')
    for name in told.ranks:
        told.dies(at + 1, name)
    return told.dies(at + 1, LAUNCHER).play(at + 20).last


def limited(told: Story, **limits: int) -> Story:
    named = {name.replace("_", "-"): value for name, value in limits.items()}
    return told.event(dataclasses.replace(told.run, at=T0 + 2, limits=named))


def of(verdict: Verdict, what: str) -> list[str]:
    return [item.value for item in verdict.evidence if item.what == what]


# ----------------------------------------------------------------------------------------------------------- GPU memory


def test_memory_that_orphans_hold_is_the_reason_and_they_are_to_be_ended_first() -> None:
    told = orphaned(Story(tp=2).up_to("weights"))
    told.gpu(0, 0, processes=(GpuProcess(200, 9 * GIB), GpuProcess(41, 60 * GIB)))
    told.gpu(1, 0, processes=(GpuProcess(201, 9 * GIB), GpuProcess(42, 60 * GIB)))
    verdict = fails(told, 25, "TP1", OOM)
    assert verdict.verdict == "crashed"
    words = "120 GiB of GPU memory are held by 2 processes of an earlier launch (pid 41, 42), whose launcher is dead."
    assert words in verdict.summary
    assert verdict.next[0].do == "run" and verdict.next[0].change == ("launchmon kill --pid 41",)
    assert of(verdict, "left by an earlier launch") == [
        "pid 41, sglang::scheduler_TP0, 60 GiB of GPU memory, port 28001",
        "pid 42, sglang::scheduler_TP1, 60 GiB of GPU memory",
    ]


def test_memory_of_somebody_elses_work_is_named_and_nobody_is_to_be_ended() -> None:
    told = Story(tp=2).up_to("weights").gpu(1, 0, processes=(GpuProcess(201, 9 * GIB), GpuProcess(7777, 61 * GIB)))
    verdict = fails(told, 25, "TP1", OOM)
    assert "61 GiB of GPU 1 are held by pid 7777, not of this run." in verdict.summary
    assert not any("kill" in part for step in verdict.next for part in step.change)


def test_without_memory_of_others_nothing_is_said_of_them() -> None:
    told = orphaned(Story(tp=2).up_to("weights")).gpu(1, 0, processes=(GpuProcess(201, 90 * GIB),))
    verdict = fails(told, 25, "TP1", OOM)
    assert "earlier launch" not in verdict.summary and "not of this run" not in verdict.summary


def test_in_a_container_whose_pids_are_not_nvmls_nobody_is_accused() -> None:
    told = Story(tp=2).up_to("weights").all(6, gpu_mapped_by="order")
    told.gpu(1, 0, processes=(GpuProcess(99201, 60 * GIB),))
    assert "not of this run" not in fails(told, 25, "TP1", OOM).summary


# ---------------------------------------------------------------------------------------------------------------- ports


def test_an_orphan_that_holds_the_rendezvous_port_is_named() -> None:
    verdict = fails(orphaned(Story(tp=2).up_to("dist-init")), 18, "TP0", MEETING)
    words = "Port 28001 is held by sglang::scheduler_TP0 of an earlier launch (pid 41), whose launcher is dead."
    assert words in verdict.summary
    assert verdict.next[0].change == ("launchmon kill --pid 41",)


def test_another_port_than_the_orphans_is_not_theirs() -> None:
    verdict = fails(orphaned(Story(tp=2).up_to("dist-init")), 18, "TP0", MEETING.replace("28001", "28007"))
    assert "earlier launch" not in verdict.summary


def test_who_has_the_servers_port_is_named() -> None:
    told = Story(tp=1).up_to("http").http(40, listening=True, ours=False, owner_pid=4711)
    verdict = told.bare(44, TAKEN).dies(45, LAUNCHER, 1).play(60).last
    assert "Port 30000 is held by pid 4711, not of this run." in verdict.summary


# --------------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("OSError: [Errno 24] Too many open files", "At most 1024 files may be open (ulimit -n)."),
        ("RuntimeError: ibv_reg_mr failed", "At most 64 KiB may be locked in memory (ulimit -l)."),
    ],
)
def test_the_limit_that_was_met_is_told_with_its_number(line: str, words: str) -> None:
    told = limited(Story(tp=2).up_to("weights"), open_files=1024, locked_memory=65536)
    assert words in fails(told, 25, "TP1", line).summary
    assert words not in fails(Story(tp=2).up_to("weights"), 25, "TP1", line).summary


def test_another_failure_does_not_speak_of_limits() -> None:
    told = limited(Story(tp=2).up_to("weights"), open_files=1024, locked_memory=65536)
    assert "ulimit" not in fails(told, 25, "TP1", "ValueError: no").summary


# --------------------------------------------------------------------------------------------------------------- stalls


def test_a_stall_tells_what_was_left_behind() -> None:
    verdict = orphaned(Story(tp=2).up_to("kv-pool").quiet(31).stacks(HUNG)).play(70).last
    assert verdict.verdict == "deadlock-silent"
    assert of(verdict, "left by an earlier launch")[0] == "pid 41, sglang::scheduler_TP0, port 28001"


def test_several_nodes_that_stand_still_are_told_of_a_low_limit_on_locked_memory() -> None:
    told = limited(Story(tp=4, nnodes=2, address="10.0.0.1:20000").up_to("dist-init").quiet(17), locked_memory=65536)
    verdict = told.play(60).last
    assert verdict.verdict == "waiting-peer"
    limit = "At most 64 KiB may be locked in memory (ulimit -l). InfiniBand and RoCE need it unlimited."
    assert of(verdict, "limit") == [limit]
    assert of(limited(Story(tp=2).up_to("kv-pool").quiet(31), locked_memory=65536).play(70).last, "limit") == []


@pytest.mark.parametrize(("files", "said"), [(1024, 1), (65535, 0)])
def test_a_server_that_answers_nobody_is_told_how_few_files_it_may_open(files: int, said: int) -> None:
    told = limited(Story(tp=2).up_to("ready"), open_files=files).beat(46, running=0, waiting=0, age_s=0.0)
    told.beat(60, running=4, waiting=9, stopped_at=60).quiet(60)
    verdict = told.play(110).last
    assert verdict.verdict == "hung-serving"
    assert len(of(verdict, "limit")) == said


@pytest.mark.parametrize("phase", ["weights", "graphs", "ready"])
def test_a_healthy_launch_beside_orphans_is_judged_as_without(phase: str) -> None:
    def play(told: Story) -> list[tuple[str, tuple[Evidence, ...], tuple[Next, ...]]]:
        return [(said.verdict, said.evidence, said.next) for _, said in told.play(60).verdicts]

    assert play(limited(orphaned(Story(tp=2).up_to(phase)), open_files=1024, locked_memory=65536)) == play(
        Story(tp=2).up_to(phase)
    )
