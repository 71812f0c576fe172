"""Where else the output of a launched server goes: to the places that it had when somebody started it by hand. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pane:
    """A pane of a tmux server on this machine."""

    id: str  # "%3"
    name: str  # "main:1.0"
    tty: str  # "/dev/pts/4"
    socket: str  # of its server

    def describe(self) -> str:
        return f"tmux pane {self.name}"

    def is_named(self, text: str) -> bool:
        """Whether a person means this pane: by id, place, or session (``%3``, ``main:1.0``, ``main:1``, ``main``)."""
        session, _, place = self.name.rpartition(":")
        return text in (self.id, self.name, session, f"{session}:{place.split('.')[0]}")


@dataclass(frozen=True)
class Outlets:
    """``lost``: in words, the places of before that cannot have it again."""

    files: tuple[str, ...] = ()  # absolute paths; it is appended
    pane: Pane | None = None
    lost: tuple[str, ...] = ()

    def words(self) -> tuple[str, ...]:
        """For a person who is about to relaunch; nothing where the run directory has always been the only place."""
        return (
            *(f"appended to {path}, where it went before" for path in self.files),
            *((f"shown in {self.pane.describe()} again",) if self.pane is not None else ()),
            *(f"not where it went before: {why}" for why in self.lost),
        )
