"""The link to an agent: one conversation after another over pipes that end, and what a person is told of it.

``clock`` is the time by which it goes; ``conversation`` is the talk over one pipe; ``line`` keeps one going.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """State of the link to the agent.

    ``connecting``: for the first time. ``live``. ``lost``: it is tried again at ``retry_at``; None: it is being tried
    now, or, where it is ``given_up``, when somebody asks for it. ``ended``: for good, because what was followed is no
    more, or was left; or because it was ``given_up`` and nobody is there to ask. ``message`` is why, in words. Times
    are the client's, seconds since the epoch.
    """

    state: str
    message: str = ""
    since: float = 0.0
    retry_at: float | None = None
    given_up: bool = False


class Gone(Exception):
    """The target answers, and what was followed there is no more. Says why, in words."""


class Cut(Exception):
    """The link ended before an answer came. Says why, in words."""
