"""Launches that stand still: what is said, who is blamed, how soon, and that nothing wrong is said before."""

from __future__ import annotations

from launchmon_agent.events import (
    CollectiveRank,
    Communicator,
    Ras,
)
from tests.support.story import (
    BUSY,
    DEADLOCKS,
    GIB,
    GPU_SPINS,
    IDLE,
    LAUNCHER,
    T0,
    Played,
    Story,
)

IN_TIME_S = 30.0
EVERYONE = tuple(f"TP{n}" for n in range(8))

ALL_REDUCE = """
all_reduce (torch/distributed/distributed_c10d.py:2100)
get_available_gpu_memory (sglang/srt/utils/common.py:500)
init_memory_pool (sglang/srt/model_executor/model_runner.py:900)
Scheduler.__init__ (sglang/srt/managers/scheduler.py:300)
"""
FORWARD = """
all_reduce (torch/distributed/distributed_c10d.py:2100)
forward (sglang/srt/models/llama.py:300)
run_batch (sglang/srt/managers/scheduler.py:1500)
"""
GATHER = """
all_gather (torch/distributed/distributed_c10d.py:3000)
prepare_mlp_sync_batch (sglang/srt/managers/scheduler.py:1600)
"""
LOAD_BARRIER = """
monitored_barrier (torch/distributed/distributed_c10d.py:4500)
dist_barrier_after_load (sglang/srt/model_loader/load_model_utils.py:80)
"""
READS = """
get_tensor (safetensors/torch.py:10)
load_weights (sglang/srt/models/llama.py:500)
load_model (sglang/srt/model_executor/model_runner.py:700)
"""
FLOCK = """
acquire (filelock/_api.py:300)
build_and_load (flashinfer/jit/core.py:200)
init_cuda_graphs (sglang/srt/model_executor/model_runner.py:900)
"""
RENDEZVOUS = """
_create_c10d_store (torch/distributed/rendezvous.py:180)
_tcp_rendezvous_handler (torch/distributed/rendezvous.py:260)
init_process_group (torch/distributed/distributed_c10d.py:1700)
"""
SLEEPS = "Scheduler.__init__ (sglang/srt/managers/scheduler.py:400)"
LOADED = "Load weight end. elapsed=11.00 s, type=LlamaForCausalLM, avail mem=30.00 GB, mem usage=60.00 GB."


def said_in_time(played: Played, kind: str, stuck_at: float) -> None:
    """The kind comes within 30 s of the last progress, stays, and no dead-lock of another kind comes before it."""
    first = played.first(kind)
    assert first <= stuck_at + IN_TIME_S, (first, [(at, v.verdict) for at, v in played.verdicts if at > stuck_at][-3:])
    assert not played.kinds_until(min(first, stuck_at)) & set(DEADLOCKS)
    assert not played.kinds_until(first) & (set(DEADLOCKS) - {kind})
    assert {verdict.verdict for at, verdict in played.verdicts if at >= first} == {kind}


def evidence(played: Played) -> str:
    return "\n".join(f"{item.what}: {item.value}" for item in played.last.evidence)


# -------------------------------------------------------------------------------------------------------- dead-locks


def test_all_ranks_in_one_all_reduce_are_a_silent_dead_lock_of_the_group() -> None:
    told = Story(tp=8).up_to("kv-pool").quiet(31).stacks(ALL_REDUCE)
    played = told.gpu(None, 31, memory_used=76 * GIB).play(100)
    said_in_time(played, "deadlock-silent", 31)
    assert (played.last.confidence, played.last.blames) == ("high", EVERYONE)
    assert played.last.summary.startswith("8 of 8 ranks have done nothing for 1m")
    assert "all in all_reduce ‹ init_memory_pool. No rank is behind." in played.last.summary
    ruled_out = {item.kind: item.because for item in played.last.ruled_out}
    assert ruled_out["crashed"] == "8 of 8 ranks alive, no error in the log"
    assert ruled_out["compiling"] == "0 compilers"
    assert ruled_out["reading"] == "0 B/s read by all ranks"
    assert ruled_out["memory"] == "33 GiB of 1000 GiB used on the host, GPUs equal"
    assert played.last.unknown == ()
    assert any("--disable-cuda-graph" in step.change for step in played.last.next)
    assert played.stalls and 40 <= played.stalls[0] <= 42


def test_without_stacks_the_same_is_said_less_sure_and_no_later() -> None:
    played = Story(tp=8).up_to("kv-pool").quiet(31).play(100)
    said_in_time(played, "deadlock-silent", 31)
    assert (played.last.confidence, played.last.blames) == ("medium", EVERYONE)
    assert played.last.unknown[0].startswith("stacks: no dump")
    assert "dump" in [step.do for step in played.last.next]


