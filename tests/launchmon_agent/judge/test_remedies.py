"""Which remedy is offered for what, in which order, and what is never offered."""

from __future__ import annotations

import dataclasses

import pytest

from launchmon_agent.events import Gpu, Gpus, LogError, Mark, Run
from launchmon_agent.judge.remedies import (
    CONDITIONS,
    DOES,
    MOST,
    Context,
    RemedyRow,
    context_of,
    flag_of,
    remedies,
    rows,
)
from launchmon_agent.judge.surroundings import CURABLE
from launchmon_agent.model import RunModel
from launchmon_agent.sglang import table
from launchmon_agent.sglang.rail import RAIL

KINDS = frozenset(
    {
        *("starting", "reading", "downloading", "compiling", "computing", "waiting-peer", "waiting-lock"),
        *("rank-missing", "one-behind", "deadlock-silent", "deadlock-spinning", "deadlock-divergent", "crashed"),
        *("http-wait", "ready", "serving", "hung-serving", "stopped", "unknown"),
    }
)
SERVER = ("python", "-m", "sglang.launch_server", "--model-path", "/models/kimi", "--tp", "8")
SEED = Context(
    phase="kv-pool",
    functions=(("all_reduce", "GroupCoordinator.all_reduce", "init_memory_pool", "__init__"),),
    version="0.5.23",
    argv=SERVER,
    ranks_here=8,
)


def offered(kind: str, context: Context, **more: object) -> list[tuple[str, tuple[str, ...]]]:
    return [(step.do, step.change) for step in remedies(kind, context, **more)]  # type: ignore[arg-type]


def changes(kind: str, context: Context, **more: object) -> list[str]:
    return [part for _, change in offered(kind, context, **more) for part in change]


# ------------------------------------------------------------------------------------------------------ by circumstance


@pytest.mark.parametrize("kind", ["deadlock-silent", "deadlock-spinning"])
@pytest.mark.parametrize("functions", [SEED.functions, ()], ids=["with stacks", "without"])
def test_a_dead_lock_after_the_weights_is_first_tried_without_graphs(
    kind: str, functions: tuple[tuple[str, ...], ...]
) -> None:
    context = dataclasses.replace(SEED, functions=functions)
    assert ("relaunch", ("--disable-cuda-graph",)) in offered(kind, context)[:2]


def test_the_order_of_proof_for_a_dead_lock_on_pcie() -> None:
    assert offered("deadlock-silent", SEED)[:4] == [
        ("relaunch", ("--disable-cuda-graph",)),
        ("relaunch", ("--disable-custom-all-reduce",)),
        ("relaunch", ("NCCL_P2P_DISABLE=1", "--disable-custom-all-reduce")),
        ("relaunch", ("NCCL_P2P_LEVEL=NVL",)),
    ]


def test_over_nvlink_the_way_between_gpus_is_not_suspected() -> None:
    found = changes("deadlock-silent", dataclasses.replace(SEED, nvlink=True))
    assert not any(change.startswith("NCCL_P2P") for change in found)
    assert "--disable-custom-all-reduce" in found


def test_a_stack_in_the_set_up_of_the_custom_all_reduce_puts_its_flag_first() -> None:
    context = dataclasses.replace(SEED, functions=(("all_gather_object", "CustomAllreduce.create_shared_buffer"),))
    assert offered("deadlock-silent", context)[0] == ("relaunch", ("--disable-custom-all-reduce",))


def test_one_gpu_has_no_partner() -> None:
    found = changes("deadlock-spinning", dataclasses.replace(SEED, ranks_here=1, phase="graphs"))
    assert "--disable-custom-all-reduce" not in found
    assert "--attention-backend=triton" in found


def test_without_stacks_they_are_asked_for() -> None:
    assert ("dump", ()) in offered("one-behind", dataclasses.replace(SEED, functions=()))
    assert ("dump", ()) not in offered("one-behind", SEED)


def test_the_risks_that_are_taken_are_dropped_first() -> None:
    argv = (*SERVER, "--enable-dp-attention", "--dp-size", "8", "--enable-hierarchical-cache")
    context = dataclasses.replace(SEED, phase="warm-up", argv=argv)
    assert offered("deadlock-divergent", context)[:2] == [
        ("relaunch", ("drop --enable-dp-attention", "drop --dp-size")),
        ("relaunch", ("drop --enable-hierarchical-cache",)),
    ]


