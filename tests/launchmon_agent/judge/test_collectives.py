"""Late ranks by NCCL's counts, and what must not be taken for late."""

from __future__ import annotations

import dataclasses

from launchmon_agent.events import CollectiveRank, Communicator, Ras
from launchmon_agent.judge.collectives import late_ranks, silent_ranks


def ranks(*counts: int, name: str = "AllReduce", first_pid: int = 100) -> tuple[CollectiveRank, ...]:
    return tuple(
        CollectiveRank(rank, "10.0.0.1", first_pid + rank, True, rank, "running", {name: count})
        for rank, count in enumerate(counts)
    )


def ras(at: float, *communicators: Communicator, **more: str) -> Ras:
    return Ras(at, communicators=communicators, **{"answered": str(at), **more})


def one(*counts: int, id_: str = "a", **more: object) -> Communicator:
    return Communicator(id_, len(counts), ranks(*counts, **more))  # type: ignore[arg-type]


def test_counts_that_stand_still_and_differ_name_the_late_rank() -> None:
    (late,) = late_ranks(ras(1, one(9, 9, 7, 9)), ras(6, one(9, 9, 7, 9)))
    assert (late.rank, late.pid, late.collective, late.launched, late.most) == (2, 102, "AllReduce", 7, 9)
    assert late.ahead_in == ()


def test_the_one_furthest_behind_comes_first() -> None:
    answer = (one(9, 8, 3, 9),)
    assert [late.rank for late in late_ranks(ras(1, *answer), ras(6, *answer))] == [2, 1]


def test_equal_counts_name_nobody() -> None:
    assert late_ranks(ras(1, one(9, 9)), ras(6, one(9, 9))) == ()


def test_a_moving_communicator_names_nobody() -> None:
    assert late_ranks(ras(1, one(9, 8)), ras(6, one(10, 9))) == ()
    assert late_ranks(ras(1, one(9, 8)), ras(6, one(9, 9))) == ()


def test_members_that_move_in_another_communicator_are_alive() -> None:
    stands = one(9, 8)
    assert late_ranks(ras(1, stands, one(1, 1, id_="b")), ras(6, stands, one(2, 2, id_="b"))) == ()


def test_another_replica_that_moves_proves_nothing() -> None:
    stands, other = one(9, 8), one(1, 1, id_="b", first_pid=200)
    moved = one(2, 2, id_="b", first_pid=200)
    assert [late.rank for late in late_ranks(ras(1, stands, other), ras(6, stands, moved))] == [1]


def test_ranks_on_different_ways_are_each_late_in_the_others_collective() -> None:
    def split(gathers: int, reduces: int, rank: int) -> CollectiveRank:
        return CollectiveRank(
            rank, "h", 100 + rank, True, rank, "running", {"AllGather": gathers, "AllReduce": reduces}
        )

    answer = Communicator("a", 3, (split(6, 10, 0), split(5, 11, 1), split(5, 11, 2)))
    lates = late_ranks(ras(1, answer), ras(6, answer))
    assert {(late.rank, late.collective, late.ahead_in) for late in lates} == {
        (0, "AllReduce", ("AllGather",)),
        (1, "AllGather", ("AllReduce",)),
        (2, "AllGather", ("AllReduce",)),
    }


def test_the_same_answer_twice_says_nothing() -> None:
    first = ras(1, one(9, 8), answered="18:00:00")
    assert late_ranks(first, ras(6, one(9, 8), answered="18:00:00")) == ()
    assert late_ranks(first, first) == ()
    assert late_ranks(ras(6, one(9, 8)), ras(1, one(9, 8))) == ()


def test_an_answer_without_a_time_is_taken_as_new() -> None:
    first, second = (dataclasses.replace(ras(at, one(9, 8)), answered=None) for at in (1, 6))
    assert len(late_ranks(first, second)) == 1


def test_answers_with_an_error_say_nothing() -> None:
    assert late_ranks(ras(1, one(9, 8), error="x"), ras(6, one(9, 8))) == ()
    assert late_ranks(ras(1, one(9, 8)), ras(6, one(9, 8), error="x")) == ()


def test_a_communicator_that_was_not_there_before_says_nothing() -> None:
    assert late_ranks(ras(1, one(9, 8, id_="old")), ras(6, one(9, 8, id_="new"))) == ()


def test_a_rank_that_tells_no_counts_is_not_late_but_silent() -> None:
    quiet = CollectiveRank(2, "h", 102, True, 2, "no-answer")
    gone = CollectiveRank(3, "h", 103, True, 3, "dead")
    answer = Communicator("a", 4, (*ranks(9, 9), quiet, gone))
    assert late_ranks(ras(1, answer), ras(6, answer)) == ()
    assert silent_ranks(ras(6, answer)) == (quiet, gone)
