"""A session with several nodes of one run, shown and asked as one.

What reads (windows of the log, searches) goes to the node whose log is shown; what acts goes to all nodes at once, and
is reported node by node. A node without the run is asked again from time to time: it may be started later.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from launchmon.cluster.clocks import Offset, measure
from launchmon.cluster.model import ClusterModel
from launchmon.link import Link
from launchmon.session import Session, Victim
from launchmon_agent.errors import Refused
from launchmon_agent.events import Event, Notice, Run, Stacks
from launchmon_agent.judge.cluster import Node, judge_cluster
from launchmon_agent.log.only import EVERYTHING, Only
from launchmon_agent.log.search import Counted, Found
from launchmon_agent.log.window import Window
from launchmon_agent.wire import Hello

AGAIN_S = 5.0
"""How often a node without the run is asked for it again."""

JUDGE_S = 1.0

T = TypeVar("T")


@dataclasses.dataclass
class Member:
    """One node. ``session`` is None where it could not be reached: ``problem`` says why."""

    label: str
    session: Session | None
    problem: str | None = None
    attached: bool = False
    absent: bool = False  # it was asked, and no server is there
    number: int = -1  # --node-rank
    offset: Offset = dataclasses.field(default_factory=Offset)
    followed: object = None  # the model whose events were folded


class ClusterSession:
    """See the module. Made by :meth:`open`; then :meth:`attach` or :meth:`launch`."""

    def __init__(
        self, members: Sequence[Member], *, read_only: bool = False, clock: Callable[[], float] = time.time
    ) -> None:
        self.read_only = read_only
        self.model = ClusterModel([member.label for member in members])
        self._members = list(members)
        self._clock = clock
        self._selectors: dict[str, Any] = {}
        self._subscribers: list[Callable[[], None]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._shown = 0

    @classmethod
    async def open(
        cls, openers: Sequence[tuple[str, Callable[[], Awaitable[Session]]]], *, read_only: bool = False
    ) -> ClusterSession:
        """``openers``: label and opener of each node. Raises the first :class:`Refused` when none can be reached."""
        found = await asyncio.gather(*(opener() for _, opener in openers), return_exceptions=True)
        members = []
        for (label, _), session in zip(openers, found, strict=True):
            if isinstance(session, Session):
                hostname = session.hello.hostname if session.hello is not None else ""
                members.append(Member(label if " " not in label else hostname or label, session))
            elif isinstance(session, Refused):
                members.append(Member(label, None, f"{session.what}{f' ({session.cause})' if session.cause else ''}"))
            else:
                raise session
        if not any(member.session for member in members):
            raise next(one for one in found if isinstance(one, Refused))
        return cls(members, read_only=read_only)

    # --------------------------------------------------------------------------------------------------- what is known

    @property
    def target(self) -> str:
        labels = [member.label for member in self._ordered()]
        return " + ".join(labels) if len(labels) < 3 else f"{len(labels)} nodes: {labels[0]} …"

    @property
    def hello(self) -> Hello | None:
        session = self._first()
        return None if session is None else session.hello

    @property
    def link(self) -> Link:
        """Live while any node is; ``message`` names those that are not."""
        links = [(member, member.session.link) for member in self._members if member.session is not None]
        live = [link for _, link in links if link.state == "live"]
        gone = [member for member, link in links if link.state != "live"]
        gone += [member for member in self._members if member.session is None]
        if not live:
            return links[0][1]
        return Link("live", "".join(f"no link to {member.label}. " for member in gone).strip(), live[0].since)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """As the judge takes them, by number."""
        return tuple(self._node(member) for member in self._ordered())

    @property
    def log_is_read(self) -> bool:
        return all(member.session.log_is_read for member in self._members if member.session and member.attached)

    def age(self) -> float:
        """Of the node that was heard last: those that are silent are named in the verdict."""
        return min((session.age() for _, session in self._sessions()), default=0.0)

    def retry_in(self) -> float | None:
        """Seconds until the first lost link is tried again; None where nothing is waited for."""
        waits = [wait for _, session in self._sessions() if (wait := session.retry_in()) is not None]
        return min(waits, default=None)

    def try_now(self) -> None:
        """Try lost links again at once."""
        for _, session in self._sessions():
            session.try_now()

    async def back(self) -> None:
        """Wait while no node is reached. Raises :class:`Refused` when all links have ended."""
        while self.link.state != "live":
            await self._attached()[0][1].back()

    @property
    def local_log(self) -> str | None:
        return self._reader().local_log

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def listen(self, callback: Callable[[Event], None]) -> None:
        for _, session in self._sessions():
            session.listen(callback)

    # ------------------------------------------------------------------------------------------------------- beginning

    async def attach(self, **selectors: Any) -> Run:
        """Follow the run on every node that has it. Raises :class:`Refused` where none has."""
        self._selectors = selectors
        return await self._begin(lambda session: session.attach(**selectors))

    async def launch(self, plans: Sequence[dict[str, Any]]) -> Run:
        """Start a run on every node, ``plans`` in order of the targets; nothing is started unless all are reached.

        Raises :class:`Refused` that says what was started where not all were.
        """
        unreached = [member for member in self._members if member.session is None]
        if unreached:
            raise Refused(f"{unreached[0].label} cannot be reached", unreached[0].problem or "", "")
        plan_of = {id(member.session): plan for member, plan in zip(self._members, plans, strict=True)}
        return await self._begin(lambda session: session.launch(**plan_of[id(session)]), all_or_none=True)

    async def _begin(self, follow: Callable[[Session], Awaitable[Run]], *, all_or_none: bool = False) -> Run:
        refusals: list[tuple[Member, Refused]] = []

        async def begin(member: Member, session: Session) -> None:
            with contextlib.suppress(Refused):
                member.offset = await measure(lambda: _time_of(session))
            try:
                member.number = (await follow(session)).node_rank
            except Refused as refused:
                refusals.append((member, refused))
                member.problem = refused.what
                member.absent = not await _serves(session)
            else:
                member.attached = True

        await asyncio.gather(*(begin(member, session) for member, session in self._sessions()))
        attached = [member for member in self._members if member.attached]
        if not attached:
            raise refusals[0][1]
        if refusals and all_or_none:
            member, refused = refusals[0]
            raise Refused(
                f"{member.label}: {refused.what}",
                f"{refused.cause}; started nevertheless on {', '.join(one.label for one in attached)}",
                f"launchmon kill {' '.join(f'--on {one.label}' for one in attached)}",
            )
        self._number()
        for member, session in self._sessions():
            self._follow(member, session)
        self._rebuild()
        self._tasks.append(asyncio.create_task(self._keep_judging()))
        if not all_or_none:
            self._tasks.append(asyncio.create_task(self._look_again()))
        assert self.model.run is not None
        return self.model.run

    def _number(self) -> None:
        """Node numbers are those of the runs; a node without one takes the first that is free."""
        taken = [member.number for member in self._members if member.attached]
        if len(set(taken)) < len(taken):
            labels = [member.label for member in self._members if member.attached]
            raise Refused(
                f"the servers on {' and '.join(labels)} are not nodes of one run",
                f"they have the same --node-rank: {', '.join(map(str, taken))}",
                f"launchmon attach --on {labels[0]}",
            )
        free = (number for number in range(len(taken) + len(self._members)) if number not in taken)
        for member in self._members:
            if not member.attached:
                member.number = next(free)

    async def _look_again(self) -> None:
        """A node that was not there, or had no server, may have one now."""
        while True:
            await asyncio.sleep(AGAIN_S)
            for member, session in self._sessions():
                if member.attached or session.link.state != "live":
                    continue
                try:
                    run = await session.attach(**self._selectors)
                except Refused:
                    continue
                member.attached, member.absent, member.problem, member.number = True, False, None, run.node_rank
                self._rebuild()

    # --------------------------------------------------------------------------------------------------------- folding

    def _follow(self, member: Member, session: Session) -> None:
        def take(event: Event) -> None:
            if member.followed is not session.model:
                self._rebuild()
            else:
                self.model.fold_of(member.number, event, member.offset.correction)

        session.listen(take)
        session.subscribe(self._changed)

    def _rebuild(self) -> None:
        """From the state of each node: at the beginning, and when a node's model was replaced by another."""
        actions = self.model.actions
        self.model = ClusterModel([member.label for member in self._ordered()])
        self.model.shown_log = self._shown
        for member in self._ordered():
            if member.session is None or not member.attached:
                continue
            member.followed = member.session.model
            words = member.offset.words(member.label)
            if words is not None:
                self.model.fold(Notice(self._clock(), source="clock", text=words))
            for event in member.session.model.replay():
                self.model.fold_of(member.number, event, member.offset.correction)
        for id_, steps in actions.items():
            self.model.actions.setdefault(id_, steps)
        self._judge()

    async def _keep_judging(self) -> None:
        while True:
            await asyncio.sleep(JUDGE_S)
            self._judge()
            self._changed()

    def _judge(self) -> None:
        self.model.fold(judge_cluster(self.nodes, self._clock()))

    def _node(self, member: Member) -> Node:
        session, problem = member.session, member.problem
        if session is not None and session.link.state != "live":
            problem = f"the link is {session.link.state}: {session.link.message}"
        return Node(
            number=member.number,
            label=member.label,
            model=session.model if session is not None and member.attached else None,
            problem=problem,
            offset_s=member.offset.correction,
            absent=member.absent,
        )

    def _changed(self) -> None:
        for callback in tuple(self._subscribers):
            callback()

    # --------------------------------------------------------------------------------------------- what reads: one node

    @property
    def shown_log(self) -> tuple[int, str]:
        """Number and label of the node whose log is shown."""
        return self._shown, next((member.label for member in self._members if member.number == self._shown), "")

    def show_next_log(self) -> None:
        """The log of the next node that has the run."""
        numbers = sorted(member.number for member in self._members if member.attached)
        later = [number for number in numbers if number > self._shown]
        self._shown = (later or numbers)[0]
        self.model.show_log_of(self._shown)
        self._changed()

    def _reader(self) -> Session:
        for member in self._members:
            if member.number == self._shown and member.session is not None and member.attached:
                return member.session
        return self._attached()[0][1]

    async def window(
        self, at: int | str, before: int, after: int, only: Only = EVERYTHING, raw: bool = False
    ) -> Window:
        return await self._reader().window(at, before, after, only, raw)

    async def search(
        self, pattern: str, start: int, forward: bool, regex: bool = False, only: Only = EVERYTHING
    ) -> Found:
        return await self._reader().search(pattern, start, forward, regex, only)

    async def count(
        self, pattern: str, start: int, stop: int | None, regex: bool = False, only: Only = EVERYTHING
    ) -> Counted:
        return await self._reader().count(pattern, start, stop, regex, only)

    async def place(self, *, line: int | None = None, moment: str | None = None) -> int:
        return await self._reader().place(line=line, moment=moment)

    async def recording(self) -> list[bytes]:
        return await self._attached()[0][1].recording()

    async def software(self) -> dict[str, str]:
        return await self._attached()[0][1].software()

    async def ledger(self, run: str | None = None) -> dict[str, Any]:
        return await self._attached()[0][1].ledger(run)

    async def request(self, do: str, **args: Any) -> Any:
        """Of the first node."""
        return await self._attached()[0][1].request(do, **args)

    # --------------------------------------------------------------------------------------------- what acts: all nodes

    async def dump(self, native: bool = False, locals_of: str | None = None) -> Stacks:
        """Of all nodes at once, as one. Raises :class:`Refused` when no node gives any."""
        await self._on_all(lambda session: session.dump(native, locals_of), some=True)
        dumps = [dump for dump in self.model.stacks if not dump.automatic]
        if not dumps:
            raise Refused("the dumps were taken, and have not arrived", "the link is slow, or lost", "d takes another")
        return dumps[-1]

    async def kill_plan(self) -> list[Victim]:
        found = await self._on_all(lambda session: session.kill_plan())
        return [
            (pid, role, rank, f"node {number}: {title or role}")
            for number, victims in found
            for pid, role, rank, title in victims
        ]

    async def kill(self, force: bool = False) -> dict[str, Any]:
        """On all nodes at once: a node that outlives another only waits for it."""
        found = await self._on_all(lambda session: session.kill(force))
        return {
            "killed": [victim for _, one in found for victim in one["killed"]],
            "leftovers": [f"node {number}: {left}" for number, one in found for left in one["leftovers"]],
            "notes": [f"node {number}: {note}" for number, one in found for note in one["notes"]],
            "graceful": all(one["graceful"] for _, one in found),
            "seconds": max(one["seconds"] for _, one in found),
        }

    async def relaunch_options(self) -> dict[str, Any]:
        return await self._attached()[0][1].relaunch_options()

    async def relaunch_plan(self, **change: Any) -> dict[str, Any]:
        """Of the first node: the others start the same with their own ``--node-rank``."""
        _refuse_going_back(change)
        return await self._attached()[0][1].relaunch_plan(**change)

    async def relaunch(self, **change: Any) -> Run:
        """On all nodes at once, each from its own command. Raises :class:`Refused` naming the nodes that did not."""
        _refuse_going_back(change)
        await self._on_all(lambda session: session.relaunch(**change))
        assert self.model.run is not None
        return self.model.run

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(session.close() for _, session in self._sessions()))

    async def _on_all(
        self, ask: Callable[[Session], Coroutine[Any, Any, T]], *, some: bool = False
    ) -> list[tuple[int, T]]:
        """Node and answer of each. ``some``: one answer is enough. Raises :class:`Refused` that names the nodes."""
        if self.read_only and not some:
            raise Refused("this view is read-only", "it was opened with --read-only")
        attached = self._attached()
        answers = await asyncio.gather(*(ask(session) for _, session in attached), return_exceptions=True)
        good: list[tuple[int, T]] = []
        refused: list[tuple[Member, Refused]] = []
        for (member, _), answer in zip(attached, answers, strict=True):
            if isinstance(answer, Refused):
                refused.append((member, answer))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                good.append((member.number, answer))
        if refused and not (some and good):
            member, first = refused[0]
            done = f"; done on node {', '.join(str(number) for number, _ in good)}" if good else ""
            raise Refused(f"node {member.number} ({member.label}): {first.what}", f"{first.cause}{done}", first.try_)
        return good

    # ------------------------------------------------------------------------------------------------------- the nodes

    def _ordered(self) -> list[Member]:
        return sorted(self._members, key=lambda member: member.number)

    def _sessions(self) -> list[tuple[Member, Session]]:
        return [(member, member.session) for member in self._members if member.session is not None]

    def _attached(self) -> list[tuple[Member, Session]]:
        """By number. Raises :class:`Refused` when the run is on no node."""
        found = [(member, session) for member, session in self._sessions() if member.attached]
        if not found:
            raise Refused("no run is chosen yet", "attach or launch comes first")
        return sorted(found, key=lambda pair: pair[0].number)

    def _first(self) -> Session | None:
        found = sorted(self._sessions(), key=lambda pair: pair[0].number)
        return found[0][1] if found else None


AnySession = Session | ClusterSession
"""With one target, or with several."""


def _refuse_going_back(change: dict[str, Any]) -> None:
    if change.get("back_to"):
        raise Refused(
            "going back to an attempt is not possible for several nodes at once",
            "each node has its own directory of attempts",
            "launchmon relaunch --back-to RUN --on TARGET    # node by node",
        )


async def _serves(session: Session) -> bool:
    """Whether any server runs on a target."""
    try:
        return any(run["state"] == "running" for run in await session.request("runs"))
    except Refused:
        return True  # not known, which is not absent


async def _time_of(session: Session) -> float:
    value = await session.request("clock")
    return float(value)