def test_network_remedies_are_for_several_nodes() -> None:
    context = dataclasses.replace(SEED, phase="dist-init", nnodes=2)
    assert "NCCL_MNNVL_ENABLE=1" in [part for row in rows() if row.id == "nccl-mnnvl" for part in row.change]
    assert ("run", ("ip route get HEAD_NODE_ADDRESS",)) in offered("waiting-peer", context)
    assert not any(do == "run" for do, _ in offered("waiting-peer", dataclasses.replace(context, nnodes=1)))


def test_another_launchers_variables_are_unset_where_they_are_set() -> None:
    context = dataclasses.replace(SEED, phase="dist-init", variables={"RANK": "0", "WORLD_SIZE": "8"})
    assert offered("waiting-peer", context)[0] == ("relaunch", ("unset RANK", "unset WORLD_SIZE"))
    assert "unset RANK" not in changes("waiting-peer", dataclasses.replace(SEED, phase="dist-init"))


def test_the_lock_that_is_known_is_named() -> None:
    lock = "/c/torch_extensions/x/lock"
    assert offered("waiting-lock", dataclasses.replace(SEED, lock=lock))[0] == ("run", (f"rm {lock}",))
    assert not any("rm " in part for part in changes("waiting-lock", SEED))


def test_a_lock_that_the_log_names_is_no_command_of_its_own() -> None:
    steps = offered("waiting-lock", dataclasses.replace(SEED, lock="/c/x;reboot"))
    assert steps[0] == ("run", ("rm '/c/x;reboot'",))


@pytest.mark.parametrize(
    ("model", "command"),
    [
        (("--model-path", "/models/my kimi"), "cat '/models/my kimi'/*.safetensors > /dev/null"),
        (("--model=./kimi",), "cat ./kimi/*.safetensors > /dev/null"),
        (("--model-path", "moonshotai/Kimi-K2"), None),
    ],
    ids=["a path", "a relative one", "a name on the hub"],
)
def test_only_files_that_are_here_are_read_beforehand(model: tuple[str, ...], command: str | None) -> None:
    context = dataclasses.replace(SEED, phase="weights", argv=(*SERVER[:3], *model))
    read = [part for part in changes("one-behind", context) if part.startswith("cat ")]
    assert read == ([] if command is None else [command])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Entering DeepGEMM JIT Pre-Compile session. It may take a long time", True),
        ("Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=4096, K=7168, num_groups=1", True),
        ("2026-01-01 00:00:00,000 - INFO - flashinfer.jit: Loading JIT ops: norm", False),
    ],
)
def test_the_compile_of_deepgemm_is_taken_out_of_the_launch_where_the_log_speaks_of_it(line: str, said: bool) -> None:
    model = RunModel()
    model.fold(Run(0.0, id="r", argv=SERVER, tp=8, engine_version="0.5.23"))
    model.fold(Mark(1.0, id="jit", what="info", phase="jit", rank="TP0", text=line))
    steps = offered("one-behind", context_of(model))
    assert (("run", ("python -m sglang.compile_deep_gemm --model-path /models/kimi",)) in steps) is said


def test_a_rank_that_is_late_with_its_weights_reads_in_another_way() -> None:
    steps = offered("one-behind", dataclasses.replace(SEED, phase="weights"))
    assert steps[:2] == [
        ("relaunch", ("--weight-loader-disable-mmap",)),
        ("relaunch", ("--weight-loader-prefetch-checkpoints",)),
    ]


def test_a_proxy_is_passed_by() -> None:
    context = dataclasses.replace(SEED, phase="warm-up", variables={"http_proxy": "set"})
    assert changes("http-wait", context)[0] == "no_proxy=127.0.0.1,localhost,0.0.0.0"
    assert not any("proxy" in part for part in changes("http-wait", dataclasses.replace(context, variables={})))


