"""The ring: what each collective hands to whom, and what a dead or disagreeing peer does to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from launchmon.demo.engine.distributed_c10d import (
    ProcessGroup,
    _create_c10d_store,
    all_reduce,
    barrier,
    broadcast,
    monitored_barrier,
)


@pytest.fixture
def ring() -> Iterator[list[ProcessGroup]]:
    """Four ranks. The time limit turns a test that would block for ever into a failure."""
    pairs = [socket.socketpair() for _ in range(4)]
    for pair in pairs:
        for end in pair:
            end.settimeout(10)
    yield [ProcessGroup(rank, 4, pairs[rank - 1][1], pairs[rank][0]) for rank in range(4)]
    for pair in pairs:
        pair[0].close()
        pair[1].close()


def together(ring: list[ProcessGroup], call: Callable[[ProcessGroup], Any]) -> list[Any]:
    """What ``call`` returned or raised on each rank, all ranks at once."""
    results: dict[int, Any] = {}

    def run(group: ProcessGroup) -> None:
        try:
            results[group.rank] = call(group)
        except (RuntimeError, TimeoutError) as error:
            results[group.rank] = error

    threads = [threading.Thread(target=run, args=(group,)) for group in ring]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[group.rank] for group in ring]


def test_all_reduce_gives_everybody_the_smallest(ring: list[ProcessGroup]) -> None:
    assert together(ring, lambda group: all_reduce([3.0, 1.5, 2.0, 9.0][group.rank], group)) == [1.5] * 4


def test_broadcast_gives_everybody_the_leaders(ring: list[ProcessGroup]) -> None:
    assert together(ring, lambda group: broadcast(f"from {group.rank}".encode(), group)) == [b"from 0"] * 4


def test_broadcast_of_nothing(ring: list[ProcessGroup]) -> None:
    assert together(ring, lambda group: broadcast(b"" if group.rank == 0 else b"ignored", group)) == [b""] * 4


@pytest.mark.parametrize("meet", [barrier, monitored_barrier, _create_c10d_store], ids=lambda meet: meet.__name__)
def test_nobody_leaves_before_all_have_come(ring: list[ProcessGroup], meet: Callable[[ProcessGroup], None]) -> None:
    came: list[int] = []
    seen: list[int] = []

    def call(group: ProcessGroup) -> None:
        came.append(group.rank)
        meet(group)
        seen.append(len(came))

    together(ring, call)
    assert seen == [4] * 4


def test_collectives_can_follow_each_other(ring: list[ProcessGroup]) -> None:
    def call(group: ProcessGroup) -> tuple[float, bytes]:
        barrier(group)
        smallest = all_reduce(float(group.rank + 1), group)
        return smallest, broadcast(b"x", group)

    assert together(ring, call) == [(1.0, b"x")] * 4


@pytest.mark.parametrize(
    "call",
    [
        barrier,
        monitored_barrier,
        _create_c10d_store,
        lambda group: all_reduce(1.0, group),
        lambda g: broadcast(b"x", g),
    ],
)
def test_a_dead_peer_is_an_error_on_the_others(ring: list[ProcessGroup], call: Callable[[ProcessGroup], Any]) -> None:
    dead = ring.pop(2)
    for end in (dead.predecessor, dead.successor):
        assert end is not None
        end.close()

    def dying(group: ProcessGroup) -> None:
        try:
            call(group)
        finally:  # as when the process of a failed rank ends
            for end in (group.predecessor, group.successor):
                assert end is not None
                end.close()

    results = together(ring, dying)
    assert all(isinstance(result, RuntimeError) and "Connection closed by peer" in str(result) for result in results)


def test_disagreeing_on_the_leader_blocks_everybody(ring: list[ProcessGroup]) -> None:
    for group in ring:
        assert group.predecessor is not None
        group.predecessor.settimeout(0.05)
    results = together(ring, lambda group: all_reduce(1.0, group.led_by((group.rank + 1) % 4)))
    assert all(isinstance(result, TimeoutError) for result in results)


def test_a_group_of_one_never_waits() -> None:
    alone = ProcessGroup(0, 1, None, None)
    barrier(alone)
    monitored_barrier(alone)
    _create_c10d_store(alone)
    assert all_reduce(2.0, alone) == 2.0
    assert broadcast(b"x", alone) == b"x"
