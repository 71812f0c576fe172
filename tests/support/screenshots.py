"""The pictures of README and docs, made from the real screens over a recorded demo and fake sessions.

    python -m tests.support.screenshots           makes all anew, after a change to a screen; then look at them

``tests/test_screenshots.py`` fails while a picture differs from its screen.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from launchmon.config import Config
from launchmon.replay.recorded import Recorded
from launchmon.replay.session import ReplaySession
from launchmon.tui.app import LaunchmonApp
from tests.support.fake_session import FakeModel, FakeSession
from tests.support.replaying import RUNS
from tests.support.scenes import Scene, Size, named, on, shown
from tests.support.still import take
from tests.support.svg import svg
from tests.support.tui_rig import PLAIN

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "screenshots"
RECORDING = "demo-seed-with-log"


@dataclass(frozen=True)
class Picture:
    """A scene at one size, under one theme. ``title`` says what can be seen, for those who cannot."""

    name: str
    title: str
    scene: Scene
    size: Size = (120, 36)
    theme: str = "launchmon-dark"


def _lines(ending: str) -> list[bytes]:
    with gzip.open(RUNS / f"{RECORDING}.{ending}.gz", "rb") as file:
        return file.readlines()


def watched(at: float) -> Callable[[], FakeSession]:
    """The recorded demo as whoever watched it saw it, so many seconds after its beginning."""

    def make() -> FakeSession:
        recorded = Recorded(_lines("jsonl"))
        model = recorded.model_at(recorded.position(recorded.begin + at))
        session = FakeSession(model=cast(FakeModel, model), since_event=0.2)
        size = 0 if model.log is None else model.log.size
        for line in b"".join(_lines("log"))[:size].decode().rstrip("\r\n").split("\n"):
            session.text.write(line.rpartition("\r")[2])  # of a bar, its newest state
        return session

    return make


def looked_back_on(at: float) -> Callable[[], ReplaySession]:
    """The recording, with the log of that run."""

    def make() -> ReplaySession:
        session = ReplaySession(Recorded(_lines("jsonl")), "this machine", watched(at)())
        session.to_time(session.recorded.begin + at)
        return session

    return make


def _scene(app: Callable[[Config], LaunchmonApp], *keys: str) -> Scene:
    return Scene("picture", app, keys)


LOADING, STUCK = 16.0, 62.0
"""Seconds into the recording: weights are read; the dead-lock has been said for a while."""

ALL = (
    Picture(
        "seed",
        "launchmon beside a launch that dead-locks: phases, verdict, GPUs, ranks and log",
        _scene(on(watched(STUCK))),
    ),
    Picture("loading", "The same launch while weights are read", _scene(on(watched(LOADING)))),
    Picture("verdict", "The whole verdict: evidence, what is ruled out, what to do", _scene(on(watched(STUCK)), "v")),
    Picture("replay", "The recording of that launch, with its time line", _scene(on(looked_back_on(30.0)))),
    Picture("stacks", "The stacks of all ranks: one waits for a lock, seven wait for it", named("stacks")),
    Picture("relaunch", "The relaunch dialog with the first remedy switched on", named("relaunch")),
    Picture("attempts", "The attempts of a series beside each other", named("attempts"), (120, 24)),
    Picture("home", "The runs on this machine, and other machines", named("home"), (100, 16)),
    Picture(
        "light",
        "The main screen at 80 columns and 24 lines, in the light theme",
        _scene(on(watched(STUCK))),
        (80, 24),
        "launchmon-light",
    ),
)


async def drawn(picture: Picture) -> str:
    async with shown(picture.scene, picture.size, replace(PLAIN, theme=picture.theme)) as rig:
        return svg(take(rig.app), picture.title)


def file_of(picture: Picture) -> Path:
    return PICTURES / f"{picture.name}.svg"


async def make() -> None:
    PICTURES.mkdir(exist_ok=True)
    for file in PICTURES.glob("*.svg"):
        if file not in map(file_of, ALL):
            file.unlink()
    for picture in ALL:
        file_of(picture).write_text(await drawn(picture))


if __name__ == "__main__":
    asyncio.run(make())
