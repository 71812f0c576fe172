"""Healthy and slow launches: at no second of their life are they called dead-locked, nor anything else wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.story import BUSY, DEADLOCKS, GIB, GPU_SPINS, GPU_WORKS, IDLE, LAUNCHER, Played, Story

FINE = {"starting", "reading", "downloading", "compiling", "computing", "ready", "serving"}
MIB = 1024 * 1024

STORIES: dict[str, tuple[Callable[[], Story], float, set[str]]] = {}
"""Name → how it is told, for how long it is watched, and which kinds may be said."""


def story(seconds: float, allowed: set[str] | None = None) -> Callable[[Callable[[], Story]], Callable[[], Story]]:
    def keep(tell: Callable[[], Story]) -> Callable[[], Story]:
        STORIES[tell.__name__] = (tell, seconds, FINE if allowed is None else allowed)
        return tell

    return keep


@story(120)
def a_healthy_launch_on_eight_gpus() -> Story:
    return Story(tp=8).up_to("ready")


@story(120)
def a_healthy_launch_of_one_rank_without_gpus() -> Story:
    return Story(tp=1, gpus=False).up_to("ready")


@story(100, {"starting"})
def ranks_that_import_for_90_s_at_full_cpu() -> Story:
    return Story(tp=8).up_to("spawn")


@story(200, {"starting", "reading"})
def ranks_that_import_from_a_slow_share() -> Story:
    return Story(tp=8).up_to("spawn").all(10, tree_cpu_percent=1.0, cpu_percent=1.0, state="D")


@story(600, {"starting", "reading", "computing"})
def one_rank_compiles_ptx_in_its_process_and_the_others_spin_in_nccl() -> Story:
    told = Story(tp=8).up_to("graphs").quiet(35, "TP0").rank("TP0", 35, **BUSY)
    for index in range(1, 8):
        told.rank(f"TP{index}", 35, **BUSY).gpu(index, 35, **GPU_SPINS)
    return told.stacks("forward (sglang/srt/models/llama.py:300)", "TP0").stacks(SYNC, *[f"TP{n}" for n in range(1, 8)])


SYNC = """
synchronize (torch/cuda/streams.py:100)
forward_batch_generation (sglang/srt/managers/tp_worker.py:200)
run_batch (sglang/srt/managers/scheduler.py:1500)
"""
BARRIER = """
barrier (torch/distributed/distributed_c10d.py:4000)
GroupCoordinator.barrier (sglang/srt/distributed/parallel_state.py:1100)
capture (sglang/srt/model_executor/cuda_graph_runner.py:500)
"""


@story(600, {"starting", "reading", "computing"})
def one_rank_compiles_ptx_in_its_process_and_the_others_sleep_in_a_barrier() -> Story:
    told = Story(tp=8).up_to("graphs").quiet(35).rank("TP0", 35, **BUSY)
    return told.stacks(BARRIER, *[f"TP{n}" for n in range(1, 8)]).stacks(
        "forward (sglang/srt/models/llama.py:30)", "TP0"
    )


@story(300, {"starting", "reading", "computing"})
def all_ranks_compile_ptx_at_once_inside_a_collective() -> Story:
    return Story(tp=8).up_to("graphs").quiet(35).all(35, **BUSY).stacks(BARRIER)


@story(600, {"starting", "reading"})
def all_ranks_read_weights_at_5_mb_per_s() -> Story:
    return Story(tp=8).up_to("weights").reads(20, 5e6)


@story(600, {"starting", "reading"})
def weights_are_read_by_page_faults_alone() -> Story:
    return Story(tp=8).up_to("weights").quiet(20).all(20, faults_ps=300.0, rss_growth=MIB, tree_cpu_percent=1.0)


@story(600, {"starting", "reading"})
def one_rank_reads_its_weights_eleven_minutes_longer() -> Story:
    told = Story(tp=8).up_to("weights").quiet(30).reads(30, 20e6, "TP3")
    for name in told.ranks:
        if name != "TP3":
            told.says(30, name, LOADED)
    return told


LOADED = "Load weight end. elapsed=11.00 s, type=LlamaForCausalLM, avail mem=30.00 GB, mem usage=60.00 GB."


@story(400, {"starting", "reading"})
def a_share_that_does_not_answer_for_five_minutes() -> Story:
    return Story(tp=8).up_to("weights").quiet(25).all(25, state="D", blocked_in="folio_wait_bit_common")


@story(400, {"starting", "reading"})
def a_fuse_mount_that_shows_in_no_state_and_no_byte_count() -> Story:
    return Story(tp=8).up_to("weights").quiet(25).all(25, read_bps=None, blocked_in="request_wait_answer")


@story(500, {"starting", "reading", "computing"})
def weights_are_repacked_after_the_bar_is_full() -> Story:
    return (
        Story(tp=8)
        .up_to("weights")
        .says(30, "bar", "Loading safetensors checkpoint shards: 100% Completed | 96/96 [00:11<00:00,  8.70it/s]")
        .quiet(30)
        .all(30, **BUSY)
    )


@story(400, {"starting", "reading", "computing", "unknown"})
def weights_are_prepared_by_a_kernel_that_uses_little_of_the_gpu() -> Story:
    return Story(tp=8).up_to("weights").quiet(30).gpu(None, 30, **GPU_SPINS).all(30, **BUSY)


@story(400, {"starting", "reading", "computing"})
def kernels_are_tuned_for_20_minutes_without_a_line() -> Story:
    told = Story(tp=8).up_to("kv-pool")
    for name in told.ranks:
        told.says(32, name, "Running FlashInfer autotune...")
    return told.gpu(None, 33, **GPU_WORKS).all(33, **BUSY)


@story(400, {"starting", "reading", "computing"})
def host_memory_is_pinned_for_the_hierarchical_cache() -> Story:
    return Story(tp=8).up_to("kv-pool").quiet(31).all(31, tree_cpu_percent=99.0, state="D", rss_growth=500.0 * MIB)


@story(400, {"starting", "reading", "compiling"})
def one_rank_runs_nvcc_and_the_others_spin() -> Story:
    told = Story(tp=8).up_to("graphs").gpu(None, 35, **GPU_SPINS).gpu(0, 35, util_percent=0.0, power_w=85.0)
    return told.all(35, **BUSY).rank("TP0", 35, children={"nvcc": 2, "cicc": 2}, cpu_percent=0.0)


@story(300, {"starting", "reading", "compiling"})
def compilers_wait_for_the_disk_of_a_cold_machine() -> Story:
    return Story(tp=2).up_to("graphs").quiet(35).rank("TP1", 35, children={"ninja": 1, "cc1plus": 4})


@story(300, {"starting", "reading", "compiling"})
def torch_compile_works_in_its_pool() -> Story:
    told = Story(tp=2).up_to("graphs").quiet(35)
    return told.rank("TP0", 35, tree_cpu_percent=400.0, cpu_percent=0.0, children={"inductor": 4})


@story(120, {"starting", "reading", "compiling", "ready"})
def the_first_request_compiles_for_a_minute() -> Story:
    told = Story(tp=2, gpus=False).up_to("warm-up").says(44, "TP0", "Prefill batch, #new-seq: 1, #new-token: 7")
    told.quiet(44).all(44, tree_cpu_percent=100.0, children={"g++": 1, "cc1plus": 1}).all(104, children={})
    return told.says(105, LAUNCHER, "The server is fired up and ready to roll!")


@story(300, {"starting", "reading", "computing"})
def graphs_are_captured_with_a_bar_that_moves_every_20_s() -> Story:
    told = Story(tp=8).up_to("graphs").all(33, **BUSY)
    for step in range(1, 12):
        bar = f"Capturing batches (bs={step} avail_mem=7.00 GB): {step}%|#  | {step}/36 [00:10<03:00, 20.00s/it]"
        told.says(33 + 20 * step, "bar", bar)
    return told


@story(200, {"starting", "reading", "downloading"})
def the_model_is_downloaded() -> Story:
    told = Story(tp=2).up_to("weights").quiet(20).host(20, net_rx_bps=50e6)
    told.says(20, "bar", "Fetching 17 files:  12%|#    | 2/17 [00:10<09:00, 36.00s/it]", end="\r")
    for step in range(3, 9):
        told.says(20 + 20 * step, "bar", f"Fetching 17 files:  20%|#    | {step}/17 [00:10<09:00, 36.00s/it]", end="\r")
    return told


@story(600, {"starting", "reading", "waiting-peer"})
def another_node_reads_its_weights_while_this_one_waits() -> Story:
    told = Story(tp=16, nnodes=2, address="10.0.0.1:20000").up_to("kv-pool").quiet(31)
    return told.stacks(BARRIER)


@story(300, {"starting", "reading", "computing"})
def one_replica_is_up_and_spins_while_the_other_reads() -> Story:
    told = Story(tp=1, dp=2).up_to("weights").reads(20, 5e6, "DP0").quiet(30, "DP1").rank("DP1", 30, **BUSY)
    told.says(30, "DP1", LOADED).says(31, "DP1", "Memory pool end. avail mem=8.00 GB")
    return told.says(31, "DP1", POOL)


POOL = "max_total_num_tokens=9999, max_prefill_tokens=16384, max_running_requests=2048, context_len=4096"


@story(300, {"starting", "reading", "computing"})
def a_loaded_host_leaves_each_rank_6_percent() -> Story:
    return Story(tp=8).up_to("graphs").quiet(35).all(35, tree_cpu_percent=6.0, cpu_percent=6.0)


@story(200, {"starting", "computing", "reading"})
def a_child_tests_the_paths_between_gpus() -> Story:
    told = Story(tp=2).up_to("dist-init").quiet(18)
    return told.rank("TP0", 18, tree_cpu_percent=60.0, cpu_percent=0.0, children={"python": 1})


@story(120, {"starting", "unknown"})
def a_launcher_that_waits_for_a_blocked_hub() -> Story:
    return Story(tp=8).up_to("start").rank(LAUNCHER, 8, **IDLE)


@story(1800, {"starting", "reading", "ready"})
def a_server_that_sleeps_on_idle_for_hours() -> Story:
    told = Story(tp=2).up_to("ready").quiet(60).all(60, tree_cpu_percent=2.0, cpu_percent=2.0)
    return told.beat(50, age_s=0.2, running=0, waiting=0)


@story(600, {"starting", "reading", "ready"})
def an_older_server_that_sleeps_on_idle_without_a_heartbeat() -> Story:
    return Story(tp=2).up_to("ready").quiet(60).all(60, tree_cpu_percent=2.0, cpu_percent=2.0)


@story(600, {"starting", "reading", "ready"})
def an_idle_server_that_spins() -> Story:
    return Story(tp=2).up_to("ready").all(60, **BUSY).beat(50, age_s=0.0, running=0, waiting=0)


@story(300, {"starting", "reading", "ready", "serving"})
def a_prefill_that_takes_four_minutes() -> Story:
    told = Story(tp=2).up_to("ready").beat(50, age_s=0.1, running=0, waiting=0)
    told.beat(60, running=1, stopped_at=60.0).gpu(None, 60, **GPU_WORKS)
    return told.beat(290, stopped_at=None, age_s=0.0, running=0).gpu(None, 290, util_percent=0.0, power_w=85.0)


@story(200, {"starting", "reading", "ready", "serving"})
def a_request_that_compiles_a_kernel_late() -> Story:
    told = Story(tp=2, gpus=False).up_to("ready").beat(50, age_s=0.1, running=0, waiting=0)
    return told.beat(60, running=1, stopped_at=60.0).quiet(60).rank("TP0", 60, **BUSY)


@story(200, {"starting", "reading", "serving", "ready"})
def a_busy_server_without_log_lines() -> Story:
    told = Story(tp=2).up_to("ready").http(50, running=3, queued=2).gpu(None, 50, **GPU_WORKS)
    return told.all(50, **BUSY)


@pytest.fixture(scope="module")
def played() -> Callable[[str], Played]:
    """Each story is played once."""
    kept: dict[str, Played] = {}

    def play(name: str) -> Played:
        if name not in kept:
            tell, seconds, _ = STORIES[name]
            kept[name] = tell().play(seconds)
        return kept[name]

    return play


@pytest.mark.parametrize("name", STORIES)
def test_at_every_second_only_what_is_allowed_is_said(name: str, played: Callable[[str], Played]) -> None:
    allowed = STORIES[name][2]
    for second, verdict in played(name).verdicts:
        assert verdict.verdict not in DEADLOCKS, (second, verdict.summary)
        assert verdict.verdict in allowed, (second, verdict.verdict, verdict.summary)


@pytest.mark.parametrize(
    ("name", "kind", "blames", "words"),
    [
        ("one_rank_compiles_ptx_in_its_process_and_the_others_spin_in_nccl", "computing", ("TP0",), "TP0 works"),
        ("one_rank_compiles_ptx_in_its_process_and_the_others_sleep_in_a_barrier", "computing", ("TP0",), "TP1-7 wait"),
        ("all_ranks_read_weights_at_5_mb_per_s", "reading", (), "38 MiB/s"),
        ("weights_are_read_by_page_faults_alone", "reading", (), "read weights"),
        ("one_rank_reads_its_weights_eleven_minutes_longer", "reading", ("TP3",), "TP0-2,4-7 wait for it"),
        ("a_share_that_does_not_answer_for_five_minutes", "reading", (), "sleeping on the disk"),
        ("weights_are_repacked_after_the_bar_is_full", "computing", (), "CPU 100 %"),
        ("kernels_are_tuned_for_20_minutes_without_a_line", "computing", (), "520 of 600 W"),
        ("one_rank_runs_nvcc_and_the_others_spin", "compiling", ("TP0",), "2 cicc, 2 nvcc"),
        ("torch_compile_works_in_its_pool", "compiling", ("TP0",), "4 inductor"),
        ("the_model_is_downloaded", "downloading", (), "8 of 17 files) at 48 MiB/s"),
        ("another_node_reads_its_weights_while_this_one_waits", "waiting-peer", ("node 1",), "another node"),
        ("one_replica_is_up_and_spins_while_the_other_reads", "reading", (), "DP0 reads weights at 4.8 MiB/s"),
        ("a_busy_server_without_log_lines", "serving", (), "3 running, 2 queued"),
        ("an_idle_server_that_spins", "ready", (), "Ready on port 30000"),
    ],
)
def test_what_moves_is_named(
    name: str, kind: str, blames: tuple[str, ...], words: str, played: Callable[[str], Played]
) -> None:
    verdict = played(name).last
    assert (verdict.verdict, verdict.blames) == (kind, blames), verdict.summary
    assert words in verdict.summary


def test_a_bar_at_100_percent_is_not_the_end_of_reading() -> None:
    told = Story(tp=2).up_to("weights").says(25, "bar", FULL_BAR).reads(26, 300e6)
    verdict = told.play(120).last
    assert verdict.verdict == "reading"
    assert "the bar at 100 % only counts files that were opened" in verdict.summary


FULL_BAR = "Loading safetensors checkpoint shards: 100% Completed | 96/96 [00:11<00:00,  8.70it/s]"


def test_memory_of_the_gpus_that_grows_is_reading_though_no_byte_count_can_be_read() -> None:
    told = Story(tp=2).up_to("weights").quiet(20).all(20, read_bps=None).gpu(None, 20, growth=0.05 * GIB)
    assert told.play(90).last.verdict == "reading"
