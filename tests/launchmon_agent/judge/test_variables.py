from __future__ import annotations

from launchmon_agent.judge.variables import SET, telling


def test_what_explains_a_launch_is_kept_and_nothing_else() -> None:
    environ = {
        "NCCL_P2P_DISABLE": "1",
        "GLOO_SOCKET_IFNAME": "eth0",
        "SGLANG_WARMUP_TIMEOUT": "1800",
        "SGLANG_JIT_DEEPGEMM_FAST_WARMUP": "1",
        "RANK": "0",
        "HOME": "/h",
        "LS_COLORS": "x",
        "PATH": "/bin",
    }
    assert telling(environ) == {
        name: environ[name] for name in sorted(environ) if name not in ("HOME", "LS_COLORS", "PATH")
    }


def test_no_secret_is_kept() -> None:
    kept = telling(
        {"http_proxy": "http://me:pass@proxy:3128", "HF_TOKEN": "hf_x", "NCCL_TOKEN": "t", "HTTPS_PROXY": ""}
    )
    assert kept == {"http_proxy": SET, "HTTPS_PROXY": ""}


def test_long_values_are_cut() -> None:
    assert len(telling({"LD_PRELOAD": "x" * 1000})["LD_PRELOAD"]) == 200
