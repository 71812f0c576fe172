"""Both forms of a RAS answer, and what is no answer."""

from __future__ import annotations

import json

import pytest

from launchmon_agent.codec import decode, encode
from launchmon_agent.events import CollectiveRank, Communicator, Ras
from launchmon_agent.sensors.ras_answer import Unreadable, parse
from tests.support.fake_ras import HASH, json_answer, json_missing, json_rank, text_answer

LONG_HASH = "00005bd3c1e2a0f4"


def read(text: str) -> Ras:
    return parse(text, 100.0, "localhost:1", lambda host, pid: None if pid is None else pid < 1000)


def only(said: Ras) -> Communicator:
    (one,) = said.communicators
    return one


# ----------------------------------------------------------------------------------------------------------------- JSON


def test_json_tells_every_rank_with_its_counts() -> None:
    said = read(json_answer({HASH: [json_rank(1, 12, AllReduce=9, AllGather=2), json_rank(0, 11, AllReduce=8)]}))
    assert (said.nccl, said.form, said.answered, said.timeouts) == ("2.28.9", "json", "2026-11-29 18:00:00", 0)
    one = only(said)
    assert (one.id, one.size) == (LONG_HASH, 2)
    first, second = one.ranks
    assert (first.rank, first.pid, first.host, first.ours, first.gpu, first.state) == (
        *(0, 11, "127.0.0.1", True, 0),
        "running",
    )
    assert second.counts == {"Broadcast": 0, "Reduce": 0, "AllGather": 2, "ReduceScatter": 0, "AllReduce": 9}


@pytest.mark.parametrize(
    "status, state",
    [
        ({}, "running"),
        ({"init_state": 7}, "init"),
        ({"init_state": 2}, "error"),
        ({"async_error": 6}, "error"),
        ({"async_error": 7}, "running"),
        ({"finalize_called": True}, "finalize"),
        ({"destroy_flag": True}, "finalize"),
        ({"abort_flag": True, "async_error": 6}, "abort"),
    ],
)
def test_states(status: dict[str, object], state: str) -> None:
    assert only(read(json_answer({HASH: [json_rank(0, 11, **status)]}))).ranks[0].state == state


@pytest.mark.parametrize(
    "missing, state",
    [
        (json_missing(1, 12), "no-answer"),
        (json_missing(1, 12, dead=True), "dead"),
        (json_missing(1, 12, unresponsive=False), "no-communicator"),
    ],
)
def test_missing_ranks(missing: dict[str, object], state: str) -> None:
    one = only(read(json_answer({HASH: [json_rank(0, 11)]}, {HASH: [missing]})))
    assert [(rank.rank, rank.state) for rank in one.ranks] == [(0, "running"), (1, state)]
    assert one.ranks[1].counts == {}


def test_a_comma_that_is_missing_between_lines_is_put_in() -> None:
    whole = json_answer({HASH: [json_rank(0, 11)]}, {HASH: [json_missing(1, 12), json_missing(2, 13)]})
    lines = whole.splitlines()
    torn = [
        "\n".join((*lines[:place], line.removesuffix(","), *lines[place + 1 :]))
        for place, line in enumerate(lines)
        if line.endswith(",") and "communicators" not in line
    ]
    assert len(torn) > 30
    for text in torn:
        with pytest.raises(ValueError):
            json.loads(text)
        assert read(text) == read(whole)


def test_a_process_that_nccl_does_not_know_is_not_known() -> None:
    rank = only(read(json_answer({HASH: [json_rank(0, -1, host="unknown")]}))).ranks[0]
    assert (rank.host, rank.pid, rank.ours) == (None, None, None)


def test_no_communicators_is_an_answer() -> None:
    assert read(json_answer({})).communicators == ()


# ----------------------------------------------------------------------------------------------------------------- text


def test_text_in_which_all_agree_names_nobody() -> None:
    said = read(text_answer())
    assert (said.nccl, said.form, said.communicators, said.timeouts) == ("2.27.5+cuda12.9", "text", (), 0)


MISMATCH = """\
#0-0 (00005bd3c1e2a0f4) MISMATCH
  Communicator ranks have different AllGather operation counts
  3 ranks have launched up to operation 7
  Rank 2 has not launched any operations -- GPU 2 managed by process 13 on node 127.0.0.1

  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 120
  Rank 2 has launched up to operation 119 -- GPU 0 (NVML 2) managed by process 13 on node 127.0.0.1

"""


def test_text_tells_counts_where_they_differ() -> None:
    one = only(read(text_answer(warnings=MISMATCH, what="MISMATCH")))
    assert (one.id, one.size) == (LONG_HASH, 4)
    assert [rank.counts for rank in one.ranks] == [
        {"AllGather": 7, "AllReduce": 120},
        {"AllGather": 7, "AllReduce": 120},
        {"AllGather": 0, "AllReduce": 119},
        {"AllGather": 7, "AllReduce": 120},
    ]
    late = one.ranks[2]
    assert (late.pid, late.host, late.gpu, late.ours) == (13, "127.0.0.1", 2, True)
    assert one.ranks[0].pid is None and one.ranks[0].ours is None


