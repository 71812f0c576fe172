"""Nodes of one run without processes: an agent for each, which tells a story and answers a cluster session."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from launchmon.cluster.member import Opener
from launchmon.cluster.session import ClusterSession
from launchmon.session import Session
from launchmon_agent import codec, wire
from launchmon_agent.errors import Refused
from launchmon_agent.events import Event, RankStack, Run, Stacks
from tests.support.fake_pipe import FakePipe, Pipes, hello
from tests.support.story import T0, Played, Story

ADDRESS = "10.0.0.1:20000"


def played(number: int, of: int = 2, phase: str = "kv-pool", seconds: float = 40, tp: int = 4) -> Played:
    """A node's part of a launch on ``of`` nodes."""
    return Story(tp=tp, nnodes=of, node_rank=number, address=ADDRESS).up_to(phase).play(seconds)


class FakeNode(FakePipe):
    """An agent that knows one run, that of ``story``, or none; its clock is ``clock_s`` ahead. ``refusing``: request →
    what is refused."""

    def __init__(self, story: Played | None = None, *, clock_s: float = 0.0, **refusing: str) -> None:
        super().__init__(hello())
        self.story = story
        self.clock_s = clock_s
        self.refusing = {name.replace("_", "-"): why for name, why in refusing.items()}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    @property
    def run(self) -> Run:
        assert self.story is not None and self.story.model.run is not None
        return self.story.model.run

    def done(self, do: str) -> list[dict[str, Any]]:
        """The arguments of each request of this kind."""
        return [args for name, args in self.asked if name == do]

    def tell(self, *told: Event) -> None:
        for event in told:
            self.say(codec.encode(event))

    def write_line(self, line: bytes) -> None:
        request = json.loads(line)
        do, args = request["do"], {key: value for key, value in request.items() if key not in ("do", "id")}
        if do in ("ping", "tools"):
            super().write_line(line)
            return
        self.asked.append((do, args))
        if do in self.refusing:
            self.say(wire.refusal_line(request["id"], Refused(self.refusing[do], "the cause", "the cure")))
            return
        if do in ("attach", "launch") and self.story is None:
            self.say(wire.refusal_line(request["id"], Refused("no SGLang server is on this machine")))
            return
        answer: Callable[[dict[str, Any]], Any] = getattr(self, f"_{do.replace('-', '_')}")
        self.say(wire.reply_line(request["id"], answer(args)))

    def _clock(self, _: dict[str, Any]) -> float:
        return time.time() + self.clock_s

    def _runs(self, _: dict[str, Any]) -> list[dict[str, Any]]:
        return [] if self.story is None else [{"state": "running"}]

    def _attach(self, _: dict[str, Any]) -> Any:
        assert self.story is not None
        self.tell(*self.story.model.replay(), self.story.last)
        return _body(self.run)

    _launch = _attach

    def _resume(self, args: dict[str, Any]) -> Any:
        return {"run": self._attach(args), "gone": None}

    def _window(self, _: dict[str, Any]) -> Any:
        size = 0 if self.story is None or self.story.model.log is None else self.story.model.log.size
        text = f"the log of node {self.run.node_rank}"
        line = {"offset": 0, "number": 1, "text": text, "rank": None, "cut": False, "level": "info"}
        ends = {"at_start": True, "at_end": True, "more": False}
        return {"lines": [line], "start": 0, "end": size, "size": size, "generation": 0, **ends}

    def _dump(self, _: dict[str, Any]) -> str:
        assert self.story is not None
        rows = self.story.model.rank_rows()
        stacks = tuple(RankStack(row.pid, row.start_time, row.role, row.rank) for row in rows if row.pid)
        self.tell(Stacks(T0 + 41, id=f"dump-{len(self.asked)}", stacks=stacks))
        return f"dump-{len(self.asked)}"

    def _kill_plan(self, _: dict[str, Any]) -> Any:
        assert self.story is not None and self.story.model.processes is not None
        rows = self.story.model.processes.processes
        return {"processes": [{"pid": row.pid, "role": row.role, "rank": row.rank, "title": None} for row in rows]}

    def _kill(self, _: dict[str, Any]) -> Any:
        victims = [{"pid": self.run.pid}]
        return {"killed": victims, "leftovers": [], "notes": ["port free"], "graceful": True, "seconds": 2.5}

    def _relaunch(self, _: dict[str, Any]) -> Any:
        again = dataclasses.replace(self.run, id="again", attempt=2)
        self.tell(again)
        return _body(again)


def _body(run: Run) -> Any:
    return json.loads(codec.encode(run))


def openers(
    nodes: Sequence[FakeNode | Refused], names: Sequence[str] = ("gpu0", "gpu1", "gpu2", "gpu3")
) -> list[Opener]:
    """A link that is lost is made again with what is put into the node's ``pipes``."""

    async def opened(pipes: Pipes) -> Session:
        return await Session.open(pipes)

    return [(name, partial(opened, Pipes(node))) for name, node in zip(names, nodes, strict=False)]


async def opened(*nodes: FakeNode | Refused, read_only: bool = False) -> ClusterSession:
    """On ``gpu0``, ``gpu1`` …, at second 40 of the stories."""
    session = await ClusterSession.open(openers(nodes), read_only=read_only)
    session._clock = lambda: T0 + 40
    return session


async def settled() -> None:
    """All that was said has been heard: pipes are queues, so some turns of the event loop do."""
    for _ in range(50):
        await asyncio.sleep(0)
