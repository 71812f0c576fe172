"""What preflight says of a command, from facts written down."""

from __future__ import annotations

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.events import Gpu, GpuProcess, Gpus, Orphan
from launchmon_agent.preflight.checks import findings
from launchmon_agent.preflight.environment import LOOKS
from launchmon_agent.preflight.facts import Facts, Limits, Lock, Model
from launchmon_agent.preflight.finding import ERROR, SEVERITIES, WARNING, Finding
from launchmon_agent.preflight.start import Start
from launchmon_agent.sglang.command import parse

GIB = 1 << 30


def said(*flags: str, env: dict[str, str] | None = None, **facts: object) -> dict[str, Finding]:
    command = parse(("python", "-m", "sglang.launch_server", "--model-path", "/m/kimi", *flags))
    known = Facts(**{"model": Model("/m/kimi"), **facts})  # type: ignore[arg-type]
    return {finding.id: finding for finding in findings(Start(command, env or {}, known))}


def gpus(count: int, used: float = 0.1, pids: tuple[int, ...] = ()) -> Gpus:
    return Gpus(
        0.0,
        gpus=tuple(
            Gpu(
                number,
                uuid=f"GPU-{number}aaaa",
                memory_used=int(used * GIB),
                memory_total=96 * GIB,
                processes=tuple(GpuProcess(pid, GIB) for pid in pids),
            )
            for number in range(count)
        ),
    )


def config(**values: object) -> Model:
    return Model("/m/kimi", config=dict(values))


def test_nothing_to_say_of_a_launch_that_fits() -> None:
    facts = {
        "gpus": gpus(8),
        "model": Model("/m/kimi", {"num_attention_heads": 64}, 64, ()),
        "orphans": (),
        "locks": (),
        "interfaces": frozenset({"lo", "eth0"}),
        "shm_total": 500 * GIB,
        "shm_free": 400 * GIB,
        "limits": Limits(1048576, None),
        "py_spy": True,
    }
    assert said("--tp", "8", **facts) == {}


def test_nothing_that_is_not_known_is_complained_of() -> None:
    assert said("--tp", "8", "--nnodes", "1") == {}


def test_errors_come_first() -> None:
    everything = said("--tp", "3", "--nnodes", "2", env={"RANK": "0", "LD_PRELOAD": "x"}, gpus=gpus(0))
    order = [SEVERITIES.index(finding.severity) for finding in everything.values()]
    assert order == sorted(order) and len(set(order)) == 3
    assert all(finding.what and not finding.what.endswith(".") for finding in everything.values())


# ---------------------------------------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    "flags, id_, try_",
    [
        (("--tp", "8", "--nnodes", "3", "--dist-init-addr", "h:1"), "nodes", "--nnodes 2"),
        (("--tp", "8", "--nnodes", "2", "--node-rank", "2", "--dist-init-addr", "h:1"), "node-rank", "--node-rank 1"),
        (("--tp", "8", "--dp", "3", "--enable-dp-attention"), "attention-dp", "--dp-size 2"),
        (("--tp", "8", "--nnodes", "2"), "dist-init-addr", "--dist-init-addr HEAD_NODE:20000"),
    ],
)
def test_sizes_that_do_not_fit(flags: tuple[str, ...], id_: str, try_: str) -> None:
    finding = said(*flags)[id_]
    assert (finding.severity, finding.try_) == (ERROR, try_)


def test_heads_have_to_be_divided() -> None:
    finding = said("--tp", "6", model=config(num_attention_heads=64))["heads"]
    assert (finding.what, finding.try_) == ("64 attention heads are not divided by 6 ranks", "--tp-size 4")
    assert "heads" not in said("--tp", "8", model=config(num_attention_heads=64))
    assert "heads" in said("--tp", "6", model=config(text_config={"num_attention_heads": 64}))
    assert "heads" not in said("--tp", "6", model=config())
    assert "heads" not in said("--tp", "6", "--device", "cpu", model=config(num_attention_heads=64))