def test_text_names_small_groups_and_leaves_the_large_one_unnamed() -> None:
    warnings = """\
#0-0 (00005bd3c1e2a0f4) MISMATCH
  Communicator ranks have different AllReduce operation counts
  6 ranks have launched up to operation 50
  2 ranks have launched up to operation 49
  Rank 3 -- GPU 3 managed by process 14 on node 127.0.0.1
  Rank 5 -- GPU 5 managed by process 16 on node 127.0.0.1

"""
    one = only(read(text_answer(warnings=warnings, size=8)))
    assert [rank.counts["AllReduce"] for rank in one.ranks] == [50, 50, 50, 49, 50, 49, 50, 50]


def test_two_groups_of_which_neither_is_named_tell_nothing_of_single_ranks() -> None:
    warnings = """\
#0-0 (00005bd3c1e2a0f4) MISMATCH
  Communicator ranks have different AllReduce operation counts
  2 ranks have launched up to operation 50
  2 ranks have launched up to operation 49

"""
    assert only(read(text_answer(warnings=warnings))).ranks == ()


def test_text_tells_states_that_differ() -> None:
    warnings = """\
#0-0 (00005bd3c1e2a0f4) MISMATCH
  Communicator ranks have different status
  3 ranks have status RUNNING
  Rank 1 has status INIT -- GPU 1 managed by process 12 on node 127.0.0.1
  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 5
  Rank 1 has not launched any operations -- GPU 1 managed by process 12 on node 127.0.0.1

"""
    one = only(read(text_answer(warnings=warnings)))
    assert {rank.rank: rank.state for rank in one.ranks} == {0: None, 1: "init", 2: None, 3: None}
    assert [rank.counts["AllReduce"] for rank in one.ranks] == [5, 0, 5, 5]


def test_text_tells_who_did_not_answer_and_who_is_given_up() -> None:
    errors = """\
INCOMPLETE
  Missing communicator data from 1 job process
  Process 13 on node 127.0.0.1 managing GPU 2

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 14 on node 127.0.0.1 managing GPU 3

#0-0 (00005bd3c1e2a0f4) INCOMPLETE
  Missing communicator data from 2 ranks
  Rank 2 -- GPU 2 managed by process 13 on node 127.0.0.1
  Rank 3 -- GPU 3 managed by process 14 on node 127.0.0.1

"""
    warnings = "TIMEOUT\n  Encountered 2 communication timeouts while gathering communicator data\n\n"
    said = read(text_answer(errors, warnings, what="INCOMPLETE"))
    assert said.timeouts == 2
    assert [(rank.rank, rank.state) for rank in only(said).ranks] == [(2, "no-answer"), (3, "dead")]


def test_text_tells_errors() -> None:
    errors = """\
#0-0 (00005bd3c1e2a0f4) ERROR
  Asynchronous errors on 3 ranks
  2 ranks reported Remote process error
  Rank 0 -- GPU 0 managed by process 11 on node 127.0.0.1
  Rank 1 -- GPU 1 managed by process 12 on node 127.0.0.1
  Rank 3 reported System error -- [process information not found]

"""
    one = only(read(text_answer(errors, what="ERROR")))
    assert [(rank.rank, rank.state, rank.pid) for rank in one.ranks] == [
        (0, "error", 11),
        (1, "error", 12),
        (3, "error", None),
    ]


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "empty"),
        ("ERROR: Unknown command verbose status\n", "no status"),
        ("HTTP/1.1 400 Bad Request\r\n", "no status"),
        ("{", "no JSON"),
        ('{"communicators": 3}', "without communicators"),
    ],
)
def test_what_is_no_answer(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        read(text)


def test_a_damaged_answer_gives_what_is_whole_in_it() -> None:
    said = json.loads(json_answer({HASH: [json_rank(0, 11, AllReduce=3)]}))
    said["communicators"][0]["ranks"][0]["collective_counts"]["Reduce"] = "many"
    said["communicators"][0]["ranks"][0]["pid"] = None
    said["communicators"][0]["missing_ranks"] = None
    said["ras"] = []
    rank = only(read(json.dumps(said))).ranks[0]
    assert (rank.pid, rank.counts["AllReduce"], "Reduce" in rank.counts) == (None, 3, False)


def test_the_event_survives_its_way() -> None:
    said = read(text_answer(warnings=MISMATCH))
    assert decode(encode(said)) == said
    assert isinstance(said.communicators[0].ranks[0], CollectiveRank)
