"""The verdict over several nodes, from stories of each: who is named, and what nobody may be blamed for."""

from __future__ import annotations

import dataclasses

from launchmon_agent.events import Verdict
from launchmon_agent.judge.cluster import Node, judge_cluster
from tests.support.story import BUSY, DEADLOCKS, T0, Played, Story

ADDRESS = "10.0.0.1:20000"
RENDEZVOUS = """
_create_c10d_store (torch/distributed/rendezvous.py:180)
_tcp_rendezvous_handler (torch/distributed/rendezvous.py:260)
init_process_group (torch/distributed/distributed_c10d.py:1700)
"""
ALL_REDUCE = """
all_reduce (torch/distributed/distributed_c10d.py:2100)
get_available_gpu_memory (sglang/srt/utils/common.py:500)
init_memory_pool (sglang/srt/model_executor/model_runner.py:900)
"""
GATHER = """
all_gather (torch/distributed/distributed_c10d.py:3000)
capture (sglang/srt/model_executor/cuda_graph_runner.py:600)
"""


def story(number: int, address: str = ADDRESS) -> Story:
    """One of two nodes with TP0-3 and TP4-7."""
    return Story(tp=8, nnodes=2, node_rank=number, address=address)


def node(number: int, played: Played | None, **more: object) -> Node:
    if played is None:
        return Node(number, f"gpu{number}", None, **more)  # type: ignore[arg-type]
    played.model.verdict = played.last
    return Node(number, f"gpu{number}", played.model, **more)  # type: ignore[arg-type]


def over(*nodes: Node, at: float) -> Verdict:
    return judge_cluster(nodes, T0 + at)


def values(verdict: Verdict, what: str) -> list[str]:
    return [item.value for item in verdict.evidence if item.what == what]


# ------------------------------------------------------------------------------------------------------------- crashes


def crashed(number: int, at: float) -> Played:
    return story(number).up_to("kv-pool").quiet(31).dies(at, f"TP{4 * number}").play(at + 20)


def test_a_crash_on_one_node_is_the_cause_and_the_waiting_node_a_victim() -> None:
    waits = story(0).up_to("kv-pool").quiet(31).stacks(ALL_REDUCE).play(90)
    said = over(node(0, waits), node(1, crashed(1, 60)), at=90)
    assert (said.verdict, said.blames) == ("crashed", ("TP4",))
    assert said.summary.startswith("On node 1 (gpu1): ")
    assert said.summary.endswith("Node 0 is a victim.")
    assert values(said, "failed first") == ["node 1 (gpu1)"]


def test_of_two_crashes_the_earlier_is_the_cause() -> None:
    said = over(node(0, crashed(0, 70)), node(1, crashed(1, 60)), at=95)
    assert said.blames == ("TP4",)
    assert values(said, "failed after it") == ["node 0 (gpu0), 10.0 s later"]


def test_the_skew_of_the_clocks_decides_which_crash_was_earlier() -> None:
    ahead = node(1, crashed(1, 60), offset_s=+20.0)  # its clock is 20 s behind: it failed at 80
    said = over(node(0, crashed(0, 70)), ahead, at=95)
    assert said.blames == ("TP0",)
    assert values(said, "failed after it") == ["node 1 (gpu1), 10.0 s later"]


def test_a_launcher_is_blamed_with_its_node() -> None:
    failing = node(1, crashed(1, 60))
    assert failing.model is not None and failing.verdict is not None
    failing.model.verdict = dataclasses.replace(failing.verdict, blames=("launcher",))
    assert over(failing, at=90).blames == ("launcher of node 1",)


def test_a_server_that_was_stopped_on_one_node_is_missed_by_the_other() -> None:
    waits = node(0, story(0).up_to("kv-pool").quiet(31).stacks(ALL_REDUCE).play(90))
    stopped = node(1, story(1).up_to("kv-pool").play(40))
    assert stopped.model is not None and stopped.verdict is not None
    stopped.model.verdict = dataclasses.replace(stopped.verdict, verdict="stopped", blames=())
    said = over(waits, stopped, at=90)
    assert (said.verdict, said.blames) == ("rank-missing", ("node 1",))


# -------------------------------------------------------------------------------------------------------- who is absent


def alone() -> Played:
    return story(0).up_to("dist-init").quiet(17).stacks(RENDEZVOUS).play(60)


def test_a_node_without_the_run_is_what_the_rendezvous_waits_for() -> None:
    said = over(node(0, alone()), node(1, None, absent=True), at=60)
    assert (said.verdict, said.confidence, said.blames) == ("waiting-peer", "high", ("node 1",))
    assert ADDRESS in said.summary and "node 1 (gpu1)" in said.summary
    assert said.next[0].change == ("--node-rank 1",)


