"""One state over all nodes of a run, folded from the events of each. Pure.

Every time in it is the client's: a node's own times are corrected by the offset of its clock. Ranks are named alike on
all nodes, so what belongs to a rank is folded as it comes; what does not carries the number of its node. The launcher
is that of node 0, which serves for all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

from launchmon_agent.events import (
    LAUNCHER,
    Action,
    Event,
    Exit,
    Expected,
    Gpus,
    Heartbeat,
    Host,
    Http,
    Kernel,
    Log,
    LogError,
    Mark,
    Notice,
    Processes,
    Progress,
    Ras,
    Run,
    Stacks,
    Verdict,
)
from launchmon_agent.model import RunModel
from launchmon_agent.stacks.model import combine

_E = TypeVar("_E", bound=Event)

TOGETHER_S = 12.0
"""Dumps of different nodes no further apart than this are one: automatic ones follow each other every 5 s."""


class ClusterModel(RunModel):
    """Like the model of one run; :meth:`fold_of` takes the events of a node. ``labels`` are of the nodes, in order."""

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__()
        self.labels = tuple(labels)
        self.shown_log = 0
        """The node whose log is shown: offsets mean something in one log only."""
        self._latest: dict[tuple[type[Event], int], Event] = {}
        self._given: dict[type[Event], set[int]] = {}

    def fold_of(self, node: int, event: Event, offset_s: float = 0.0) -> None:
        """Take in an event of a node. ``offset_s``: what to add to its times."""
        event = _shifted(event, offset_s)
        match event:
            case Run():
                self._fold_run(node, event)
            case Processes():
                if self._completes_round(node, event):
                    self.fold(self._processes(event.at))
            case Gpus():
                if self._completes_round(node, event):
                    self.fold(self._gpus_of_all(event.at))
            case Heartbeat():
                self._keep(node, event)
                beats = [beat for one in self._all(Heartbeat) for beat in one.beats]
                self.fold(Heartbeat(event.at, beats=tuple(beats)))
            case Log():
                self._keep(node, _shifted_lines(event, offset_s))
                self._fold_logs()
            case Mark() | Progress() if node > 0 and event.rank == LAUNCHER:
                pass  # the server is node 0's; another launcher's "server_args" would look like a second launch
            case Host() | Http() | Expected() | Ras() if node > 0:
                pass
            case LogError() | Exit():
                self.fold(dataclasses.replace(event, node=node))
            case Kernel() | Notice():
                self.fold(dataclasses.replace(event, text=f"node {node}: {event.text}"))
            case Action():
                self.fold(dataclasses.replace(event, id=f"{node}:{event.id}", text=f"node {node}: {event.text}"))
            case Stacks():
                stacks = tuple(dataclasses.replace(stack, node=node) for stack in event.stacks)
                event = dataclasses.replace(event, id=f"{event.id}-{node}", stacks=stacks)
                self._keep(node, event)
                self.fold(self._stacks_of_all(event))
            case Verdict():
                pass  # of one node; the verdict over all is folded as it is
            case _:
                self.fold(event)

    def show_log_of(self, node: int) -> None:
        self.shown_log = node
        self._fold_logs()

    def run_of(self, node: int) -> Run | None:
        found = self._latest.get((Run, node))
        return found if isinstance(found, Run) else None

    def _fold_run(self, node: int, event: Run) -> None:
        """The run is node 0's; the ranks expected are those of all nodes."""
        self._keep(node, event)
        first = self.run_of(0) or event
        self.fold(dataclasses.replace(first, nnodes=1, node_rank=0))
        self.run = dataclasses.replace(first, node_rank=0)

    def _expected(self, run: Run) -> list[str]:
        return super()._expected(dataclasses.replace(run, nnodes=1, node_rank=0))

    def _follow_clock(self, event: Processes) -> None:
        """Its times are the client's, and those of several nodes come in no order."""

    def _processes(self, at: float) -> Processes:
        found = [
            dataclasses.replace(process, node=node)
            for node, sample in self._by_node(Processes)
            for process in sample.processes
        ]
        return Processes(at, processes=tuple(found))

    def _gpus_of_all(self, at: float) -> Gpus:
        samples = self._by_node(Gpus)
        with_some = [sample for _, sample in samples if sample.gpus]
        first = (with_some or [sample for _, sample in samples])[0]
        gpus = [dataclasses.replace(gpu, node=node) for node, sample in samples for gpu in sample.gpus]
        errors = [f"node {node}: {sample.error}" for node, sample in samples if sample.error]
        return dataclasses.replace(first, at=at, gpus=tuple(gpus), error=None if gpus else "; ".join(errors) or None)

    def _fold_logs(self) -> None:
        logs = dict(self._by_node(Log))
        shown = logs.get(self.shown_log)
        if shown is None:
            return
        lines = tuple(line for log in logs.values() for line in log.last if log is shown or line.rank != LAUNCHER)
        grown = max((log.grown_at for log in logs.values() if log.grown_at is not None), default=None)
        self.log = dataclasses.replace(shown, last=lines, grown_at=grown, node=self.shown_log)

    def _stacks_of_all(self, newest: Stacks) -> Stacks:
        """The newest dump of each node, as one. It replaces a dump that it completes."""
        parts = [
            dump
            for dump in self._all(Stacks)
            if dump.automatic == newest.automatic and abs(dump.at - newest.at) <= TOGETHER_S
        ]
        completed = {dump.id for dump in parts}
        self.stacks = [dump for dump in self.stacks if dump.id not in completed]
        return combine(parts)

    def _completes_round(self, node: int, event: Event) -> bool:
        """Take in a sample of a node. True once every node has given one, or this one another: then those of all are
        folded, once, since each fold is a point of the histories."""
        given = self._given.setdefault(type(event), set())
        whole = node in given or (type(event), node) not in self._latest
        self._keep(node, event)
        if whole:
            given.clear()
        given.add(node)
        if given == {number for number, _ in self._by_node(type(event))}:
            given.clear()
            return True
        return whole

    def _keep(self, node: int, event: Event) -> None:
        self._latest[type(event), node] = event

    def _by_node(self, kind: type[_E]) -> list[tuple[int, _E]]:
        found = [(node, event) for (_, node), event in self._latest.items() if isinstance(event, kind)]
        return sorted(found, key=lambda pair: pair[0])

    def _all(self, kind: type[_E]) -> list[_E]:
        return [event for _, event in self._by_node(kind)]


def _shifted(event: _E, offset_s: float) -> _E:
    if not offset_s:
        return event
    moved = dataclasses.replace(event, at=event.at + offset_s)
    if isinstance(moved, Processes):
        shifted = tuple(dataclasses.replace(one, start_time=one.start_time + offset_s) for one in moved.processes)
        return dataclasses.replace(moved, processes=shifted)
    return moved


def _shifted_lines(log: Log, offset_s: float) -> Log:
    if not offset_s:
        return log
    last = tuple(dataclasses.replace(line, at=line.at + offset_s) for line in log.last)
    grown = None if log.grown_at is None else log.grown_at + offset_s
    return dataclasses.replace(log, last=last, grown_at=grown)
