"""The command line of the simulated server: its own few flags, and whatever SGLang would take."""

from __future__ import annotations

import argparse
import ast
import os
from dataclasses import dataclass
from typing import Any

from launchmon.demo.scenarios import Failure, Scenario, scenario, scenarios

SPEED_VARIABLE = "LAUNCHMON_DEMO_SPEED"

NO_GRAPHS = frozenset({"--disable-cuda-graph", "--disable-decode-cuda-graph"})


@dataclass(frozen=True)
class Options:
    scenario: Scenario
    model_path: str
    tp: int
    host: str
    port: int
    speed: float
    flags: frozenset[str]  # every --flag that was given, without its value
    server_args: dict[str, Any]  # what the server_args= line shows

    @property
    def graphs(self) -> bool:
        return not self.flags & NO_GRAPHS

    @property
    def failure(self) -> Failure | None:
        return self.scenario.failure_under(self.flags, self.tp)


def parse(argv: list[str]) -> Options:
    """Exits with status 2 and a usage message, as SGLang does, when a flag is wrong."""
    parser = argparse.ArgumentParser(
        prog="launch_server.py",
        allow_abbrev=False,
        description="A simulated SGLang server. Flags of SGLang that are not listed here are accepted and shown.",
    )
    parser.add_argument("--model-path", "--model")
    parser.add_argument("--tensor-parallel-size", "--tp-size", "--tp", type=_count, dest="tp")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--scenario", choices=[row.name for row in scenarios()], default="healthy")
    parser.add_argument(
        "--speed",
        type=_speed,
        default=os.environ.get(SPEED_VARIABLE, "1"),
        help=f"divides every duration (environment: {SPEED_VARIABLE})",
    )
    known, rest = parser.parse_known_args(argv)
    row = scenario(known.scenario)
    tp = known.tp or row.tp
    if tp > row.gpus:
        parser.error(f"--tp {tp}: the scenario has {row.gpus} GPUs")
    flags = frozenset(word.partition("=")[0] for word in argv if word.startswith("--"))
    model_path = known.model_path or row.model.path
    server_args = {
        **_usual(model_path),
        "tp_size": tp,
        "host": known.host,
        "port": known.port,
        **_others(rest),
    }
    return Options(row, model_path, tp, known.host, known.port, known.speed, flags, server_args)


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("is at least 1")
    return value


def _speed(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("is a number above 0")
    return value


def _usual(model_path: str) -> dict[str, Any]:
    """A selection of what 0.5.23 prints, with values as they are on a GPU machine."""
    return {
        "model_path": model_path,
        "tokenizer_path": model_path,
        "tokenizer_mode": "auto",
        "tokenizer_worker_num": 1,
        "load_format": "auto",
        "trust_remote_code": False,
        "context_length": None,
        "dtype": "auto",
        "quantization": None,
        "kv_cache_dtype": "auto",
        "mem_fraction_static": 0.85,
        "max_running_requests": None,
        "max_total_tokens": None,
        "chunked_prefill_size": 8192,
        "max_prefill_tokens": 16384,
        "schedule_policy": "fcfs",
        "page_size": 1,
        "disable_radix_cache": False,
        "disable_overlap_schedule": False,
        "dist_timeout": None,
        "dist_init_addr": None,
        "nnodes": 1,
        "node_rank": 0,
        "tp_size": 1,
        "pp_size": 1,
        "dp_size": 1,
        "enable_dp_attention": False,
        "enable_p2p_check": False,
        "device": "cuda",
        "base_gpu_id": 0,
        "watchdog_timeout": 300,
        "soft_watchdog_timeout": None,
        "sleep_on_idle": True,
        "host": "127.0.0.1",
        "port": 30000,
        "skip_server_warmup": False,
        "api_key": None,
        "served_model_name": model_path,
        "log_level": "info",
        "enable_metrics": False,
        "decode_log_interval": 40,
        "attention_backend": "flashinfer",
        "sampling_backend": "flashinfer",
        "disable_cuda_graph": False,
        "disable_decode_cuda_graph": False,
        "disable_custom_all_reduce": False,
        "disable_flashinfer_autotune": False,
    }


def _others(words: list[str]) -> dict[str, Any]:
    """``--some-flag VALUE``, ``--some-flag=VALUE`` and ``--some-flag`` (true) as server arguments."""
    out: dict[str, Any] = {}
    name = None
    for word in words:
        if word.startswith("--"):
            flag, equals, value = word[2:].partition("=")
            name = flag.replace("-", "_")
            out[name] = _literal(value) if equals else True
        elif name is not None:
            out[name] = _literal(word)
    return out


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
