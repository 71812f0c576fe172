"""Which network NCCL took, read from the log of each node."""

from __future__ import annotations

import pytest

from launchmon_agent.events import Evidence
from launchmon_agent.judge.cluster import Node, judge_cluster
from launchmon_agent.judge.networks import differing, network_of
from tests.support.story import T0, Played, Story

IB = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>"
NO_IB = "NET/IB : No device found."
SOCKET = "NET/Socket : Using [0]eth0:10.0.0.2<0>"
OTHER_SOCKET = "NET/Socket : Using [0]docker0:172.17.0.1<0>"


def played(number: int, *said: str) -> Played:
    story = Story(tp=4, nnodes=2, node_rank=number, address="10.0.0.1:20000").up_to("kv-pool").quiet(31)
    for line in said:
        story.bare(18, f"node{number}:4472:4510 [0] NCCL INFO {line}")
    return story.play(100)


@pytest.mark.parametrize(
    ("said", "network"),
    [
        ((), None),
        ((NO_IB,), None),
        ((IB, "Using network IB"), "IB over mlx5_0, mlx5_1"),
        ((NO_IB, SOCKET, "Using network Socket"), "Socket over eth0"),
        ((SOCKET,), "Socket over eth0"),
        (("Using network AWS",), "AWS"),
        ((IB, SOCKET, "Using network IB", "Using network IB"), "IB over mlx5_0, mlx5_1"),
    ],
)
def test_the_network_that_a_node_took(said: tuple[str, ...], network: str | None) -> None:
    assert network_of(played(0, *said).model) == network


def test_addresses_alone_are_no_difference() -> None:
    first, second = (played(number, f"NET/Socket : Using [0]eth0:10.0.0.{number}<0>").model for number in (0, 1))
    assert differing({0: first, 1: second}) == {}


def test_a_node_that_does_not_say_it_is_no_difference() -> None:
    assert differing({0: played(0, SOCKET).model, 1: played(1).model}) == {}


@pytest.mark.parametrize("other", [SOCKET, OTHER_SOCKET], ids=["transport", "interface"])
def test_a_dead_lock_over_nodes_with_different_networks_says_so(other: str) -> None:
    mine = IB if other == SOCKET else SOCKET
    nodes = []
    for number, said in ((0, mine), (1, other)):
        story = played(number, said)
        story.model.fold(story.last)
        nodes.append(Node(number, f"gpu{number}", story.model))
    verdict = judge_cluster(nodes, T0 + 100)
    assert verdict.verdict.startswith("deadlock")
    told = [(item.what, item.value) for item in verdict.evidence[:2]]
    networks = [str(network_of(node.model)) for node in nodes if node.model is not None]
    assert told == [("NCCL's network on node 0", networks[0]), ("NCCL's network on node 1", networks[1])]
    assert networks[0] != networks[1]


def test_nodes_with_one_network_have_no_such_evidence() -> None:
    nodes = []
    for number in (0, 1):
        story = played(number, SOCKET)
        story.model.fold(story.last)
        nodes.append(Node(number, f"gpu{number}", story.model))
    evidence: tuple[Evidence, ...] = judge_cluster(nodes, T0 + 100).evidence
    assert not any("network" in item.what for item in evidence)