def test_refused_stacks_lower_the_confidence_and_the_cure_is_one_command() -> None:
    told = Story(tp=8).up_to("kv-pool").quiet(31).refuse_stacks("ptrace refused: yama scope 1")
    played = told.play(100)
    said_in_time(played, "deadlock-silent", 31)
    assert played.last.confidence == "medium"
    assert played.last.unknown[0] == "stacks of TP0: ptrace refused: yama scope 1"
    assert ("sysctl kernel.yama.ptrace_scope=0",) in [step.change for step in played.last.next]


def test_ranks_and_gpus_that_spin_at_idle_power_are_a_spinning_dead_lock() -> None:
    told = Story(tp=8).up_to("graphs").all(35, **BUSY).gpu(None, 35, **GPU_SPINS).stacks(FORWARD)
    played = told.play(100)
    said_in_time(played, "deadlock-spinning", 35)
    assert (played.last.confidence, played.last.blames) == ("high", EVERYONE)
    assert "100 % at 115 of 600 W" in played.last.summary


def test_without_stacks_the_power_of_the_gpus_tells_it() -> None:
    played = Story(tp=8).up_to("graphs").all(35, **BUSY).gpu(None, 35, **GPU_SPINS).play(100)
    said_in_time(played, "deadlock-spinning", 35)
    assert played.last.confidence == "medium"


def test_without_a_power_limit_a_busy_gpu_is_never_called_spinning() -> None:
    told = Story(tp=8).up_to("graphs").all(35, **BUSY).gpu(None, 35, **{**GPU_SPINS, "power_limit_w": None})
    assert not told.play(200).kinds & set(DEADLOCKS)


def test_ranks_in_different_collectives_are_a_divergent_dead_lock_of_the_minority() -> None:
    told = Story(tp=8).up_to("graphs").quiet(35).stacks(FORWARD).stacks(GATHER, "TP2", "TP5")
    played = told.play(100)
    said_in_time(played, "deadlock-divergent", 35)
    assert (played.last.confidence, played.last.blames) == ("high", ("TP2", "TP5"))
    assert "TP2,5 in all_gather ‹ prepare_mlp_sync_batch" in played.last.summary


def test_half_of_the_gpus_spinning_and_half_idle_is_divergent_without_stacks() -> None:
    told = Story(tp=8).up_to("graphs").quiet(35)
    for index in range(5):
        told.rank(f"TP{index}", 35, **BUSY).gpu(index, 35, **GPU_SPINS)
    played = told.play(100)
    said_in_time(played, "deadlock-divergent", 35)
    assert played.last.blames == ("TP5", "TP6", "TP7")


def test_idle_compile_workers_do_not_hide_a_dead_lock() -> None:
    told = Story(tp=8).up_to("kv-pool").quiet(31).all(31, children={"inductor": 32, "python": 1}).stacks(ALL_REDUCE)
    said_in_time(told.play(100), "deadlock-silent", 31)


def test_a_soft_watchdog_that_dumps_every_15_s_does_not_hide_it() -> None:
    told = Story(tp=2).up_to("kv-pool").quiet(31).stacks(ALL_REDUCE)
    for at in range(40, 150, 15):
        told.says(at, "TP0", "Scheduler watchdog timeout (self.watchdog_timeout=15.0, self.soft=True)")
        told.says(at + 1, "TP0", "Pyspy dump for PID 200:")
        told.bare(at + 1, "Thread 200 (idle): MainThread\n    all_reduce (torch/distributed/distributed_c10d.py:2100)")
    said_in_time(told.play(150), "deadlock-silent", 31)


def test_two_percent_of_a_core_and_one_peak_are_no_progress() -> None:
    told = Story(tp=2).up_to("kv-pool").quiet(31).all(31, tree_cpu_percent=2.0, cpu_percent=2.0).stacks(ALL_REDUCE)
    told.rank("TP0", 42, tree_cpu_percent=15.0).rank("TP0", 43, tree_cpu_percent=2.0)
    said_in_time(told.play(100), "deadlock-silent", 31)


def test_a_single_rank_can_be_stuck_too() -> None:
    played = Story(tp=1).up_to("graphs").quiet(35).stacks(FORWARD).play(100)
    said_in_time(played, "deadlock-silent", 35)
    assert played.last.blames == ("TP0",)


