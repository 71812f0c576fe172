"""The model's files, and what earlier launches left. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from launchmon_agent.judge.words import listed, span
from launchmon_agent.preflight.finding import ERROR, NOTE, WARNING, Finding
from launchmon_agent.preflight.start import SHOWN, Start, pids_in_words


def _shards(start: Start) -> Iterator[Finding]:
    model = start.facts.model
    if model is None or not model.missing or start.flag("--load-format") == "dummy":
        return
    names = listed([*model.missing[:SHOWN], *(["more"] if len(model.missing) > SHOWN else [])])
    yield Finding(
        "shards",
        ERROR,
        f"{len(model.missing)} of {model.files} files of the model are missing or empty: {names}",
        "its index names them; older releases load what is there and answer nonsense",
        f"hf download {start.command.model} --local-dir {model.path}" if start.command.model else "",
    )


def _download(start: Start) -> Iterator[Finding]:
    facts, model = start.facts, start.command.model
    looked = facts.here and "model" not in facts.late
    if not looked or facts.model is not None or model is None or model.startswith("/") or start.command.simulated:
        return
    if start.env.get("HF_HUB_OFFLINE", "0") not in ("", "0"):
        yield Finding(
            "offline",
            ERROR,
            f"{model} is not in the hub's cache, and HF_HUB_OFFLINE is set",
            "nothing may be downloaded",
            f"HF_HUB_OFFLINE=0 hf download {model}",
        )
    else:
        yield Finding("download", NOTE, f"{model} will be downloaded first", "it is not in the hub's cache here")


def _draft(start: Start) -> Iterator[Finding]:
    algorithm = (start.flag("--speculative-algorithm") or "").upper()
    draft = start.flag("--speculative-draft-model-path") or start.flag("--speculative-draft-model")
    if algorithm == "EAGLE3" and not draft:
        yield Finding(
            "draft",
            WARNING,
            "EAGLE3 is asked for without a draft model",
            "unless the model brings one, its weights are loaded twice, and then the launch fails",
            "--speculative-draft-model-path PATH",
        )


def _stale_locks(start: Start) -> Iterator[Finding]:
    for lock in start.facts.locks or ():
        yield Finding(
            "stale-lock",
            WARNING,
            f"A build is locked by nobody: {lock.path}, {span(lock.age_s)} old",
            "the rank that needs that build waits for ever, unless another machine that shares the directory builds it",
            f"rm {lock.path}",
        )


def _orphans(start: Start) -> Iterator[Finding]:
    if start.facts.orphans:
        pids = [orphan.pid for orphan in start.facts.orphans]
        yield Finding(
            "orphans",
            WARNING,
            f"{len(pids)} ranks of an earlier launch are left: {pids_in_words(pids)}",
            "their launcher is dead; they hold GPU memory and ports",
            f"launchmon kill --pid {pids[0]}",
        )


CHECKS = (_shards, _download, _draft, _stale_locks, _orphans)