def test_with_dp_attention_a_group_divides_the_heads() -> None:
    flags = ("--tp", "8", "--dp", "4", "--enable-dp-attention")
    assert "heads" not in said(*flags, model=config(num_attention_heads=6))
    assert said(*flags, model=config(num_attention_heads=9))["heads"].try_ == "--tp-size 4"


def test_gpus_are_counted() -> None:
    finding = said("--tp", "8", gpus=gpus(4))["gpu-count"]
    assert (finding.severity, finding.what) == (ERROR, "8 GPUs are needed here, 4 are there")
    assert "gpu-count" not in said("--tp", "8", gpus=gpus(8))
    assert "gpu-count" not in said("--tp", "16", "--nnodes", "2", "--dist-init-addr", "h:1", gpus=gpus(8))
    assert "gpu-count" in said("--tp", "4", "--dp", "3", gpus=gpus(8))
    assert "gpu-count" in said("--tp", "4", "--base-gpu-id", "6", gpus=gpus(8))
    assert "gpu-count" in said("--tp", "4", "--gpu-id-step", "3", gpus=gpus(8))
    assert "gpu-count" not in said("--tp", "8", "--device", "cpu", gpus=gpus(0))
    assert said("--tp", "8", gpus=Gpus(0.0, error="no driver"))["no-gpu"].why == "no driver"


@pytest.mark.parametrize(
    "visible, ok",
    [("0,1", True), ("0,1,2", True), ("1", False), ("0,9,1", False), ("", False), ("GPU-0a,GPU-3", True),
     ("MIG-1,MIG-2", True)],
)  # fmt: skip
def test_only_visible_gpus_count(visible: str, ok: bool) -> None:
    found = said("--tp", "2", gpus=gpus(8), env={"CUDA_VISIBLE_DEVICES": visible})
    assert ("gpu-count" not in found) == ok


def test_gpu_memory_of_others() -> None:
    finding = said("--tp", "8", gpus=gpus(8, used=70, pids=(41, 42)))["gpu-memory"]
    assert finding.severity == WARNING
    assert finding.what.startswith("GPU memory is in use by pid 41, 42: GPU 0 70 GiB, GPU 1 70 GiB")
    assert finding.what.endswith("and 4 more")
    assert finding.try_ == "ps -o pid,user,args -p 41,42"
    by_orphans = said(
        "--tp", "8", gpus=gpus(8, used=70, pids=(41,)), orphans=(Orphan(41, 1.0, "sglang::scheduler_TP0"),)
    )
    assert by_orphans["gpu-memory"].try_ == "launchmon runs"
    assert "cannot be seen" in said(gpus=gpus(1, used=70))["gpu-memory"].what
    hidden = said("--tp", "1", gpus=gpus(1, used=70), env={"CUDA_VISIBLE_DEVICES": ""})
    assert "gpu-memory" not in hidden


# ---------------------------------------------------------------------------------------------------------------- files


def test_missing_shards() -> None:
    missing = tuple(f"model-{number:05}.safetensors" for number in (3, 9))
    model = Model("/m/kimi", files=48, missing=missing)
    finding = said(model=model)["shards"]
    assert finding.severity == ERROR
    assert finding.what == f"2 of 48 files of the model are missing or empty: {missing[0]} and {missing[1]}"
    assert "shards" not in said("--load-format", "dummy", model=model)
    many = Model("/m/kimi", files=48, missing=tuple(map(str, range(9))))
    assert said(model=many)["shards"].what.endswith("0, 1, 2, 3 and more")


def test_a_model_that_is_not_here() -> None:
    command = parse(("python", "-m", "sglang.launch_server", "--model-path", "org/kimi"))

    def ids(env: dict[str, str], facts: Facts) -> set[tuple[str, str]]:
        return {(one.id, one.severity) for one in findings(Start(command, env, facts))}

    assert ids({}, Facts()) == {("download", "note")}
    assert ids({"HF_HUB_OFFLINE": "1"}, Facts()) == {("offline", "error")}
    assert ids({}, Facts(model=Model("/cache/kimi"))) == set()
    assert ids({}, Facts(here=False)) == set()
    assert ids({"HF_HUB_OFFLINE": "1"}, Facts(late=("model",))) == {("late", "note")}