def test_the_direction_of_the_memory_fraction_depends_on_the_failure() -> None:
    context = dataclasses.replace(SEED, fraction=0.85)
    up = dataclasses.replace(context, errors=frozenset({"no_kv_memory"}))
    down = dataclasses.replace(context, phase="graphs", errors=frozenset({"cuda_oom"}))
    assert changes("crashed", up)[0] == "--mem-fraction-static=0.90"
    assert changes("crashed", down)[0] == "--mem-fraction-static=0.80"
    weights = dataclasses.replace(context, phase="weights", errors=frozenset({"cuda_oom"}))
    assert not any(part.startswith("--mem-fraction") for part in changes("crashed", weights))


def test_a_fraction_that_is_not_known_is_not_made_up() -> None:
    found = changes("crashed", dataclasses.replace(SEED, errors=frozenset({"no_kv_memory"})))
    assert not any(part.startswith("--mem-fraction") for part in found)


def test_the_next_port() -> None:
    taken = frozenset({"port_taken"})
    assert changes("crashed", dataclasses.replace(SEED, errors=taken))[0] == "--port=30001"
    argv = (*SERVER, "--port", "31000")
    assert changes("crashed", dataclasses.replace(SEED, errors=taken, argv=argv))[0] == "--port=31001"


@pytest.mark.parametrize(
    "text, wanted",
    [
        (
            "ImportError: x.so: undefined symbol: _ZN3c108ListType3getERKNSt7",
            'pip install --force-reinstall "sglang[all]"',
        ),
        ("ImportError: x.so: undefined symbol: cuGreenCtxStreamCreate", "nvidia-smi"),
        ("ImportError: libnuma.so.1: cannot open shared object file", "apt-get install libnuma1"),
        ("ImportError: libnvrtc.so.12: cannot open shared object file", "find / -name 'libnvrtc.so*' -o -name"),
        ("/tmp/x/main.c:5:10: fatal error: Python.h: No such file", "apt-get install python3-dev"),
        ("ptxas fatal : Value 'sm_121a' is not defined for option 'gpu-name'", "TRITON_PTXAS_PATH=/usr/local/cuda"),
        ("RuntimeError: CUDA error: Error 802: system not yet initialized", "systemctl status nvidia-fabricmanager"),
        ("HTTPError: 401 Client Error: Unauthorized for url", "hf auth login"),
    ],
)
def test_the_last_line_of_a_failure_decides(text: str, wanted: str) -> None:
    model = RunModel()
    model.fold(Run(0.0, id="r", argv=SERVER, tp=8, engine_version="0.5.23"))
    model.fold(LogError(1.0, id="traceback", severity="fatal", text="Traceback (most recent call last):", detail=text))
    assert changes("crashed", context_of(model))[0].startswith(wanted)


def test_an_interface_that_gloo_does_not_find_is_unset_where_it_is_set() -> None:
    text = "RuntimeError: [enforce fail at device.cc:84] ifa != nullptr. Unable to find address for: ^lo,docker"
    context = dataclasses.replace(SEED, phase="dist-init", text=text)
    assert "unset GLOO_SOCKET_IFNAME" not in changes("crashed", context)
    context = dataclasses.replace(context, variables={"GLOO_SOCKET_IFNAME": "^lo,docker"})
    assert changes("crashed", context)[0] == "unset GLOO_SOCKET_IFNAME"


# ---------------------------------------------------------------------------------------------------------- what is not


def test_what_is_set_already_is_not_offered_again() -> None:
    argv = (*SERVER, "--disable-cuda-graph", "--disable-custom-all-reduce")
    found = changes("deadlock-silent", dataclasses.replace(SEED, argv=argv, variables={"NCCL_P2P_DISABLE": "1"}))
    assert not {"--disable-cuda-graph", "--disable-custom-all-reduce", "NCCL_P2P_DISABLE=1"} & set(found)


def test_a_change_of_which_a_part_is_done_offers_the_rest() -> None:
    context = dataclasses.replace(SEED, argv=(*SERVER, "--disable-custom-all-reduce"))
    assert ("relaunch", ("NCCL_P2P_DISABLE=1",)) in offered("deadlock-silent", context)


def test_a_flag_with_another_value_is_offered() -> None:
    context = dataclasses.replace(SEED, phase="graphs", argv=(*SERVER, "--cuda-graph-max-bs-decode", "256"))
    assert "--cuda-graph-max-bs-decode=32" in changes("deadlock-silent", context)
    context = dataclasses.replace(SEED, phase="graphs", argv=(*SERVER, "--cuda-graph-max-bs-decode=32"))
    assert "--cuda-graph-max-bs-decode=32" not in changes("deadlock-silent", context)


