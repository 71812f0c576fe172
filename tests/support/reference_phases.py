"""docs/phases.md and docs/verdict-kinds.md, made from the rail, the log's wording and the verdicts' names."""

from __future__ import annotations

import re

from launchmon.outcome import CRASHED, OUTCOMES, READY, STUCK
from launchmon.tui.panels.rail import phase_words
from launchmon.tui.panels.verdict import KINDS
from launchmon_agent.sglang.rail import RAIL
from launchmon_agent.sglang.table import MarkRow, mark_rows

PHASES = """\
# Phases

A launch goes through these, in this order; the second line of the screen shows them. Which are left out depends on the
command. A phase belongs to a rank: the rail shows the run's, which is that of its slowest living rank, and names it.
`62% 5/8` behind a phase is the progress bar that SGLang prints. A `download` or a compilation (`jit`) is no phase but
goes on inside one, and is shown beside it.

Phases are known by the lines that SGLang prints. Below each stand those that begin (▶) and end (■) it, as regular
expressions, with the releases that print them. A wording that is not known costs a detail: what comes later ends what
came before.
"""

MEANS = {
    "start": "The launcher imports SGLang, parses its flags and prepares its environment.",
    "spawn": "The launcher starts a process for each rank; each imports PyTorch and SGLang for itself.",
    "dist-init": "The ranks meet: rendezvous, NCCL and gloo groups, on all nodes.",
    "weights": "Each rank reads its part of the model and puts it on its GPU.",
    "kv-pool": "What memory is left on the GPUs is measured by all ranks together, and taken for the KV cache.",
    "autotune": "Kernels are tried with several settings, to find the fastest.",
    "graphs": "CUDA graphs are captured, one for each batch size; kernels are compiled on the way.",
    "draft": "The same once more for the draft model of speculative decoding.",
    "http": "The HTTP server starts; it listens from here on.",
    "warm-up": "The server sends a first request to itself, which has to go through all ranks.",
    "ready": "The server has said that it is ready.",
}

VERDICT_KINDS = """\
# Verdict kinds

Every kind of verdict, as the screen names it, and as JSON, `--on-verdict` and `launchmon wait` tell it. What each means
and rests on is in [verdicts.md](verdicts.md).

| kind | on the screen | `launchmon wait` |
|---|---|---|
"""

_ENDS = {READY: "0 · ready", STUCK: "3 · stuck, unless the confidence is low", CRASHED: "4 · crashed"}


def phases_page(made: str) -> str:
    return "".join((made, PHASES, *map(_phase, RAIL)))


def _phase(phase: str) -> str:
    rows = [row for row in mark_rows() if row.phase == phase and row.what in ("begin", "end")]
    lines = "".join(map(_line, rows)) or "\nNo line tells: its neighbours and the processes do.\n"
    table = f"\n| | line | SGLang |\n|---|---|---|\n{lines}" if rows else lines
    return f"\n## `{phase}`\n\nShown as “{phase_words(phase)}”. {MEANS[phase]}\n{table}"


def _line(row: MarkRow) -> str:
    regex = re.sub(r"\?P<\w+>", "", row.pattern.pattern.decode()).replace("|", "\\|")
    versions = f"{row.since} and later" if row.until is None else f"{row.since} to {row.until}"
    return f"| {'▶' if row.what == 'begin' else '■'} | `{regex}` | {versions} |\n"


def verdict_kinds_page(made: str) -> str:
    rows = (
        f"| `{kind}` | {glyph} {words} | {_ENDS[OUTCOMES[kind]] if kind in OUTCOMES else 'waits on'} |\n"
        for kind, (glyph, words, _) in KINDS.items()
    )
    return "".join((made, VERDICT_KINDS, *rows))
