"""What panels draw from: a session at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from launchmon.session_like import ModelLike, SessionLike
from launchmon_agent.judge.cluster import Node


@dataclass(frozen=True)
class View:
    """What a panel draws from: the state at one moment of the screen's clock."""

    model: ModelLike
    link_state: str
    link_message: str
    age: float
    """Seconds since the last event."""
    now: float
    """The target's time: that of the newest event, and running on while the link is live."""
    target: str
    read_only: bool
    retry_s: float | None = None
    """Seconds until a lost link is tried again; None: it is tried just now, or ``given_up``."""
    given_up: bool = False
    nodes: tuple[Node, ...] = ()
    """Of a run on several targets, by number; else empty."""

    @property
    def stale(self) -> bool:
        return self.link_state in ("lost", "ended")

    @classmethod
    def of(cls, session: SessionLike) -> View:
        link, age, model = session.link, session.age(), session.model
        running = link.state in ("live", "replay")  # a recording says itself how far it is past its newest event
        return cls(
            model=model,
            link_state=link.state,
            link_message=link.message,
            age=age,
            now=model.now + (age if running else 0.0),
            target=session.target,
            read_only=session.read_only,
            retry_s=session.retry_in(),
            given_up=link.given_up,
            nodes=tuple(session.nodes),
        )
