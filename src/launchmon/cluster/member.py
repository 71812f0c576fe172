"""One node of a cluster session: its session with an agent, and what is known of the run there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from launchmon.answers import a_number, objects
from launchmon.cluster.clocks import Offset, measure
from launchmon.session import Session
from launchmon_agent.errors import Refused
from launchmon_agent.events import Run
from launchmon_agent.judge.cluster import Node

Opener = tuple[str, Callable[[], Awaitable[Session]]]
"""Label of a target, and what opens a session there."""


@dataclass
class Member:
    """One node. ``session`` is None where it could not be reached: ``problem`` says why."""

    label: str
    session: Session | None
    problem: str | None = None
    attached: bool = False
    absent: bool = False  # it was asked, and no server is there
    stranger: bool = False  # the server that is there is another run's
    number: int = -1  # --node-rank
    offset: Offset = field(default_factory=Offset)
    followed: object = None  # the model whose events were folded

    @property
    def link(self) -> str:
        """State of the link to its agent: as of ``launchmon.link.Link``, or ``none`` where there never was one."""
        return "none" if self.session is None else self.session.link.state

    @property
    def node(self) -> Node:
        """As the judge takes it."""
        session, problem = self.session, self.problem
        if session is not None and session.link.state != "live":
            problem = f"the link is {session.link.state}: {session.link.message}"
        hello = None if session is None else session.hello
        return Node(
            number=self.number,
            label=self.label,
            model=session.model if session is not None and self.attached else None,
            problem=problem,
            offset_s=self.offset.correction,
            absent=self.absent,
            link=self.link,
            hostname=None if hello is None else hello.hostname,
        )

    async def begin(self, follow: Callable[[Session], Awaitable[Run]]) -> Refused | None:
        """Measure its clock and follow the run there; the refusal where that cannot be."""
        assert self.session is not None
        session = self.session
        with contextlib.suppress(Refused):
            self.offset = await measure(lambda: _time_of(session))
        try:
            self.number = (await follow(session)).node_rank
        except Refused as refused:
            self.problem = refused.what
            self.absent = not await _serves(session)
            return refused
        self.attached, self.absent, self.problem = True, False, None
        return None


async def open_members(openers: Sequence[Opener]) -> list[Member]:
    """A member for each, reached or not. Raises the first :class:`Refused` when none can be reached."""
    found = await asyncio.gather(*(opener() for _, opener in openers), return_exceptions=True)
    unforeseen = [one for one in found if isinstance(one, BaseException) and not isinstance(one, Refused)]
    refusals = [one for one in found if isinstance(one, Refused)]
    if unforeseen or len(refusals) == len(found):
        await asyncio.gather(*(one.close() for one in found if isinstance(one, Session)))
        raise (*unforeseen, *refusals)[0]
    members = []
    for (label, _), session in zip(openers, found, strict=True):
        if isinstance(session, Session):
            hostname = session.hello.hostname if session.hello is not None else ""
            members.append(Member(label if " " not in label else hostname or label, session))
        else:
            assert isinstance(session, Refused)
            members.append(Member(label, None, f"{session.what}{f' ({session.cause})' if session.cause else ''}"))
    return members


def number_members(members: Sequence[Member]) -> None:
    """Numbers are those of the runs; a node without a run takes the first that is free.

    Raises :class:`Refused` where two runs have the same: they are no nodes of one run.
    """
    attached = [member for member in members if member.attached]
    taken = [member.number for member in attached]
    if len(set(taken)) < len(taken):
        raise Refused(
            f"the servers on {' and '.join(member.label for member in attached)} are not nodes of one run",
            f"they have the same --node-rank: {', '.join(map(str, taken))}",
            "name one of these targets alone",
        )
    free = (number for number in range(len(members)) if number not in taken)
    for member in members:
        if not member.attached:
            member.number = next(free, len(members))


async def _serves(session: Session) -> bool:
    """Whether any server runs on a target."""
    try:
        found = objects("runs", await session.request("runs"), "state")
        return any(run["state"] == "running" for run in found)
    except Refused:
        return True  # not known, which is not absent


async def _time_of(session: Session) -> float:
    return a_number("clock", await session.request("clock"))
