"""What earlier runs on this target took, phase by phase: a small ``phases.json`` in each run's directory.

It is written when the run is ready and when it ends, so that a later run need not read whole recordings.
"""

from __future__ import annotations

import contextlib
import json
import os

from launchmon_agent.codec import Malformed, from_json, to_json
from launchmon_agent.events import Expected
from launchmon_agent.judge.baselines import PastRun, expected_of, is_warm, past_run
from launchmon_agent.machine import boot_id
from launchmon_agent.model import RunModel
from launchmon_agent.runs.directory import RunDirectory, run_directories, state_root

NEWEST = 300
"""Run directories that are looked at: a file of some hundred bytes each."""

_NAME = "phases.json"


def write_phases(directory: RunDirectory, model: RunModel, now: float) -> bool:
    """Replaces the run's ``phases.json`` by what the model knows now. Never raises; False: nothing was written."""
    boot = boot_id()
    run = model.run
    began = None if run is None else run.start_time
    if run is None or began is None:
        return False
    others = earlier(os.path.dirname(directory.path), besides=directory.path)
    summary = past_run(model, now, boot, is_warm(run.model, others, boot, began))
    if summary is None:
        return False
    path = os.path.join(directory.path, _NAME)
    scratch = f"{path}.{os.getpid()}.new"
    try:
        with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            json.dump(to_json(summary), file)
            file.write("\n")
        os.replace(scratch, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        return False
    return True


def earlier(root: str | None = None, besides: str | None = None) -> list[PastRun]:
    """The newest runs below ``root`` (default: ours) that left their phases, without the one in ``besides``."""
    found = []
    for path in run_directories(root or state_root())[:NEWEST]:
        if besides is not None and os.path.basename(path) == os.path.basename(besides):
            continue
        try:
            with open(os.path.join(path, _NAME), encoding="utf-8") as file:
                found.append(from_json(PastRun, json.load(file)))
        except (OSError, ValueError, RecursionError, Malformed):
            continue
    return found


def expected(model: RunModel, now: float, root: str | None = None, besides: str | None = None) -> Expected | None:
    """What the run of this model may be expected to take; None while it is not known which run that is.

    ``besides``: its own directory. To be asked again when the run event changes: the release may be known later.
    """
    run = model.run
    return None if run is None else expected_of(run, earlier(root, besides), boot_id(), now)