def test_a_replica_that_is_up_and_spins_does_not_hide_the_other_that_is_stuck() -> None:
    told = Story(tp=1, dp=2).up_to("kv-pool").quiet(31)
    told.says(31, "DP1", "Memory pool end. avail mem=8.00 GB").says(
        31, "DP1", "max_total_num_tokens=9999, max_prefill_tokens=16384, max_running_requests=2048, context_len=4096"
    )
    played = told.rank("DP1", 31, **BUSY).play(100)
    said_in_time(played, "deadlock-silent", 31)
    assert played.last.blames == ("DP0",)


def test_ranks_that_all_sleep_on_purpose_are_stuck_in_their_own_frame() -> None:
    played = Story(tp=2).up_to("kv-pool").quiet(31).stacks(SLEEPS).play(100)
    said_in_time(played, "deadlock-silent", 31)
    assert "__init__" in evidence(played)
    assert played.last.confidence == "medium", "a sleep ends by itself; nobody waits for a peer"


LAUNCHER_WAITS = """
wait (multiprocessing/connection.py:900)
_wait_for_scheduler_ready (sglang/srt/entrypoints/engine.py:2000)
"""


def test_ranks_that_the_launcher_still_waits_for_are_not_up_whatever_the_log_says() -> None:
    told = Story(tp=2).up_to("http").quiet(42).stacks(SLEEPS).stacks(LAUNCHER_WAITS, LAUNCHER)
    played = told.play(100)
    said_in_time(played, "deadlock-silent", 42)
    assert played.last.blames == ("TP0", "TP1")


def test_a_rank_that_works_while_the_launcher_waits_for_it_computes() -> None:
    told = Story(tp=2).up_to("http").quiet(42).stacks(SLEEPS).stacks(LAUNCHER_WAITS, LAUNCHER)
    played = told.rank("TP0", 62, **BUSY).play(110)
    assert played.at(90).verdict == "computing"
    assert played.at(90).blames == ("TP0",)


def test_someone_who_attaches_late_need_not_watch_for_half_a_minute() -> None:
    told = Story(tp=8).up_to("kv-pool").quiet(31)
    whole = told.play(400)
    assert whole.last.verdict == "deadlock-silent"
    late = whole.watched_from(350)
    assert late.first("deadlock-silent") <= 350 + 15
    assert late.kinds <= {"starting", "deadlock-silent"}


def test_dumps_of_before_the_silence_are_no_evidence_of_it() -> None:
    told = Story(tp=8).up_to("kv-pool").quiet(31).stacks(ALL_REDUCE).rank("TP3", 70, **BUSY).quiet(80, "TP3")
    played = told.play(130)
    assert played.at(75).verdict == "computing"
    assert "deadlock-silent" not in {verdict.verdict for at, verdict in played.verdicts if 70 <= at <= 85}


def test_missing_numbers_are_not_zeros() -> None:
    told = Story(tp=8, gpus=False).up_to("kv-pool").quiet(31)
    told.all(31, tree_cpu_percent=None, cpu_percent=None)
    played = told.play(120)
    assert not played.kinds & set(DEADLOCKS)
    assert played.last.verdict == "unknown"


# ----------------------------------------------------------------------------------------------- somebody is to blame


def test_a_rank_stuck_in_its_weights_is_behind_and_the_barrier_clock_runs() -> None:
    told = Story(tp=2).up_to("weights").quiet(30).says(30, "TP0", LOADED)
    played = told.stacks(LOAD_BARRIER, "TP0").stacks(FLOCKLESS_READ, "TP1").play(100)
    said_in_time(played, "one-behind", 30)
    assert played.last.blames == ("TP1",)
    assert "TP0 waits in the barrier after loading" in played.last.summary
    assert "ends by itself" in evidence(played)


FLOCKLESS_READ = """
read_weights (sglang/srt/model_loader/strange.py:12)
load_model (sglang/srt/model_executor/model_runner.py:700)
"""


def test_the_phases_alone_tell_who_is_behind() -> None:
    told = Story(tp=8).up_to("weights").quiet(30)
    for name in EVERYONE:
        if name != "TP3":
            told.says(30, name, LOADED)
    played = told.play(100)
    said_in_time(played, "one-behind", 30)
    assert (played.last.blames, played.last.confidence) == (("TP3",), "medium")


def test_a_silent_rank_zero_that_only_others_have_lines_of_is_not_called_behind_by_a_missing_line() -> None:
    told = Story(tp=8).up_to("dist-init").quiet(18)
    told.says(18, "TP0", "Init torch distributed ends. elapsed=2.90 s, mem usage=0.50 GB")
    told.says(18, "TP0", "Load weight begin. avail mem=90.00 GB")
    assert "one-behind" not in told.play(100).kinds