def test_a_node_that_does_not_answer_is_unknown_and_not_absent() -> None:
    said = over(node(0, alone()), node(1, None, problem="the link is lost"), at=60)
    assert (said.verdict, said.confidence) == ("waiting-peer", "low")
    assert "Nothing of the run is on" not in said.summary
    assert said.unknown[0] == "node 1 (gpu1): the link is lost"


def test_an_absent_node_says_nothing_while_the_other_still_loads() -> None:
    reads = story(0).up_to("weights").play(25)
    said = over(node(0, reads), node(1, None, absent=True), at=25)
    assert said.verdict not in (*DEADLOCKS, "waiting-peer")


# ------------------------------------------------------------------------------------------------- someone gets on


def test_a_node_that_still_works_makes_the_other_wait_and_nobody_dead_locked() -> None:
    waits = story(0).up_to("kv-pool").quiet(31).stacks(ALL_REDUCE).play(90)
    works = story(1).up_to("weights").rank("TP4", 20, read_bps=2e9, **BUSY).play(90)
    said = over(node(0, waits), node(1, works), at=90)
    assert said.verdict == "reading"
    assert said.summary.startswith("On node 1 (gpu1): ")
    assert said.summary.endswith("Node 0 (gpu0) waits for it.")


def test_node_0_serves_for_all() -> None:
    ready = story(0).up_to("ready").play(60)
    other = story(1).up_to("http").play(60)
    assert ready.last.verdict == "ready"
    assert over(node(0, ready), node(1, other), at=60).verdict == "ready"


# ------------------------------------------------------------------------------------------------- nobody gets on


def still(number: int, phase: str, stacks: str) -> Node:
    return node(number, story(number).up_to(phase).quiet(45).stacks(stacks).play(120))


def test_all_nodes_in_one_collective_are_a_dead_lock_over_nodes() -> None:
    said = over(still(0, "kv-pool", ALL_REDUCE), still(1, "kv-pool", ALL_REDUCE), at=120)
    assert (said.verdict, said.confidence) == ("deadlock-silent", "high")
    assert said.blames == tuple(f"TP{rank}" for rank in range(8))
    assert "8 ranks on 2 nodes" in said.summary and "all_reduce ‹ init_memory_pool" in said.summary


def test_nodes_in_different_collectives_of_one_phase_are_split_by_node() -> None:
    said = over(still(0, "kv-pool", ALL_REDUCE), still(1, "kv-pool", GATHER), at=120)
    assert said.verdict == "deadlock-divergent"
    assert "node 0 in all_reduce ‹ init_memory_pool and node 1 in all_gather ‹ capture" in said.summary


def test_a_node_in_an_earlier_phase_is_behind() -> None:
    said = over(still(0, "kv-pool", ALL_REDUCE), still(1, "weights", GATHER), at=120)
    assert (said.verdict, said.blames) == ("one-behind", ("TP4", "TP5", "TP6", "TP7"))
    assert "still in weights" in said.summary


def test_all_nodes_in_the_rendezvous_with_one_address_do_not_reach_each_other() -> None:
    said = over(still(0, "dist-init", RENDEZVOUS), still(1, "dist-init", RENDEZVOUS), at=120)
    assert (said.verdict, said.confidence) == ("waiting-peer", "medium")
    assert "firewall" in said.summary


def test_different_rendezvous_addresses_are_named() -> None:
    other = node(1, story(1, "10.0.0.2:20000").up_to("dist-init").quiet(45).stacks(RENDEZVOUS).play(120))
    said = over(still(0, "dist-init", RENDEZVOUS), other, at=120)
    assert said.confidence == "high"
    assert "10.0.0.1:20000 and 10.0.0.2:20000" in said.summary


def test_a_silence_that_nobody_could_watch_has_no_length() -> None:
    nodes = [node(n, story(n).up_to("kv-pool").quiet(31).stacks(ALL_REDUCE).play(90)) for n in (0, 1)]
    for one in nodes:
        assert one.model is not None
        one.model.log = None
    said = over(*nodes, at=90)
    assert said.summary.startswith("8 ranks on 2 nodes have done nothing, all in all_reduce")


def test_two_healthy_nodes_are_never_called_dead_locked_at_any_second() -> None:
    first, second = (story(number).up_to("ready" if number == 0 else "http").play(60) for number in (0, 1))
    for (at, one), (_, other) in zip(first.verdicts, second.verdicts, strict=False):
        views = (node(0, first), node(1, second))
        assert views[0].model is not None and views[1].model is not None
        views[0].model.verdict, views[1].model.verdict = one, other
        assert over(*views, at=at).verdict not in (*DEADLOCKS, "crashed", "one-behind", "rank-missing")


def test_one_node_alone_keeps_its_own_verdict() -> None:
    played = alone()
    assert over(node(0, played), at=60).verdict == played.last.verdict
