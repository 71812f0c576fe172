"""Relaunching without an agent: a small flag list, and the project's own rules for what a change does to a command."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from launchmon_agent.sglang.flags.change import Change, apply, command_line, difference
from launchmon_agent.sglang.flags.model import SWITCH, Flag, FlagList
from launchmon_agent.sglang.flags.words import given
from launchmon_agent.sglang.secrets import redact_argv, redact_env
from launchmon_agent.sglang.toggles import flags_of_tables, toggles

VERSION = "0.5.11"

FLAGS = FlagList(
    (
        *(dataclasses.replace(flag, help=f"About {flag.name[2:]}.") for flag in flags_of_tables(VERSION).flags),
        Flag("--model-path", type="str", help="Where the weights are."),
        Flag("--tp-size", ("--tensor-parallel-size",), type="int", default="1", help="The tensor parallelism size."),
        Flag("--port", type="int", default="30000", help="The port of the HTTP server."),
        Flag("--enable-symm-mem-x", takes=SWITCH, help="Only here."),
    ),
    version=VERSION,
)

ARGV = (
    *("python3", "-m", "sglang.launch_server", "--model-path", "/models/kimi-k2.5", "--tp", "8"),
    *("--enable-symm-mem-x", "--port", "30000"),
)
FIRST_ARGV = ("python3", "-m", "sglang.launch_server", "--model-path", "/models/kimi-k2.5", "--tp", "4")
ENV: dict[str, str | None] = {"NCCL_DEBUG": "INFO", "SGLANG_OLD": None}
FIRST_ENV: dict[str, str | None] = {"NCCL_DEBUG": "WARN", "SGLANG_FIRST": "1"}
CWD = "/srv"

_FLAGS_TOLD = [dataclasses.asdict(flag) for flag in FLAGS.flags]
_TOGGLES_TOLD = [dataclasses.asdict(one) for one in toggles(ARGV, {"NCCL_DEBUG": "INFO"}, FLAGS)]
"""Told at every request, and never changed by whoever hears it."""

REMEDIES = (
    (("--disable-cuda-graph",), "No CUDA graphs at all cures this kind of wait in public reports.", "sglang 1234"),
    (("--disable-custom-all-reduce", "NCCL_P2P_DISABLE=1"), "Takes peer-to-peer copies out of the way.", "sglang 99"),
)


def options(remedies: Sequence[tuple[tuple[str, ...], str, str]] = REMEDIES) -> dict[str, Any]:
    """As ``relaunch-options`` answers."""
    return {
        "run": "20251129-180000-kimi",
        "argv": list(ARGV),
        "flags_given": [
            {"name": one.name, "begin": one.begin, "end": one.end, "words": list(ARGV[one.begin : one.end])}
            for one in given(ARGV, FLAGS)
        ],
        "env": ENV,
        "cwd": CWD,
        "interpreter": "python3",
        "command": command_line(ARGV, ENV, CWD),
        "environment": "that of the running server, process 48001",
        "series": "kimi",
        "attempt": 3,
        "version": FLAGS.version,
        "flags_from": "source",
        "flags_complete": True,
        "flags": list(_FLAGS_TOLD),
        "toggles": list(_TOGGLES_TOLD),
        "remedies": [{"change": list(change), "why": why, "source": source} for change, why, source in remedies],
    }


def plan(change: Mapping[str, Any]) -> dict[str, Any]:
    """As ``relaunch-plan`` answers. Raises :class:`Refused`."""
    made = Change(
        tuple(change.get("add") or ()),
        tuple(change.get("drop") or ()),
        dict(change.get("set") or {}),
        tuple(change.get("unset") or ()),
    )
    now = change.get("back_to") is None
    applied = apply(ARGV if now else FIRST_ARGV, made, FLAGS)
    env = {**(ENV if now else FIRST_ENV), **redact_env(made.environment)}
    return {
        "argv": redact_argv(applied.argv),
        "command": command_line(applied.argv, env, CWD),
        "difference": list(difference(ARGV, applied.argv, ENV, env, FLAGS)),
        "warnings": list(applied.warnings),
        "env": env,
        "environment": "that of the running server, process 48001",
        "output": (),
        "attempt": 4,
        "series": "kimi",
    }


def attempt(number: int, **more: Any) -> dict[str, Any]:
    """One row of the ledger."""
    return {
        "id": f"run-{number}",
        "attempt": number,
        "parent": None if number == 1 else f"run-{number - 1}",
        "created": 1_764_400_000.0 + 400 * number,
        "command": f"cd /srv && python3 -m sglang.launch_server --attempt {number}",
        "change": [],
        "alive": False,
        "phase": None,
        "seconds": {},
        "ready_s": None,
        "lasted_s": 300.0,
        "verdict": None,
        "summary": "",
        "exit_code": None,
        "ended_by": "itself",
        "best": False,
        **more,
    }


def ledger() -> dict[str, Any]:
    """Worked once, was broken since, and hangs now."""
    return {
        "series": "kimi",
        "attempts": [
            attempt(
                1,
                phase="ready",
                seconds={"start": 4.0, "weights": 22.0, "kv-pool": 2.0, "graphs": 16.0},
                ready_s=65.0,
                verdict="serving",
                ended_by="launchmon",
                best=True,
            ),
            attempt(
                2,
                change=["+ --mem-fraction-static 0.95", "- --tp 4"],
                phase="weights",
                seconds={"start": 4.0, "weights": 18.0},
                verdict="crashed",
                summary="TP1 ran out of memory.",
                exit_code=-9,
            ),
            attempt(
                3,
                id="20251129-180000-kimi",
                change=["~ --mem-fraction-static 0.95 → 0.8"],
                phase="kv-pool",
                seconds={"start": 4.0, "weights": 22.3, "kv-pool": 298.0},
                alive=True,
                verdict="deadlock-silent",
                summary="8 of 8 ranks have done nothing for 4m58s.",
                ended_by=None,
            ),
        ],
        "best": "run-1",
        "since_it_worked": ["- --tp 4", "+ --mem-fraction-static 0.8"],
        "worked": "run-1",
    }
