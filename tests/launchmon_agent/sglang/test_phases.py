"""The rules of the phase board that real logs do not show: other releases, other ends, several launches."""

from __future__ import annotations

from typing import Any

import pytest

from launchmon_agent.events import LAUNCHER, Action, Event, Exit, Host, LogError, Mark, Progress, Run
from launchmon_agent.log.marks import MarkScanner
from launchmon_agent.sglang.phases import PhaseBoard, Span
from tests.support.sglang_wording import launch

ARGS = "server_args={}"
BEGIN, END = "Init parallel begin.", "Init parallel ends. elapsed=1.00 s"
LOAD, LOADED = "Load weight begin. avail mem=1 GB", "Load weight end. elapsed=1.00 s, type=X, avail mem=1 GB"
POOL = "Memory pool end. avail mem=1 GB"
CAPTURE = "Capture decode CUDA graph begin. avail mem=1 GB"
CAPTURED = "Capture decode CUDA graph end. elapsed=2.00 s, mem usage=1 GB, avail mem=1 GB"
UP = "max_total_num_tokens=9, chunked_prefill_size=8, max_prefill_tokens=1, max_running_requests=6, context_len=8"
STARTED = "INFO:     Started server process [1]"
RUNNING = "INFO:     Uvicorn running on http://127.0.0.1:30000"
READY = "The server is fired up and ready to roll!"
PORT_TAKEN = "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): in use"


class Story:
    """Tells a board what a log says. Times are seconds after the beginning."""

    def __init__(self, **args: object) -> None:
        self.board = PhaseBoard()
        self.args = args
        self._scanner = MarkScanner()
        self._offset = 0
        self._base: float | None = None

    def log(self, second: int, text: str, *ranks: str) -> Story:
        if text == ARGS:
            text = f"server_args={self.args!r}"
        for rank in ranks or ("",):
            tag = f" {rank}" if rank else ""
            line = f"[2026-11-29 16:{second // 60:02}:{second % 60:02}{tag}] {text}\n".encode()
            for event in self._scanner.feed(self._offset, line):
                if self._base is None:
                    self._base = event.at - second
                self.board.apply(event)
            self._offset += len(line)
        return self

    def tell(self, event: Event) -> Story:
        self.board.apply(event)
        return self

    def at(self, second: float) -> float:
        assert self._base is not None
        return self._base + second

    def spans(self, rank: str) -> list[tuple[Any, ...]]:
        """Phase (with the draft's name), begin and end in seconds after the beginning."""
        return [
            (
                span.phase if span.model == "target" else f"draft {span.phase}",
                span.begin - self.at(0),
                None if span.end is None else span.end - self.at(0),
            )
            for span in self.board.spans()
            if span.rank == rank
        ]

    def state(self, phase: str, now: float = 99.0) -> str | None:
        return next((cell.state for cell in self.board.rail(self.at(now)) if cell.phase == phase), None)

    def span(self, rank: str) -> Span:
        span = self.board.current(rank)
        assert span is not None
        return span


def loaded(*ranks: str, **args: object) -> Story:
    story = Story(**args).log(1, ARGS).log(5, BEGIN, *ranks).log(6, END, *ranks)
    return story.log(7, LOAD, *ranks).log(9, LOADED, *ranks)


# ------------------------------------------------------------------------------------------------------------- one rank


def test_what_follows_is_assumed_until_a_line_says_otherwise() -> None:
    story = loaded("TP0")
    assert (story.span("TP0").phase, story.span("TP0").implicit) == ("kv-pool", True)
    story.log(12, POOL, "TP0")
    assert (story.span("TP0").phase, story.span("TP0").implicit) == ("graphs", True)
    story.log(15, CAPTURE, "TP0")
    assert (story.span("TP0").phase, story.span("TP0").implicit) == ("graphs", False)
    assert story.span("TP0").begin == story.at(15)


def test_graphs_that_never_came_are_folded_away() -> None:
    story = loaded("TP0").log(12, POOL, "TP0").log(20, UP, "TP0")
    assert [phase for phase, _, _ in story.spans("TP0")] == ["spawn", "dist-init", "weights", "kv-pool"]
    assert story.board.run_phase() == "http"
    assert story.state("graphs") == "skipped"