def test_a_stopped_rank_is_found_by_its_state() -> None:
    told = Story(tp=2).up_to("weights").quiet(25).rank("TP1", 25, state="T")
    played = told.play(80)
    said_in_time(played, "one-behind", 25)
    assert played.first("one-behind") <= 28
    assert (played.last.blames, played.last.confidence) == (("TP1",), "high")
    assert ("kill -CONT 201",) in [step.change for step in played.last.next]


def test_a_debugger_that_looks_for_a_moment_is_no_stop() -> None:
    told = Story(tp=2).up_to("graphs").rank("TP1", 35, state="t").rank("TP1", 36, state="T").rank("TP1", 37, state="R")
    assert "one-behind" not in told.play(60).kinds


def test_nccl_counts_name_the_late_rank() -> None:
    told = Story(tp=8).up_to("graphs").quiet(35)
    for at in (45, 50, 55):
        counts = {n: {"AllReduce": 100 if n != 5 else 99} for n in range(8)}
        ranks = tuple(CollectiveRank(n, pid=200 + n, ours=True, state="running", counts=counts[n]) for n in range(8))
        told.event(Ras(T0 + at, form="json", answered=str(at), communicators=(Communicator("c", 8, ranks),)))
    played = told.play(100)
    said_in_time(played, "one-behind", 35)
    assert played.last.blames == ("TP5",)
    assert "99 AllReduce launched, others 100" in played.last.summary


def test_a_rank_that_does_not_answer_nccl_is_named_once_however_many_communicators_it_is_in() -> None:
    played = _with_silent(CollectiveRank(5, pid=205, ours=True, state="no-answer"))
    assert played.at(48).verdict == "one-behind"
    assert played.at(48).blames == ("TP5",)
    assert "TP5 is behind" in played.at(48).summary
    assert played.last.blames == ("TP5",), "not the other node, though it is silent for longer"


def test_a_process_of_another_node_with_the_pid_of_one_here_is_not_taken_for_it() -> None:
    played = _with_silent(CollectiveRank(9, host="10.0.0.2", pid=205, state="no-answer"))
    assert "one-behind" not in played.kinds


def _with_silent(rank: CollectiveRank) -> Played:
    told = Story(tp=16, nnodes=2, address="10.0.0.1:20000").up_to("graphs").quiet(35)
    for at in (45, 50):
        both = tuple(Communicator(name, 16, (rank,)) for name in ("tp", "world"))
        told.event(Ras(T0 + at, form="json", answered=str(at), communicators=both))
    return told.play(60)


def test_nccl_counts_that_move_mean_slow() -> None:
    told = Story(tp=8).up_to("graphs").quiet(35)
    for at in range(40, 120, 5):
        ranks = tuple(CollectiveRank(n, pid=200 + n, ours=True, counts={"AllReduce": at}) for n in range(8))
        told.event(Ras(T0 + at, form="json", answered=str(at), communicators=(Communicator("c", 8, ranks),)))
    assert not told.play(120).kinds & set(DEADLOCKS)


def test_a_rank_without_a_process_is_missing_for_someone_who_did_not_see_it_end() -> None:
    told = Story(tp=8).up_to("kv-pool").quiet(31)
    told.do(31, lambda: told.forget("TP5"))
    late = told.play(200).watched_from(100)
    assert late.first("rank-missing") <= 110
    assert late.last.blames == ("TP5",)
    assert "7 ranks wait for it" in late.last.summary
    assert late.kinds <= {"starting", "rank-missing"}


def test_ranks_that_are_not_started_yet_are_not_missing() -> None:
    told = Story(tp=8).up_to("spawn")
    for name in EVERYONE[4:]:
        told.do(6, lambda name=name: told.forget(name))
    assert "rank-missing" not in told.play(60).kinds


def test_a_node_alone_waits_for_its_peer_and_the_address_is_named() -> None:
    told = Story(tp=16, nnodes=2, address="10.0.0.1:20000").up_to("dist-init").quiet(18).stacks(RENDEZVOUS)
    played = told.play(100)
    said_in_time(played, "waiting-peer", 18)
    assert (played.last.blames, played.last.confidence) == (("node 1",), "high")
    assert "in the rendezvous at 10.0.0.1:20000 for the other node" in played.last.summary


def test_the_address_is_taken_from_the_command_where_the_log_has_none() -> None:
    told = Story(tp=2, nnodes=2, argv=("python", "--dist-init-addr", "head:5000")).up_to("dist-init").quiet(18)
    played = told.play(60)
    said_in_time(played, "waiting-peer", 18)
    assert "at head:5000" in played.last.summary
    assert played.last.confidence == "medium"