def test_eagle3_without_a_draft() -> None:
    assert "draft" in said("--speculative-algorithm", "EAGLE3")
    assert "draft" not in said("--speculative-algorithm=EAGLE3", "--speculative-draft-model-path", "/d")
    assert "draft" not in said("--speculative-algorithm", "NGRAM")


def test_stale_locks() -> None:
    finding = said(locks=(Lock("/c/torch_extensions/py310/x/lock", 7300.0),))["stale-lock"]
    assert finding.what == "A build is locked by nobody: /c/torch_extensions/py310/x/lock, 2h01m old"
    assert finding.try_ == "rm /c/torch_extensions/py310/x/lock"


# ------------------------------------------------------------------------------------------------------------ leftovers


def test_orphans() -> None:
    finding = said(orphans=tuple(Orphan(pid, 1.0, "sglang::scheduler") for pid in range(41, 47)))["orphans"]
    assert finding.what == "6 ranks of an earlier launch are left: pid 41, 42, 43, 44 and 2 more"
    assert finding.try_ == "launchmon kill --pid 41"


def test_shared_memory() -> None:
    assert "shm" not in said("--tp", "8", shm_total=64 * GIB, shm_free=1 * GIB)
    small = said("--tp", "8", shm_total=64 << 20, shm_free=64 << 20)["shm"]
    assert "--shm-size" in small.try_
    full = said("--tp", "8", shm_total=64 * GIB, shm_free=GIB // 4)["shm"]
    assert full.what == "/dev/shm has 256 MiB left of 64 GiB" and full.try_.startswith("ls ")


# ---------------------------------------------------------------------------------------------------------- environment


def test_limits() -> None:
    assert said(limits=Limits(20000, 65536))["open-files"].severity == "note"
    assert said(limits=Limits(1024, None))["open-files"].severity == WARNING
    assert "locked-memory" not in said(limits=Limits(None, 65536))
    nodes = ("--tp", "2", "--nnodes", "2", "--dist-init-addr", "h:1")
    assert said(*nodes, limits=Limits(None, 65536))["locked-memory"].what == "At most 64 KiB may be locked in memory"
    assert "locked-memory" not in said(*nodes, limits=Limits(None, None))


@pytest.mark.parametrize(
    "flags, env, warned",
    [
        ((), {"http_proxy": "http://p"}, True),
        ((), {"http_proxy": "http://p", "no_proxy": "localhost"}, True),
        (("--host", "localhost"), {"http_proxy": "http://p", "no_proxy": "localhost"}, False),
        ((), {"http_proxy": "http://p", "NO_PROXY": "10.0.0.1, 127.0.0.1"}, False),
        ((), {"ALL_PROXY": "socks://p", "no_proxy": "*"}, False),
        (("--host", "0.0.0.0"), {"http_proxy": "http://p", "no_proxy": "localhost,127.0.0.1"}, True),
        (("--host", "0.0.0.0"), {"http_proxy": "http://p", "no_proxy": "0.0.0.0"}, False),
        (("--skip-server-warmup",), {"http_proxy": "http://p"}, False),
        ((), {"http_proxy": ""}, False),
        ((), {"https_proxy": "http://p"}, False),
        ((), {"http_proxy": "http://p", "no_proxy": "127.0.0.0/8"}, False),
        (("--host", "gpu7.example.org"), {"http_proxy": "http://p", "no_proxy": ".example.org"}, False),
        (("--host", "gpu7.example.org"), {"http_proxy": "http://p", "no_proxy": "ple.org"}, True),
    ],
)
def test_a_proxy_in_the_way_of_the_warm_up(flags: tuple[str, ...], env: dict[str, str], warned: bool) -> None:
    found = said(*flags, env=env)
    assert ("proxy" in found) == warned
    assert "http://p" not in str(found), "a proxy's address may hold a password"


def test_another_launchers_variables() -> None:
    finding = said(env={"RANK": "0", "WORLD_SIZE": "8", "MASTER_ADDR": ""})["inherited"]
    assert finding.what == "RANK and WORLD_SIZE are set"
    assert finding.try_ == "env -u RANK -u WORLD_SIZE launchmon launch …"


HERE = frozenset({"lo", "eth0", "ib0"})


@pytest.mark.parametrize(
    "name, value, wrong",
    [
        ("GLOO_SOCKET_IFNAME", "eth0", False),
        ("GLOO_SOCKET_IFNAME", "eth0,ib0", False),
        ("GLOO_SOCKET_IFNAME", "eth1", True),
        ("GLOO_SOCKET_IFNAME", "^lo,docker", True),
        ("GLOO_SOCKET_IFNAME", "eth", True),
        ("NCCL_SOCKET_IFNAME", "eth", False),
        ("NCCL_SOCKET_IFNAME", "=eth", True),
        ("NCCL_SOCKET_IFNAME", "=eth0,bond0", False),
        ("NCCL_SOCKET_IFNAME", "^lo,docker", False),
        ("NCCL_SOCKET_IFNAME", "^lo,eth,ib", True),
        ("NCCL_SOCKET_IFNAME", "ens", True),
    ],
)
def test_interfaces_that_do_not_exist(name: str, value: str, wrong: bool) -> None:
    found = said("--tp", "2", env={name: value}, interfaces=HERE)
    id_ = "gloo-interface" if name.startswith("GLOO") else "nccl-interface"
    assert (id_ in found) == wrong
    if wrong:
        assert found[id_].severity == ERROR and found[id_].try_ == f"--env {name}=eth0"
        assert said(env={name: value}, interfaces=HERE)[id_].severity == WARNING, "one rank hardly needs it"


def test_several_nodes() -> None:
    flags = ("--tp", "4", "--nnodes", "2", "--node-rank", "1")
    assert "dist-loopback" in said(*flags, "--dist-init-addr", "127.0.0.1:5000")
    assert "dist-loopback" not in said(*flags, "--dist-init-addr", "10.0.0.1:5000")
    lost = said(*flags, "--dist-init-addr", "10.0.0.1:5000", host_name_is_loopback=True)
    assert "GLOO_SOCKET_IFNAME" in lost["host-name"].try_
    env = {"GLOO_SOCKET_IFNAME": "eth0"}
    assert "host-name" not in said(*flags, "--dist-init-addr", "h:1", env=env, host_name_is_loopback=True)
    assert "host-name" not in said("--tp", "4", host_name_is_loopback=True)


@pytest.mark.parametrize(
    "dist, port, near", [("h:30000", "30001", True), ("h:30000", "30000", True), ("h:20000", "30000", False),
                         ("h:30000", "30014", False), ("h:30001", "30000", False)]
)  # fmt: skip
def test_ports_that_may_meet(dist: str, port: str, near: bool) -> None:
    assert ("near-ports" in said("--dist-init-addr", dist, "--port", port)) == near


def test_what_helps_to_look_later() -> None:
    assert said(env={"LD_PRELOAD": "/x.so"})["ld-preload"].severity == "note"
    assert "py-spy" in said(py_spy=False) and "py-spy" not in said()
    found = said(ptrace=Refused("no", "yama", "sudo x"))["ptrace"]
    assert found.why.startswith("yama") and found.try_ == "sudo x"


@pytest.mark.parametrize("name", LOOKS)
def test_what_was_not_seen_in_time_is_said(name: str) -> None:
    assert LOOKS[name] in said(late=(name,))["late"].what


def test_a_finding_travels_as_json() -> None:
    body = Finding("a", "note", "b", "c", "d").as_json()
    assert body == {"id": "a", "severity": "note", "what": "b", "why": "c", "try": "d"}
