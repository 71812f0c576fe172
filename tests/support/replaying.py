"""Recordings for tests of what looks back: one of a whole run, and small ones made of events."""

from __future__ import annotations

import gzip
from pathlib import Path

from launchmon.replay.recorded import Recorded
from launchmon_agent.codec import encode
from launchmon_agent.events import Event

RUNS = Path(__file__).resolve().parents[1] / "recordings" / "runs"


def seed_lines() -> list[bytes]:
    """A demo that dead-locks and is then killed."""
    with gzip.open(RUNS / "demo-seed.jsonl.gz", "rb") as file:
        return file.readlines()


def recorded(*events: Event) -> Recorded:
    return Recorded(map(encode, events))