def test_a_rendezvous_on_one_node_that_nobody_is_missing_from() -> None:
    played = Story(tp=2).up_to("dist-init").quiet(18).stacks(RENDEZVOUS).play(80)
    said_in_time(played, "waiting-peer", 18)
    assert "none is missing" in played.last.summary


# ---------------------------------------------------------------------------------------------------------- locks


def test_ranks_in_a_file_lock_and_no_compiler_wait_for_a_lock_that_was_left() -> None:
    told = Story(tp=8).up_to("graphs").quiet(35).stacks(FLOCK)
    played = told.play(100)
    said_in_time(played, "waiting-lock", 35)
    assert played.last.blames == EVERYONE
    assert "no compiler runs" in played.last.summary


def test_one_rank_in_a_lock_and_the_others_in_a_barrier_blames_the_one() -> None:
    told = Story(tp=8).up_to("graphs").quiet(35).stacks(FORWARD).stacks(FLOCK, "TP0")
    played = told.play(100)
    said_in_time(played, "waiting-lock", 35)
    assert played.last.blames == ("TP0",)


def test_the_log_names_a_lock_where_stacks_cannot_be_read() -> None:
    told = Story(tp=2).up_to("graphs").says(35, "TP0", "waiting for baton release at /cache/lock_module").quiet(35)
    played = told.play(100)
    said_in_time(played, "waiting-lock", 35)
    assert any("rm /cache/lock_module" in step.change for step in played.last.next)


def test_the_same_line_with_a_compiler_anywhere_is_a_compile() -> None:
    told = Story(tp=2).up_to("graphs").says(35, "TP0", "waiting for baton release at /cache/lock_module").quiet(35)
    played = told.rank("TP1", 35, children={"hipcc": 1, "clang": 2}, tree_cpu_percent=100.0).play(100)
    assert played.last.verdict == "compiling"
    assert played.last.blames == ("TP1",)


# ------------------------------------------------------------------------------------------------------------- HTTP


def test_a_warm_up_that_the_launcher_still_prepares_is_no_proxy() -> None:
    told = Story(tp=2).up_to("warm-up").all(44, **BUSY).rank(LAUNCHER, 44, cpu_percent=98.0, tree_cpu_percent=98.0)
    played = told.rank(LAUNCHER, 90, **IDLE).play(130)
    assert played.kinds_until(95) <= {"starting", "reading", "computing"}
    assert "The launcher works on the warm-up request (CPU 98 %)" in played.at(80).summary
    assert played.last.verdict == "http-wait"


def test_a_warm_up_that_never_reaches_the_ranks_goes_through_a_proxy() -> None:
    told = Story(tp=2).up_to("warm-up").all(44, **BUSY)
    for at in range(44, 100, 2):
        told.says(at, LAUNCHER, 'INFO:     127.0.0.1:56810 - "GET /model_info HTTP/1.1" 200 OK')
    played = told.play(100)
    said_in_time(played, "http-wait", 44)
    assert "proxy" in played.last.summary
    assert any("--skip-server-warmup" in step.change for step in played.last.next)


def test_a_server_whose_ranks_are_up_and_that_does_not_listen() -> None:
    played = Story(tp=2).up_to("http").rank(LAUNCHER, 44, **IDLE).http(43, listening=False).play(100)
    said_in_time(played, "http-wait", 42)
    assert "has not begun to listen" in played.last.summary
    assert played.last.blames == ("launcher",)


def test_a_first_request_that_hangs_in_the_ranks_is_no_matter_of_http() -> None:
    told = Story(tp=8).up_to("warm-up").says(44, "TP0", "Prefill batch, #new-seq: 1, #new-token: 7").quiet(45)
    played = told.stacks(FORWARD).play(100)
    said_in_time(played, "deadlock-silent", 45)


# ------------------------------------------------------------------------------------------------- what nobody can tell


def test_silence_while_weights_are_read_is_unknown_without_stacks() -> None:
    played = Story(tp=8).up_to("weights").quiet(25).play(100)
    said_in_time(played, "unknown", 25)
    assert "the file system does not answer" in played.last.summary


def test_stacks_that_show_a_read_keep_it_from_being_a_dead_lock() -> None:
    played = Story(tp=8).up_to("weights").quiet(25).stacks(READS).play(100)
    assert not played.kinds & set(DEADLOCKS)


def test_stacks_in_the_barrier_after_the_weights_of_all_make_it_one() -> None:
    told = Story(tp=8).up_to("weights").quiet(25).stacks(LOAD_BARRIER)
    said_in_time(told.play(100), "deadlock-silent", 25)
