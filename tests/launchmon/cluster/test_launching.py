"""The command of each node."""

from __future__ import annotations

import pytest

from launchmon.cluster.launching import commands
from launchmon.connect.target import ssh, via
from launchmon_agent.errors import Refused

ARGV = ("python", "-m", "sglang.launch_server", "--model-path", "m", "--tp", "16")


def test_each_node_gets_its_rank_and_all_the_same_rest() -> None:
    first, second = commands(ARGV, [ssh("root@10.0.0.1"), ssh("root@10.0.0.2")])
    assert first == (*ARGV, "--nnodes", "2", "--dist-init-addr", "10.0.0.1:20000", "--node-rank", "0")
    assert second == (*first[:-1], "1")


@pytest.mark.parametrize(
    ("spec", "address"),
    [
        ("10.0.0.1", "10.0.0.1:20000"),
        ("root@10.0.0.1:2222", "10.0.0.1:20000"),
        ("gpu7.cluster.example:22", "gpu7.cluster.example:20000"),
        ("root@[fd00::1]:22", "[fd00::1]:20000"),
        ("fd00::1", "[fd00::1]:20000"),
    ],
)
def test_the_rendezvous_is_at_the_address_of_the_first_target(spec: str, address: str) -> None:
    assert address in commands(ARGV, [ssh(spec), ssh("10.0.0.9")])[1]


@pytest.mark.parametrize("first", [ssh("gpu-box"), ssh("root@gpu-box:22"), via("docker exec -i sgl")])
def test_an_alias_is_no_address_for_other_nodes(first: object) -> None:
    with pytest.raises(Refused, match="at which address") as refused:
        commands(ARGV, [first, ssh("10.0.0.2")])  # type: ignore[list-item]
    assert "--dist-init-addr" in refused.value.try_


@pytest.mark.parametrize("given", [("--dist-init-addr", "node0:5000"), ("--dist-init-addr=node0:5000",)])
def test_what_the_command_says_is_kept(given: tuple[str, ...]) -> None:
    first, _ = commands((*ARGV, *given, "--nnodes", "2"), [ssh("alias"), ssh("other")])
    assert first == (*ARGV, *given, "--nnodes", "2", "--node-rank", "0")


def test_a_contradiction_is_refused() -> None:
    with pytest.raises(Refused, match="--nnodes 4, and 2 targets"):
        commands((*ARGV, "--nnodes=4"), [ssh("10.0.0.1"), ssh("10.0.0.2")])
    with pytest.raises(Refused, match="--node-rank"):
        commands((*ARGV, "--node-rank", "0"), [ssh("10.0.0.1"), ssh("10.0.0.2")])