def test_flags_follow_the_release() -> None:
    old, new = (dataclasses.replace(SEED, phase="graphs", version=version) for version in ("0.5.6.post2", "0.5.22"))
    assert "--cuda-graph-max-bs=32" in changes("deadlock-silent", old)
    assert "--cuda-graph-max-bs-decode=32" in changes("deadlock-silent", new)
    assert "--cuda-graph-max-bs=32" not in changes("deadlock-silent", new)


def test_a_flag_that_the_installed_sglang_does_not_have_is_never_offered() -> None:
    asked = []

    def supports(flag: str) -> bool | None:
        asked.append(flag)
        return False if flag == "--disable-custom-all-reduce" else None

    found = changes("deadlock-silent", SEED, supports=supports)
    assert "--disable-cuda-graph" in found and "--disable-custom-all-reduce" not in found
    assert all(flag.startswith("--") and "=" not in flag for flag in asked)


def test_there_are_never_more_than_a_person_tries() -> None:
    for kind in sorted(KINDS):
        for phase in RAIL:
            context = dataclasses.replace(SEED, phase=phase, nnodes=2, functions=(), errors=frozenset({"cuda_oom"}))
            steps = offered(kind, context)
            assert len(steps) <= MOST
            assert len(set(steps)) == len(steps)


def test_a_healthy_server_needs_nothing() -> None:
    for kind in ("ready", "serving", "stopped", "starting", "computing"):
        assert remedies(kind, SEED) == ()


def test_circumstances_come_from_the_model() -> None:
    model = RunModel()
    assert context_of(model) == Context(phase="start")
    model.fold(Run(0.0, id="r", argv=SERVER, tp=8, engine_version="0.5.23", nnodes=2, variables={"A": "1"}))
    model.fold(Mark(1.0, id="args", what="end", phase="start", values={"mem_fraction_static": "0.87"}))
    model.fold(
        LogError(2.0, id="scheduler_exception", severity="fatal", rank="TP1", text="t", detail="CUDA out of memory.")
    )
    model.fold(Gpus(3.0, gpus=(Gpu(0, name="NVIDIA H200"),)))
    found = context_of(model, functions=[["a", "b"]], lock="/l", variables={"B": "2"})
    assert (found.version, found.ranks_here, found.nnodes, found.fraction) == ("0.5.23", 4, 2, 0.87)
    assert found.errors == {"scheduler_exception", "cuda_oom"} and found.nvlink is True
    assert (found.functions, found.lock, found.variables) == ((("a", "b"),), "/l", {"A": "1", "B": "2"})


# ---------------------------------------------------------------------------------------------------------------- table


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.id)
def test_each_row(row: RemedyRow) -> None:
    assert row.kinds and row.kinds <= CURABLE, "no verdict of another kind asks for remedies"
    assert row.phases <= set(RAIL)
    known = {error.id for error in table.error_rows()} | {cause.id for cause in table.cause_rows()}
    assert row.errors <= known
    assert row.do in DOES and set(row.when) <= set(CONDITIONS)
    assert row.text is None or not row.text.search(""), "would fit everything"
    assert not row.why.endswith(".") and "  " not in row.why
    assert "#" in row.source or "sglang" in row.source or row.source == "run" or '"' in row.source
    for change in row.change if row.do == "relaunch" else ():
        if change.startswith("--"):
            assert flag_of(change) == change or change.partition("=")[2], "a value, or none"
        else:
            name = change.removeprefix("drop ").removeprefix("unset ").partition("=")[0]
            assert name.startswith("--") == change.startswith("drop ")


def test_every_condition_is_used() -> None:
    assert {condition for row in rows() for condition in row.when} == set(CONDITIONS)


def test_rows_of_one_change_say_apart_when() -> None:
    """Two rows with the same change have different circumstances: else one of them is never offered."""
    seen: dict[object, str] = {}
    for row in rows():
        key = (row.kinds, row.phases, row.chains, row.errors, row.text, row.when, row.do, row.change, row.versions)
        assert key not in seen, f"{row.id} says what {seen.get(key)} says"
        seen[key] = row.id
