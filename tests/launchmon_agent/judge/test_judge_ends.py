"""Crashes: the earliest failure is the cause and the rest are victims. And what looks like one and is none."""

from __future__ import annotations

import signal

import pytest

from launchmon_agent.events import Action, Exit, GpuProcess, Process, Processes, Run
from launchmon_agent.judge.verdict import judge
from launchmon_agent.judge.window import EvidenceWindow
from launchmon_agent.model import RunModel
from tests.support.story import GIB, GPU_WORKS, LAUNCHER, LAUNCHER_PID, T0, Story

AT_ONCE_S = 2.0
TRACEBACK = "Scheduler hit an exception: Traceback (most recent call last):"
CLOSED = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:10283"
SIGQUIT = "Received sigquit from a child process. It usually means the child failed."


def fails(told: Story, at: float, who: str, last_line: str) -> Story:
    """A traceback of a rank as SGLang prints it."""
    told.says(at, who, TRACEBACK)
    return told.bare(at, f'  File "scheduler.py", line 1, in run\n    work()\n{last_line}\n')


def all_die(told: Story, at: float, *but: str) -> Story:
    """SGLang's own clean-up: everything is killed, the launcher last."""
    told.says(at, LAUNCHER, SIGQUIT).says(at, LAUNCHER, "kill_process_tree called: parent_pid=100, pid=100")
    for name in told.ranks:
        if name not in but:
            told.dies(at + 0.1, name)
    return told.dies(at + 0.2, LAUNCHER)


# ------------------------------------------------------------------------------------------------------- who was first


def test_an_exception_of_one_rank_is_the_cause_and_the_killed_ones_are_its_victims() -> None:
    told = fails(Story(tp=8).up_to("weights"), 25, "TP3", "RuntimeError: start (8) + length (8) exceeds dimension size")
    played = all_die(told, 26).play(40)
    assert played.first("crashed") <= 25 + AT_ONCE_S
    assert (played.last.verdict, played.last.blames, played.last.confidence) == ("crashed", ("TP3",), "high")
    assert "TP3 failed in weights: RuntimeError: start (8)" in played.last.summary


def test_a_killed_rank_prints_nothing_and_its_peers_are_not_blamed() -> None:
    told = Story(tp=2).up_to("kv-pool").dies(34, "TP1")
    played = all_die(fails(told, 35, "TP0", CLOSED), 36, "TP1").play(50)
    assert played.first("crashed") <= 34 + AT_ONCE_S
    assert played.last.blames == ("TP1",)
    assert "killed by SIGKILL" in played.last.summary


def test_a_killed_rank_is_the_cause_though_a_peer_fails_loudly_in_the_same_second() -> None:
    told = Story(tp=2).up_to("kv-pool").dies(34.2, "TP1")
    told = fails(told, 34, "TP0", "torch.distributed.DistBackendError: NCCL error: remote process exited")
    played = all_die(told, 36, "TP1").play(50)
    assert played.last.blames == ("TP1",)


def test_the_kernel_names_the_rank_that_it_killed_for_lack_of_memory() -> None:
    told = (
        Story(tp=8).up_to("weights").kernel(25, "oom-kill", "Out of memory: Killed process 205 (sglang::schedul)", 205)
    )
    played = all_die(fails(told.dies(25, "TP5"), 26, "TP0", CLOSED), 27, "TP5").play(40)
    assert played.first("crashed") <= 25 + AT_ONCE_S
    assert (played.last.blames, played.last.confidence) == (("TP5",), "high")
    assert "the host ran out of memory" in played.last.summary


def test_a_kill_in_a_control_group_is_told_from_one_of_the_host() -> None:
    text = "Memory cgroup out of memory: Killed process 201 (sglang::schedul)"
    played = Story(tp=2).up_to("weights").kernel(25, "oom-kill", text, 201).dies(25, "TP1").play(40)
    assert "its control group ran out of memory" in played.last.summary


def test_without_the_kernels_log_the_count_of_the_control_group_tells() -> None:
    told = Story(tp=2).up_to("weights").host(0, cgroup_oom_kills=0).host(25, cgroup_oom_kills=1).dies(25, "TP1")
    assert "the count of OOM kills went up" in told.play(40).last.summary


def test_a_kill_on_a_full_host_says_how_full() -> None:
    told = Story(tp=2).up_to("weights").host(24, memory_available=4 * GIB).dies(25, "TP1")
    assert "The host was out of memory: 4.0 GiB were available" in told.play(40).last.summary


def test_a_kill_on_an_empty_host_is_not_called_out_of_memory() -> None:
    played = Story(tp=2).up_to("weights").dies(25, "TP1").play(40)
    assert "memory" not in played.last.summary


def test_a_bus_error_on_a_full_shared_memory() -> None:
    told = Story(tp=2).up_to("dist-init").host(17, shm_total=64 * 2**20, shm_used=64 * 2**20)
    played = told.dies(18, "TP0", -signal.SIGBUS).play(30)
    assert "/dev/shm is full: 64 MiB of 64 MiB" in played.last.summary


