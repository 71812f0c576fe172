"""A session with several nodes of one run, shown and asked as one.

What reads (windows of the log, searches) goes to the node whose log is shown; what acts goes to all nodes at once, and
is reported node by node. A node without the run is asked again from time to time: it may be started later.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from launchmon.cluster.member import Member, Opener, number_members, open_members
from launchmon.cluster.model import ClusterModel
from launchmon.cluster.reading import Reading
from launchmon.connect.target import Target, options_of
from launchmon.link import Link
from launchmon.session import Session
from launchmon.victim import Victim
from launchmon_agent.errors import Refused
from launchmon_agent.events import Event, Notice, RankStack, Run, Stacks
from launchmon_agent.judge.cluster import Node, judge_cluster
from launchmon_agent.wire import Hello

AGAIN_S = 5.0
"""How often a node without the run is asked for it again."""

JUDGE_S = 1.0

T = TypeVar("T")


class ClusterSession(Reading):
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
    async def open(cls, openers: Sequence[Opener], *, read_only: bool = False) -> ClusterSession:
        """Raises the first :class:`Refused` when no node can be reached."""
        return cls(await open_members(openers), read_only=read_only)

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
        return tuple(member.node for member in self._ordered())

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
        changed = asyncio.Event()
        leave = self.subscribe(changed.set)
        try:
            while self.link.state != "live":
                sessions = [session for _, session in self._attached()]
                if all(session.link.state == "ended" for session in sessions):
                    await sessions[0].back()  # which says why
                changed.clear()
                await changed.wait()
        finally:
            leave()

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
        return self._begun(await self._begin_all(lambda session: session.attach(**selectors)))

    async def launch(self, plans: Sequence[dict[str, Any]], targets: Sequence[Target]) -> Run:
        """Start a run on every node, ``plans`` in order of the ``targets``; nothing is started unless all are reached.

        Raises :class:`Refused` that says what was started where not all were.
        """
        unreached = [member for member in self._members if member.session is None]
        if unreached:
            raise Refused(f"{unreached[0].label} cannot be reached", unreached[0].problem or "")
        plan_of = {id(member.session): plan for member, plan in zip(self._members, plans, strict=True)}
        refusals = await self._begin_all(lambda session: session.launch(**plan_of[id(session)]))
        started = [member for member in self._members if member.attached]
        if refusals and started:
            member, refused = refusals[0]
            where = [target for one, target in zip(self._members, targets, strict=True) if one.attached]
            cause = f"{refused.cause}; " if refused.cause else ""
            name = plans[0].get("name")
            raise Refused(
                f"{member.label}: {refused.what}",
                f"{cause}started nevertheless on {', '.join(one.label for one in started)}",
                shlex.join(["launchmon", "kill", *options_of(where), *([name] if name else [])]),
            )
        return self._begun(refusals)

    async def _begin_all(self, follow: Callable[[Session], Awaitable[Run]]) -> list[tuple[Member, Refused]]:
        members = [member for member, _ in self._sessions()]
        found = await asyncio.gather(*(member.begin(follow) for member in members))
        return [(member, refused) for member, refused in zip(members, found, strict=True) if refused is not None]

    def _begun(self, refusals: Sequence[tuple[Member, Refused]]) -> Run:
        if not any(member.attached for member in self._members):
            raise refusals[0][1]
        number_members(self._members)
        for member, session in self._sessions():
            self._follow(member, session)
        self._rebuild()
        self._tasks.append(asyncio.create_task(self._keep_judging()))
        self._tasks.append(asyncio.create_task(self._keep_looking()))
        assert self.model.run is not None
        return self.model.run

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(AGAIN_S)
            await self.look_again()

    async def look_again(self) -> None:
        """A node that had no server may have one now."""
        for member, session in self._sessions():
            if member.attached or member.stranger or session.link.state != "live":
                continue
            if await member.begin(lambda one: one.attach(**self._selectors)) is None:
                self._take_in(member)

    def _take_in(self, member: Member) -> None:
        """What has been found there since. The numbers of nodes without a run give way."""
        if any(other.attached and other is not member and other.number == member.number for other in self._members):
            member.attached, member.stranger = False, True
            member.problem = f"its server is another run's: it has --node-rank {member.number} too"
        number_members(self._members)
        self._rebuild()

    # --------------------------------------------------------------------------------------------------------- folding

    def _follow(self, member: Member, session: Session) -> None:
        def take(event: Event) -> None:
            if not member.attached:
                return
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

    def _changed(self) -> None:
        for callback in tuple(self._subscribers):
            callback()

    # ---------------------------------------------------------------------------------------------------- the log shown

    @property
    def shown_log(self) -> tuple[int, str]:
        """Number and label of the node whose log is shown."""
        return self._shown, next((member.label for member in self._members if member.number == self._shown), "")

    def show_next_log(self) -> None:
        """The log of the next node that has the run."""
        numbers = [member.number for member, _ in self._attached()]
        later = [number for number in numbers if number > self._shown]
        self._shown = (later or numbers)[0]
        self.model.show_log_of(self._shown)
        self._changed()

    def _reader(self) -> Session:
        for member, session in self._attached():
            if member.number == self._shown:
                return session
        return self._first_attached()

    def _first_attached(self) -> Session:
        return self._attached()[0][1]

    # --------------------------------------------------------------------------------------------- what acts: all nodes

    async def dump(self, native: bool = False, locals_of: str | None = None) -> Stacks:
        """Of all nodes at once, as one. Raises :class:`Refused` when no node gives any."""
        refused = (await self._ask_all(lambda session: session.dump(native, locals_of)))[1]
        if len(refused) == len(self._attached()):
            raise _of_node(*refused[0])
        for member, why in refused:
            self.model.fold_of(member.number, self._unread(member, why))
        dumps = [dump for dump in self.model.stacks if not dump.automatic]
        if not dumps:
            raise Refused("the dumps were taken, and have not arrived", "the link is slow, or lost", "d takes another")
        return dumps[-1]

    def _unread(self, member: Member, why: Refused) -> Stacks:
        """In place of the dump of a node that gave none: its ranks, with the reason."""
        at = max((dump.at for dump in self.model.stacks), default=self._clock())
        stacks = tuple(
            RankStack(row.pid, row.start_time, row.role, row.rank, problem=why.what, cure=why.try_ or None)
            for row in (member.session.model.rank_rows() if member.session is not None else ())
        )
        return Stacks(at, id=f"refused-{at}", stacks=stacks)

    async def kill_plan(self) -> list[Victim]:
        """Node by node."""
        found = await self._on_all(lambda session: session.kill_plan(), reading=True)
        return [Victim(*victim[:4], node=number) for number, victims in found for victim in victims]

    async def kill(self, force: bool = False) -> dict[str, Any]:
        """On all nodes at once: a node that outlives another only waits for it. What may live on a node that was not
        asked is left over."""
        found = await self._on_all(lambda session: session.kill(force))
        others = [member.node for member in self._ordered() if not member.attached and not member.absent]
        unasked = [f"whatever runs on {node.name}: {node.problem}" for node in others]
        return {
            "killed": [victim for _, one in found for victim in one["killed"]],
            "leftovers": [f"node {number}: {left}" for number, one in found for left in one["leftovers"]] + unasked,
            "notes": [f"node {number}: {note}" for number, one in found for note in one["notes"]],
            "graceful": all(one["graceful"] for _, one in found),
            "seconds": max(one["seconds"] for _, one in found),
        }

    async def relaunch_options(self) -> dict[str, Any]:
        return await self._first_attached().relaunch_options()

    async def relaunch_plan(self, **change: Any) -> dict[str, Any]:
        """Of the first node: the others start the same with their own ``--node-rank``."""
        _refuse_going_back(change)
        return await self._first_attached().relaunch_plan(**change)

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
        self, ask: Callable[[Session], Coroutine[Any, Any, T]], *, reading: bool = False
    ) -> list[tuple[int, T]]:
        """Number and answer of each. Raises :class:`Refused` that names the node, and those where it was done."""
        if self.read_only and not reading:
            raise Refused("this view is read-only", "it was opened with --read-only")
        good, refused = await self._ask_all(ask)
        if refused:
            raise _of_node(*refused[0], done=[] if reading else [number for number, _ in good])
        return good

    async def _ask_all(
        self, ask: Callable[[Session], Coroutine[Any, Any, T]]
    ) -> tuple[list[tuple[int, T]], list[tuple[Member, Refused]]]:
        """At once: the answers with the numbers of their nodes, and the refusals. Raises what is no refusal."""
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
        return good, refused

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


def _of_node(member: Member, refused: Refused, done: Sequence[int] = ()) -> Refused:
    """What a node refused, with its name; ``done``: the nodes that did it."""
    where = f"done on node {', '.join(map(str, done))}" if done else ""
    cause = "; ".join(part for part in (refused.cause, where) if part)
    return Refused(f"node {member.number} ({member.label}): {refused.what}", cause, refused.try_)