def test_graphs_in_several_goes_are_one_span_with_their_seconds_added() -> None:
    story = loaded("TP0").log(12, POOL, "TP0")
    for begin in (13, 20):
        story.log(begin, CAPTURE, "TP0").log(begin + 2, CAPTURED, "TP0")
    assert story.spans("TP0")[-1] == ("graphs", 13, 22)
    assert story.span("TP0").stated_s == 4.0


def test_without_an_end_line_the_weights_end_the_distributed_set_up() -> None:
    story = Story().log(1, ARGS).log(5, "Init torch distributed begin.", "TP0").log(9, LOAD, "TP0")
    assert story.spans("TP0") == [("spawn", 1, 5), ("dist-init", 5, 9), ("weights", 9, None)]


def test_a_later_phase_ends_all_earlier_ones() -> None:
    story = Story().log(1, ARGS).log(5, LOAD, "TP0").log(9, CAPTURE, "TP0")
    assert story.spans("TP0") == [("spawn", 1, 5), ("weights", 5, 9), ("graphs", 9, None)]


def test_overlapped_weights_reach_to_where_they_are_committed() -> None:
    story = Story().log(1, ARGS).log(5, BEGIN, "TP0").log(6, END, "TP0").log(7, LOAD, "TP0")
    story.log(8, "KV Cache is allocated. #tokens: 9, K size: 1.00 GB, V size: 1.00 GB", "TP0").log(9, POOL, "TP0")
    story.log(10, CAPTURE, "TP0").log(12, CAPTURED, "TP0")
    assert story.spans("TP0")[2:] == [("weights", 7, 8), ("kv-pool", 8, 9), ("graphs", 10, 12)]
    story.log(30, "Load weight end. Committed real weights after CUDA graph capture in 20.50 s", "TP0")
    assert story.spans("TP0")[2] == ("weights", 7, 30)
    assert [span.stated_s for span in story.board.spans() if span.phase == "weights"] == [20.5]


def test_the_pool_that_is_sized_after_the_graphs_is_a_second_span() -> None:
    story = loaded("TP0")
    story.log(10, "KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 9, KV size: 1.00 GB", "TP0")
    story.log(11, POOL, "TP0").log(12, CAPTURE, "TP0").log(20, CAPTURED, "TP0")
    story.log(23, "Post-capture KV sizing: KV cache allocated. dtype: x, #tokens: 9, KV size: 1.00 GB", "TP0")
    assert story.spans("TP0")[3:] == [("kv-pool", 9, 11), ("graphs", 12, 20), ("kv-pool", 20, 23)]
    (cell,) = [cell for cell in story.board.rail(story.at(30)) if cell.phase == "kv-pool"]
    assert (cell.state, cell.seconds) == ("done", 5.0)  # not the graphs between its parts


def test_a_bar_is_kept_by_its_phase_even_when_it_comes_late() -> None:
    story = loaded("TP0")
    story.tell(Progress(story.at(9), rank="TP0", phase="weights", done=3, total=4))
    assert [span.progress.done for span in story.board.spans() if span.progress] == [3]
    assert story.span("TP0").phase == "kv-pool"


def test_downloads_and_compilers_are_shown_inside_the_phase() -> None:
    story = Story().log(1, ARGS).log(5, LOAD, "TP0")
    story.tell(Progress(story.at(6), rank="TP0", phase="download", done=1, total=12))
    assert [cell.also for cell in story.board.rail(story.at(7)) if cell.phase == "weights"] == [("download",)]
    story.log(9, LOADED, "TP0").log(10, POOL, "TP0").log(11, CAPTURE, "TP0")
    story.log(12, "Entering DeepGEMM JIT Pre-Compile session.", "TP0")
    assert [cell.also for cell in story.board.rail(story.at(13)) if cell.phase == "graphs"] == [("jit",)]


