"""A server that is up: idle, at work, or hung."""

from __future__ import annotations

from tests.support.story import BUSY, GPU_SPINS, IDLE, Played, Story

IN_TIME_S = 30.0
HEALTHY = {"starting", "reading", "ready", "serving"}
BROADCAST = """
broadcast (torch/distributed/distributed_c10d.py:2800)
broadcast_pyobj (sglang/srt/utils/common.py:1000)
recv_requests (sglang/srt/managers/scheduler.py:1200)
event_loop_overlap (sglang/srt/managers/scheduler.py:800)
"""


def hangs_in_time(played: Played, stuck_at: float) -> None:
    first = played.first("hung-serving")
    assert first <= stuck_at + IN_TIME_S
    assert played.kinds_until(first) <= HEALTHY
    assert {verdict.verdict for at, verdict in played.verdicts if at >= first} == {"hung-serving"}


def serving(tp: int = 2, *, gpus: bool = True) -> Story:
    return Story(tp=tp, gpus=gpus).up_to("ready").beat(50, age_s=0.1, running=0, waiting=0)


def test_a_heart_that_stands_still_beside_idle_ranks_is_a_hang() -> None:
    told = serving().quiet(60).all(60, tree_cpu_percent=2.0).beat(60, stopped_at=60.0).stacks(BROADCAST)
    played = told.play(120)
    hangs_in_time(played, 60)
    assert played.last.confidence == "high"
    assert "has not turned for" in played.last.summary
    assert played.stalls, "the stacks are looked at before anyone asks"


def test_a_heart_that_stands_still_beside_gpus_that_spin_is_a_hang_too() -> None:
    told = serving(8).beat(60, running=1, stopped_at=60.0).all(60, **BUSY).gpu(None, 60, **GPU_SPINS)
    played = told.play(120)
    hangs_in_time(played, 60)


def test_the_same_frames_in_an_idle_server_are_none() -> None:
    told = Story(tp=2).up_to("ready").all(50, **BUSY).beat(50, age_s=0.0, running=0).stacks(BROADCAST)
    assert told.play(200).kinds <= HEALTHY


def test_a_rank_that_is_stopped_while_serving_is_found_by_its_state() -> None:
    told = serving().rank("TP1", 60, **{**IDLE, "state": "T"}).quiet(60, "TP0").rank("TP1", 61, state="T")
    played = told.beat(60, stopped_at=60.0).play(100)
    hangs_in_time(played, 60)
    assert played.first("hung-serving") <= 65
    assert (played.last.blames, played.last.confidence) == (("TP1",), "high")
    assert [step.change for step in played.last.next] == [("kill -CONT 201",)], "no flag cures this"
    assert not any(item.what == "ends by itself" for item in played.last.evidence), "the watchdog counts in a batch"


def test_a_rank_that_is_continued_serves_again() -> None:
    told = serving().rank("TP1", 60, **{**IDLE, "state": "T"}).beat(60, stopped_at=60.0)
    played = told.rank("TP1", 80, **BUSY).beat(80, stopped_at=None, age_s=0.1).play(100)
    assert played.last.verdict == "ready"


def test_requests_that_stand_still_are_a_hang_where_there_is_no_heartbeat() -> None:
    told = Story(tp=2).up_to("ready").http(55, running=1, queued=0).http(60, running=4, queued=2).quiet(60)
    played = told.play(120)
    hangs_in_time(played, 60)
    assert played.last.confidence == "medium"
    assert "4 running and 2 queued requests have made no progress" in played.last.summary


def test_requests_that_move_are_none() -> None:
    told = Story(tp=2).up_to("ready").quiet(50)
    for at in range(50, 200, 10):
        told.http(at, running=4 + at % 20, queued=0)
    assert told.play(200).kinds <= HEALTHY


def test_without_requests_silence_means_nothing() -> None:
    assert Story(tp=2).up_to("ready").http(50, running=0, queued=0).quiet(50).play(300).kinds <= HEALTHY


def test_a_heartbeat_makes_ready_certain_where_no_endpoint_may_be_asked() -> None:
    played = serving().http(43, model_info=401).play(80)
    assert (played.last.verdict, played.last.confidence) == ("ready", "high")


def test_the_verdict_of_an_idle_server_does_not_change_from_second_to_second() -> None:
    played = serving().play(300)
    texts = {(v.summary, v.evidence, v.confidence) for at, v in played.verdicts if at >= 60}
    assert len(texts) == 1


def test_a_worker_node_is_ready_without_a_port() -> None:
    told = Story(tp=2, nnodes=2, node_rank=1, address="10.0.0.1:2000").up_to("http")
    told.says(45, "launcher", "Dummy health check server started in background thread at 0.0.0.0:30000")
    played = told.play(80)
    assert (played.last.verdict, played.last.confidence) == ("ready", "medium")