def test_an_xid_before_the_failure_is_the_cause() -> None:
    told = Story(tp=2).up_to("graphs").gpu(1, 0, pci="00000000:3B:00.0")
    told.kernel(35, "xid", "NVRM: Xid (PCI:0000:3b:00): 79, pid=201, GPU has fallen off the bus.")
    played = fails(told, 36, "TP0", "RuntimeError: CUDA error: unspecified launch failure").play(50)
    assert played.last.blames == ("TP1",)
    assert "Xid (PCI:0000:3b:00): 79" in played.last.summary


def test_an_xid_that_only_cleans_up_is_no_cause() -> None:
    told = Story(tp=2).up_to("graphs").gpu(1, 0, pci="00000000:3B:00.0")
    told.kernel(36, "xid", "NVRM: Xid (PCI:0000:3b:00): 45, pid=201, Ch 00000010")
    assert fails(told, 36, "TP0", "ValueError: no").play(50).last.blames == ("TP0",)


def test_an_xid_and_silence_is_a_crash_though_nobody_says_so() -> None:
    told = Story(tp=2).up_to("graphs").gpu(1, 0, pci="00000000:3B:00.0").quiet(35)
    told.kernel(35, "xid", "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
    played = told.play(60)
    assert played.first("crashed") <= 50
    assert played.last.blames == ("TP1",)


def test_an_xid_of_a_gpu_that_works_on_is_no_crash() -> None:
    told = Story(tp=2).up_to("graphs").gpu(1, 0, pci="00000000:3B:00.0").gpu(None, 35, **GPU_WORKS)
    told.kernel(35, "xid", "NVRM: Xid (PCI:0000:3b:00): 63, Row remapping")
    assert "crashed" not in told.play(80).kinds


def test_a_segfault_is_told_as_what_it_is() -> None:
    told = Story(tp=2).up_to("graphs").kernel(35, "segfault", "sglang::schedul[201]: segfault at 0 ip 0", 201)
    played = told.dies(35, "TP1", -signal.SIGSEGV).play(50)
    assert "TP1 died of a segmentation fault in graphs" in played.last.summary


def test_a_launcher_that_does_not_notice_a_dead_rank_is_said_to() -> None:
    told = Story(tp=8).up_to("kv-pool").quiet(31).dies(34, "TP5", None)
    played = told.play(90)
    assert played.first("crashed") <= 34 + AT_ONCE_S
    assert {verdict.verdict for at, verdict in played.verdicts if at > 36} == {"crashed"}
    assert "7 of 8 ranks still live and wait for it; the launcher has not noticed" in played.last.summary
    assert played.last.next[0].do == "kill"


def test_the_launcher_of_a_later_node_reports_a_dead_rank_by_its_pid() -> None:
    told = Story(tp=2, nnodes=2, node_rank=1, address="10.0.0.1:20000").up_to("kv-pool").dies(34.4, "TP1")
    told.says(34, LAUNCHER, "Scheduler or DataParallelController 200 terminated with -9")
    played = told.dies(35, LAUNCHER).play(45)
    assert (played.last.verdict, played.last.blames) == ("crashed", ("TP1",))
    assert "killed by SIGKILL" in played.last.summary


def test_how_long_a_server_that_has_failed_still_holds_its_memory_is_counted_down() -> None:
    told = fails(Story(tp=2).up_to("ready"), 60, "TP1", "RuntimeError: CUDA error: unknown error")
    told.says(61, LAUNCHER, "SIGQUIT received. signum=3, frame=None. It usually means one child failed.")
    played = told.dies(110, LAUNCHER).play(115)
    lingers, gone = played.at(100), played.last
    assert (lingers.verdict, gone.verdict) == ("crashed", "crashed")
    assert [clock.name for clock in lingers.clocks] == ["crash diagnostics"]
    assert 20 <= lingers.clocks[0].ends_in_s <= 30
    assert "ends by itself" in {item.what for item in lingers.evidence}
    assert gone.clocks == ()


def test_the_launchers_word_for_a_dead_rank_blames_that_rank() -> None:
    told = Story(tp=2).up_to("spawn").says(12, LAUNCHER, "Traceback (most recent call last):")
    told.bare(12, "  File x\nRuntimeError: Rank 1 scheduler died during initialization (exit code: -9). If exit code\n")
    assert told.dies(13, LAUNCHER, 1).play(30).last.blames == ("TP1",)


# ------------------------------------------------------------------------------------------------ what the error means


@pytest.mark.parametrize(
    ("phase", "last_line", "words", "change"),
    [
        ("weights", "torch.OutOfMemoryError: CUDA out of memory. Tried", "do not fit on this many GPUs", "--tp"),
        (
            "kv-pool",
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            "has to go up",
            "--mem-fraction-static",
        ),
        ("graphs", "torch.OutOfMemoryError: CUDA out of memory. Tried", "has to go down", "--mem-fraction-static"),
        (
            "warm-up",
            "torch.OutOfMemoryError: CUDA out of memory. Tried",
            "--chunked-prefill-size has to go down",
            "--mem-fraction-static",
        ),
        (
            "dist-init",
            "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied",
            "something else uses it",
            "nvidia-smi",
        ),
        (
            "spawn",
            "ImportError: /x/common_ops.abi3.so: undefined symbol: cuGreenCtxStreamCreate",
            "driver is too old",
            "nvidia-smi",
        ),
        (
            "spawn",
            "ImportError: /x/common_ops.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEab",
            "another version of torch",
            "pip list",
        ),
        (
            "spawn",
            "ImportError: libnuma.so.1: cannot open shared object file: No such file",
            "libnuma is missing",
            "apt-get install libnuma1",
        ),
        (
            "graphs",
            "RuntimeError: CUDA error: no kernel image is available for execution",
            "no code for this GPU",
            "nvidia-smi --query-gpu=compute_cap --format=csv",
        ),
        (
            "weights",
            "RuntimeError: TP rank 0 could finish the model loading, but there are other ranks that",
            "gave up waiting",
            "",
        ),
        ("weights", "AssertionError: assert numerator % denominator == 0", "cannot be divided", "--tp"),
        ("dist-init", "torch.distributed.DistStoreError: Timed out after 600 seconds", "did not all meet", "ss -tlnp"),
    ],
)
def test_the_last_line_says_what_to_change(phase: str, last_line: str, words: str, change: str) -> None:
    played = all_die(fails(Story(tp=2).up_to(phase), 50, "TP0", last_line), 51).play(60)
    assert played.last.verdict == "crashed"
    assert words in played.last.summary
    assert not change or any(change in step.change for step in played.last.next), played.last.next


def test_an_unknown_flag_is_a_crash_of_the_launcher() -> None:
    told = Story(tp=1).up_to("start").bare(3, "launch_server.py: error: unrecognized arguments: --enable-reasoning")
    played = told.dies(3, LAUNCHER, 2).play(20)
    assert played.first("crashed") <= 3 + AT_ONCE_S
    assert "--enable-reasoning" in played.last.summary
    assert "does not take this command line" in played.last.summary


def test_memory_that_a_process_of_nobody_holds_is_named() -> None:
    told = Story(tp=2).up_to("weights")
    told.gpu(1, 0, processes=(GpuProcess(201, 30 * GIB), GpuProcess(7777, 61 * GIB)))
    played = fails(told, 25, "TP1", "torch.OutOfMemoryError: CUDA out of memory. Tried").play(40)
    held = [item for item in played.last.evidence if item.what == "GPU 1"]
    assert [item.value for item in held] == ["61 GiB held by pid 7777, which is not of this run"]


# --------------------------------------------------------------------------------------------------------- its likes


def test_a_server_that_was_told_to_stop_has_not_crashed() -> None:
    told = Story(tp=2).up_to("ready").says(60, LAUNCHER, "SIGTERM received. signum=15 frame=None. Draining requests")
    told.dies(62, "TP0").dies(62, "TP1").dies(62.1, LAUNCHER, 0)
    played = told.play(80)
    assert played.kinds <= {"starting", "reading", "ready", "stopped"}
    assert played.last.verdict == "stopped"


def test_what_launchmon_itself_kills_is_stopped() -> None:
    told = (
        Story(tp=2).up_to("weights").event(Action(T0 + 25, action="kill", id="k", step="TERM launcher", state="doing"))
    )
    played = told.dies(26, LAUNCHER, -15).dies(26.5, "TP0").dies(26.5, "TP1").play(40)
    assert played.kinds <= {"starting", "reading", "stopped"}
    assert played.last.verdict == "stopped"


def test_the_ready_line_of_a_server_that_lost_its_port() -> None:
    told = Story(tp=2).up_to("ready").http(43, ours=False, owner_pid=999)
    played = told.play(60)
    assert (played.last.verdict, played.last.blames) == ("crashed", ("launcher",))
    assert "held by another server, pid 999" in played.last.summary


def test_an_ignored_import_error_is_none() -> None:
    told = Story(tp=2).up_to("ready").says(18, "TP0", "Ignore import error when loading sglang.srt.models.x: No module")
    assert "crashed" not in told.play(60).kinds
    assert LAUNCHER_PID == 100


def test_a_rank_that_died_in_the_midst_of_a_look_is_judged_after_the_next() -> None:
    """The launcher was looked at before the rank, and may have gone with it; the look took long."""
    model, window = RunModel(), EvidenceWindow()
    launcher, rank = Process(1, 1.0, "launcher"), Process(2, 1.0, "scheduler", rank="TP0")
    for event in (
        Run(T0, id="r", pid=1, start_time=1.0),
        Processes(T0 + 1, (launcher, rank)),
        Processes(T0 + 2, (launcher,)),
        Exit(T0 + 2.1, 2, 1.0, "scheduler", "TP0", -9),
    ):
        model.fold(event)
        window.fold(event)
    assert judge(model, window, T0 + 4).verdict != "crashed"
    later = Processes(T0 + 4, (launcher,))
    model.fold(later)
    window.fold(later)
    assert judge(model, window, T0 + 4).verdict == "crashed"
