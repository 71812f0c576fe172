"""How much of a model has been read or has arrived, and how long the rest takes; and when that is not said."""

from __future__ import annotations

from launchmon_agent.events import ModelFiles, Verdict
from launchmon_agent.judge.transfer import Transfer
from tests.support.story import GIB, T0, Story

MIB = 1024**2


def model(told: Story, total: int | None, at: float = 1.0, here: int | None = None, unfinished: int = 0) -> Story:
    return told.event(ModelFiles(T0 + at, "/models/m", total, total if here is None else here, unfinished))


def reading(told: Story, at: float = 60.0) -> str:
    verdict: Verdict = told.play(at).last
    assert verdict.verdict == "reading"
    return verdict.summary


# -------------------------------------------------------------------------------------------------------------- reading


def test_the_amount_the_rate_and_the_time_that_is_left() -> None:
    told = model(Story(tp=8).up_to("weights").reads(19, 128 * MIB), 100 * GIB)
    assert reading(told) == "All 8 ranks read weights at 1.0 GiB/s, 41 of 100 GiB, about 59 s left."


def test_a_bar_at_100_percent_does_not_hide_what_is_left() -> None:
    told = model(Story(tp=8).up_to("weights").reads(19, 128 * MIB), 100 * GIB)
    told.says(25, "bar", "Loading safetensors checkpoint shards: 100% Completed | 64/64 [00:06<00:00, 10.00it/s]\r")
    words = "still read weights at 1.0 GiB/s, 41 of 100 GiB, about 59 s left: the bar at 100 % only counts files"
    assert words in reading(told)


def test_the_rate_is_that_of_the_last_seconds() -> None:
    told = model(Story(tp=8).up_to("weights").reads(19, 512 * MIB).reads(40, 64 * MIB), 200 * GIB)
    assert "at 512 MiB/s" in reading(told, 90)


def test_without_the_size_of_the_files_the_amount_stands_alone() -> None:
    said = reading(Story(tp=8).up_to("weights").reads(19, 128 * MIB))
    assert "GiB so far" in said and "left" not in said


def test_more_than_there_is_tells_that_the_ranks_read_the_same() -> None:
    said = reading(model(Story(tp=8).up_to("weights").reads(19, 128 * MIB), 20 * GIB))
    assert "of 20 GiB" not in said and "left" not in said


def test_who_attaches_in_between_does_not_know_what_was_read_before() -> None:
    played = model(Story(tp=8).up_to("weights").reads(19, 128 * MIB), 100 * GIB, at=45.0).play(60)
    said = played.watched_from(40).last.summary
    assert "of 100 GiB" not in said and "left" not in said
    assert "of 100 GiB" in played.last.summary


def test_of_a_model_that_several_nodes_share_one_node_reads_an_unknown_part() -> None:
    told = Story(tp=8, nnodes=2, address="10.0.0.1:20000").up_to("weights").reads(19, 128 * MIB)
    assert "of 100 GiB" not in reading(model(told, 100 * GIB))


def test_what_was_read_before_the_weights_does_not_count() -> None:
    told = Story(tp=8).up_to("weights").all(10, read_bps=512 * MIB).reads(19, 128 * MIB)
    assert ", 41 of 100 GiB" in reading(model(told, 100 * GIB))


def test_a_healthy_launch_is_judged_as_without() -> None:
    def kinds(told: Story) -> list[str]:
        return [verdict.verdict for _, verdict in told.play(70).verdicts]

    assert kinds(model(Story(tp=8).up_to("ready"), 100 * GIB)) == kinds(Story(tp=8).up_to("ready"))


# ---------------------------------------------------------------------------------------------------------- downloading


def downloads(bps: int, total: int | None, begin: float = 20.0, until: float = 60.0) -> Story:
    """A model that arrives while the ranks wait for it, as looks each 5 s find it."""
    told = Story(tp=2).up_to("weights").quiet(20)
    at = begin
    while at <= until:
        model(told, total, at, here=int(10 * GIB + bps * (at - begin)), unfinished=3)
        at += 5.0
    return told


def test_a_download_by_its_files() -> None:
    verdict = downloads(100 * MIB, 50 * GIB).play(61).last
    assert verdict.verdict == "downloading"
    assert verdict.summary == "The model is being downloaded at 100 MiB/s, 14 of 50 GiB, about 6m09s left."


def test_a_download_whose_size_nobody_tells() -> None:
    verdict = downloads(100 * MIB, None).play(61).last
    assert verdict.verdict == "downloading"
    assert verdict.summary == "The model is being downloaded at 100 MiB/s, 14 GiB so far."


def test_what_an_earlier_download_left_unfinished_is_no_download() -> None:
    told = model(Story(tp=2).up_to("weights").quiet(20), 50 * GIB, here=10 * GIB, unfinished=3)
    assert "downloading" not in told.play(90).kinds


def test_a_download_that_has_ended_is_none() -> None:
    told = downloads(100 * MIB, 50 * GIB, until=40)
    model(told, 50 * GIB, 45)
    assert told.play(90).last.verdict != "downloading"


# ------------------------------------------------------------------------------------------------------------- transfer


def test_a_rate_needs_some_seconds() -> None:
    transfer = Transfer()
    assert (transfer.done, transfer.bps, transfer.left_s(100)) == (0.0, None, None)
    transfer.feed(10, 1000)
    transfer.feed(12, 1200)
    assert (transfer.done, transfer.bps) == (200, None)
    transfer.feed(20, 2000)
    assert (transfer.bps, transfer.left_s(500)) == (100, 5)


def test_what_stands_still_has_no_end() -> None:
    transfer = Transfer()
    for at in range(60):
        transfer.feed(float(at), 1000.0 if at > 5 else 100.0 * at)
    assert transfer.left_s(100) is None


def test_a_count_that_falls_begins_anew() -> None:
    transfer = Transfer()
    for at, count in ((0, 5000), (10, 6000), (20, 100), (30, 1100)):
        transfer.feed(float(at), float(count))
    assert (transfer.done, transfer.bps) == (1000, 100)
