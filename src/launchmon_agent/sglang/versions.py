"""Releases of SGLang as numbers, and the ranges in which the data tables say what holds for which. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

Number = tuple[int, ...]

_NUMBER = re.compile(r"(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?")
_RANGES = tuple(
    re.compile(form.replace("N", r"\d+(?:\.\d+){1,2}"))
    for form in (r"(?P<since>N)\+", r"(?P<since>N)?-(?P<until>N)", r"(?P<only>N)")
)


def number(version: str | None) -> Number | None:
    """``"0.5.6.post1"`` → ``(0, 5, 6)``. None for what is no release: a checkout calls itself 0.0.0 or so."""
    match = _NUMBER.match(version or "")
    if match is None:
        return None
    found = tuple(int(part or 0) for part in match.groups())
    return found if any(found) else None


@dataclass(frozen=True)
class Versions:
    """A range, written ``all``, ``0.5.8+``, ``0.4.3-0.5.7``, ``-0.5.7`` or ``0.5.6``; both ends belong to it."""

    text: str
    since: Number | None = None
    until: Number | None = None

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Raises ValueError."""
        if text == "all":
            return cls(text)
        for pattern in _RANGES:
            match = pattern.fullmatch(text)
            if match is not None:
                ends = match.groupdict()
                since, until = (
                    number(ends.get("since") or ends.get("only")),
                    number(ends.get("until") or ends.get("only")),
                )
                if since is None or until is None or since <= until:
                    return cls(text, since, until)
        raise ValueError(f"{text!r} is no range of versions")

    def holds(self, version: str | None) -> bool | None:
        """Whether a release is in the range; None where it is not known which one it is."""
        found = number(version)
        if self.since is None and self.until is None:
            return True
        if found is None:
            return None
        return (self.since is None or self.since <= found) and (self.until is None or found <= self.until)