def test_a_lock_that_nobody_in_particular_waits_for_is_the_slowest_ranks() -> None:
    story = loaded("TP0", "TP1").log(10, POOL, "TP1")
    story.log(11, "waiting for baton release at /cache/torch_extensions/op/lock")
    assert [cell.also for cell in story.board.rail(story.at(12)) if cell.phase == "kv-pool"] == [("jit",)]


# -------------------------------------------------------------------------------------------------------- several ranks


def test_the_run_is_where_its_slowest_living_rank_is() -> None:
    story = loaded("TP0", "TP1").log(10, POOL, "TP0").log(11, CAPTURE, "TP0")
    assert story.board.run_phase() == "kv-pool"
    assert story.state("kv-pool") == "running"
    assert [cell.slowest_rank for cell in story.board.rail(story.at(12)) if cell.phase == "kv-pool"] == ["TP1"]
    story.tell(Exit(story.at(13), pid=7, role="scheduler", rank="TP1", code=-9))
    assert story.board.run_phase() == "graphs"
    assert story.state("kv-pool") == "failed"
    assert story.board.outcome() == "failed"


def test_a_rank_that_has_not_written_yet_counts_from_its_spawn() -> None:
    story = Story()
    story.board.expect(["TP0", "TP1"])
    story.log(1, ARGS).log(5, BEGIN, "TP0")
    assert story.spans("TP1") == [("spawn", 1, None)]
    assert story.board.run_phase() == "spawn"
    assert story.board.ranks() == ("TP0", "TP1")


def test_the_tags_of_the_log_win_over_those_that_were_expected() -> None:
    story = Story()
    story.board.expect(["TP0", "TP1"])
    story.log(1, ARGS).log(5, BEGIN, "TP0 EP0").log(5, BEGIN, "TP1 EP1")
    assert story.board.ranks() == ("TP0 EP0", "TP1 EP1")
    story.board.expect(["TP0", "TP1"])
    assert story.board.ranks() == ("TP0 EP0", "TP1 EP1")


def test_replicas_come_up_one_by_one() -> None:
    ranks = ("DP0 TP0", "DP0 TP1", "DP1 TP0", "DP1 TP1")
    story = loaded(*ranks).log(12, POOL, *ranks).log(13, UP, "DP0 TP0")
    assert story.board.run_phase() == "graphs"
    story.log(20, UP, "DP1 TP0")
    assert story.board.run_phase() == "http"
    assert story.spans(LAUNCHER)[-1] == ("http", 20, None)


def test_with_attention_dp_one_rank_speaks_for_all_groups() -> None:
    story = loaded("DP0 TP0", "DP1 TP1", enable_dp_attention=True)
    story.log(12, POOL, "DP0 TP0", "DP1 TP1").log(13, UP, "DP0 TP0")
    assert story.board.run_phase() == "http"


def test_a_node_without_http_is_ready_when_its_dummy_server_is() -> None:
    story = loaded("TP2", "TP3", nnodes=2, node_rank=1).log(12, POOL, "TP2", "TP3")
    assert [cell.phase for cell in story.board.rail(story.at(13)) if cell.phase in ("http", "warm-up")] == []
    story.log(15, "Dummy health check server started in background thread at 127.0.0.1:30000")
    assert (story.board.run_phase(), story.board.outcome()) == ("ready", "ready")


# -------------------------------------------------------------------------------------------------------- begin and end


def test_the_start_is_that_of_the_process_where_it_is_known() -> None:
    story = loaded("TP0")
    started = story.at(1) - 40
    fresh = Story().tell(Run(started, id="r", start_time=started))
    assert fresh.board.run_phase() == "start"
    fresh.log(1, ARGS)
    assert fresh.spans(LAUNCHER) == [("start", -39, 1)]


def test_a_process_that_is_younger_than_the_launch_did_not_start_it() -> None:
    story = Story()
    story.log(1, "Fail to set RLIMIT_NOFILE").log(4, ARGS)
    story.tell(Run(story.at(900), id="r", start_time=story.at(900)))
    story.log(4, ARGS)
    assert story.spans(LAUNCHER)[0][1] <= 4


def test_a_new_launch_forgets_the_one_before() -> None:
    story = loaded("TP0", "TP1")
    story.log(100, ARGS).log(110, BEGIN, "TP0")
    assert story.board.ranks() == ("TP0",)
    assert story.spans("TP0") == [("spawn", 100, 110), ("dist-init", 110, None)]


def test_the_ready_line_of_a_server_without_its_port_is_not_believed() -> None:
    story = loaded("TP0").log(12, POOL, "TP0").log(13, UP, "TP0").log(14, STARTED).log(15, PORT_TAKEN).log(16, READY)
    assert (story.board.run_phase(), story.board.outcome()) == ("http", "failed")
    assert story.state("http") == "failed"
    assert story.state("ready") == "pending"


def test_what_looked_fatal_was_not_when_the_server_comes_up() -> None:
    story = loaded("TP0").log(10, "Fatal Python error: x").log(12, UP, "TP0").log(14, STARTED).log(15, RUNNING)
    assert story.board.outcome() == "failed"
    assert story.log(16, READY).board.outcome() == "ready"


def test_http_begins_when_the_ranks_are_up() -> None:
    story = loaded("TP0").log(12, POOL, "TP0").log(13, UP, "TP0").log(20, STARTED).log(21, RUNNING).log(30, READY)
    assert story.spans(LAUNCHER)[1:] == [("http", 13, 21), ("warm-up", 21, 30), ("ready", 30, None)]
    assert story.board.current("TP0") == story.board.current(LAUNCHER)


@pytest.mark.parametrize(
    ("code", "outcome", "state"), [(0, "stopped", "done"), (-9, "stopped", "done"), (None, "stopped", "done")]
)
def test_an_end_that_was_asked_for_is_no_failure(code: int | None, outcome: str, state: str) -> None:
    story = loaded("TP0").log(12, UP, "TP0").log(13, STARTED).log(14, RUNNING).log(15, READY)
    story.log(60, "SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    story.log(61, "Subprocess scheduler_0 (pid=1) crashed with exit code -15. Triggering SIGQUIT for cleanup...")
    story.tell(Exit(story.at(65), pid=1, role="launcher", code=code))
    assert (story.board.outcome(), story.state("ready")) == (outcome, state)


def kill(story: Story, second: float) -> Action:
    return Action(story.at(second), action="kill", id="k", step="TERM launcher", state="done")


def test_a_kill_is_no_failure_of_a_server_that_was_ready() -> None:
    story = loaded("TP0").log(12, UP, "TP0").log(13, STARTED).log(14, RUNNING).log(15, READY)
    story.tell(kill(story, 60.25))
    story.tell(Exit(story.at(60.5), pid=2, role="scheduler", rank="TP0", code=-9))
    story.log(60, "Subprocess scheduler_0 (pid=2) crashed with exit code -9. Triggering SIGQUIT for cleanup...")
    story.tell(Exit(story.at(61), pid=1, role="launcher", code=-9))
    assert (story.board.outcome(), story.state("ready")) == ("stopped", "done")
    assert story.spans(LAUNCHER)[-1] == ("ready", 15, 60.25)


def test_a_kill_cuts_the_phases_short_that_were_going_on() -> None:
    story = loaded("TP0", "TP1").log(12, POOL, "TP0").log(13, CAPTURE, "TP0")
    story.tell(kill(story, 20))
    assert story.state("kv-pool") == "running"
    for pid, rank in ((2, "TP0"), (3, "TP1")):
        story.tell(Exit(story.at(21), pid=pid, role="scheduler", rank=rank, code=-9))
    story.tell(Exit(story.at(22), pid=1, role="launcher", code=-9))
    assert story.board.outcome() == "stopped"
    assert [story.state(phase) for phase in ("weights", "kv-pool", "graphs")] == ["done", "stopped", "stopped"]
    assert story.state("ready") == "pending"


def test_the_end_of_the_launcher_stops_ranks_whose_end_nobody_saw() -> None:
    story = loaded("TP0")
    story.tell(kill(story, 20)).tell(Exit(story.at(21), pid=1, role="launcher", code=-15))
    assert story.state("kv-pool") == "stopped"


def test_what_had_failed_before_a_kill_has_failed() -> None:
    story = loaded("TP0", "TP1")
    killed, error = kill(story, 20), LogError(story.at(11), rank="TP1", id="scheduler_exception", severity="fatal")
    story.tell(killed).tell(error)  # a newcomer is told of the kill first
    story.tell(Exit(story.at(21), pid=1, role="launcher", code=-9))
    assert (story.board.outcome(), story.state("kv-pool")) == ("failed", "failed")


def test_the_death_of_the_launcher_fails_what_was_going_on() -> None:
    story = loaded("TP0", "TP1").tell(Exit(0.0, pid=1, role="launcher", code=-9))
    assert story.board.outcome() == "failed"
    assert [story.span(rank).failed for rank in ("TP0", "TP1")] == [True, True]
    assert story.board.run_phase() == "kv-pool"


def test_a_fatal_line_of_a_rank_fails_its_phase_only() -> None:
    story = loaded("TP0", "TP1")
    story.tell(LogError(story.at(11), rank="TP1", id="scheduler_exception", severity="fatal"))
    assert [story.span(rank).failed for rank in ("TP0", "TP1")] == [False, True]


# ---------------------------------------------------------------------------------------------------------- odd streams


def test_a_log_that_begins_in_the_middle_still_makes_sense() -> None:
    story = Story().log(9, LOADED, "TP0").log(12, POOL, "TP0").log(13, CAPTURE, "TP0")
    assert [phase for phase, _, _ in story.spans("TP0")] == ["weights", "kv-pool", "graphs"]
    assert story.board.run_phase() == "graphs"


def test_lines_nobody_knows_and_other_events_change_nothing() -> None:
    story = loaded("TP0")
    before = story.board.spans()
    story.log(20, "Load weight began, says a release to come.", "TP0").tell(Host(0.0))
    story.tell(Mark(story.at(21), id="new", what="odd", phase="unheard-of", rank="TP0"))
    assert story.board.spans() == before


def test_a_board_that_heard_nothing() -> None:
    board = PhaseBoard()
    assert (board.spans(), board.ranks(), board.current("TP0"), board.current(LAUNCHER)) == ((), (), None, None)
    assert (board.run_phase(), board.outcome()) == ("start", "launching")
    assert {cell.state for cell in board.rail(0.0)} == {"pending"}


def test_graphs_and_a_draft_are_shown_where_the_arguments_promise_them() -> None:
    def pending(**args: object) -> list[str]:
        return [cell.phase for cell in Story(**args).log(1, ARGS).board.rail(0.0) if cell.state == "pending"]

    assert "graphs" in pending() and "draft" not in pending()
    assert "draft" in pending(speculative_algorithm="EAGLE3")
    assert "draft" not in pending(speculative_algorithm="NGRAM")
    assert "graphs" not in pending(disable_cuda_graph=True)
    assert "graphs" not in pending(device="cpu")


def test_stated_timings_are_kept_for_comparison() -> None:
    board = PhaseBoard()
    for event in MarkScanner().feed(0, launch("0.5.23")):
        board.apply(event)
    assert board.stated_timings == {
        "load_weight": 4.0,
        "kv_cache_allocation": 1.0,
        "scheduler_e2e": 20.0,
        "tokenizer_e2e": 30.0,
        "cuda_graph.prefill": 0.0,
        "cuda_graph.decode": 2.0,
    }


@pytest.mark.parametrize("rank", ["", "DP1 TP0", "weird ☃ rank", LAUNCHER])
@pytest.mark.parametrize("phase", [None, "ready", "graphs", "kv-pool", "jit", "http", "warm-up", "download", "start"])
@pytest.mark.parametrize("what", ["begin", "end", "info", "skip", ""])
def test_marks_in_any_combination_do_no_harm(rank: str, phase: str | None, what: str) -> None:
    board = PhaseBoard()
    for id_ in ("weights", "kv_final", "commit", "pool_ready", "engine", "stop", "args", "graph"):
        board.apply(Mark(1.0, id=id_, what=what, phase=phase, rank=rank, values={"s": "nonsense"}))
        board.apply(Progress(1.0, rank=rank, phase=phase))
        assert len(board.rail(2.0)) >= 8
        assert board.run_phase()
