"""Which panels are hidden and which is expanded, remembered for each size of the screen."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

logger = logging.getLogger("launchmon.tui")

WIDTHS = ((0, "-narrow"), (118, "-wide"), (170, "-very-wide"))
"""Least cells across → the class of the screen."""

HEIGHTS = ((0, "-tiny"), (22, "-short"), (30, "-medium"), (48, "-tall"))
"""Least rows → the class of the screen."""


@dataclass(frozen=True)
class Arrangement:
    """A person's choice for one size of the screen; panels by name."""

    hidden: frozenset[str] = frozenset()
    expanded: str | None = None


class Layouts:
    """Arrangements by size, kept in a file where there is one. What cannot be read or written costs the choice only."""

    def __init__(self, path: Path | None, panels: Iterable[str], first: Arrangement) -> None:
        """``first``: where nothing is remembered. Names that are not in ``panels`` are passed over."""
        self._path = path
        self._panels = frozenset(panels)
        self._first = first
        self._kept = self._read()

    def of(self, size: str) -> Arrangement:
        return self._kept.get(size, self._first)

    def keep(self, size: str, arrangement: Arrangement) -> None:
        """Remember it for this size; the file has what other screens have written meanwhile, too."""
        if self.of(size) == arrangement:
            return
        self._kept = {**self._read(), **self._kept, size: arrangement}
        if self._path is None:
            return
        body = {
            name: {"hidden": sorted(kept.hidden), "expanded": kept.expanded}
            for name, kept in sorted(self._kept.items())
        }
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            new.write_text(json.dumps(body, indent=1) + "\n")
            new.replace(self._path)
        except OSError as error:
            logger.warning("the layout is not remembered: %s", error)

    def _read(self) -> dict[str, Arrangement]:
        try:
            body = {} if self._path is None else json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            logger.warning("remembered layouts cannot be read: %s", error)
            return {}
        if not isinstance(body, dict):
            return {}
        return {size: self._arrangement(kept) for size, kept in body.items() if isinstance(kept, dict)}

    def _arrangement(self, kept: Mapping[str, Any]) -> Arrangement:
        hidden, expanded = kept.get("hidden"), kept.get("expanded")
        names = frozenset(name for name in hidden if isinstance(name, str)) if isinstance(hidden, list) else frozenset()
        hidden_here = names & self._panels
        if hidden_here == self._panels:  # something must be there
            hidden_here = frozenset()
        shown = isinstance(expanded, str) and expanded not in hidden_here
        return Arrangement(hidden_here, expanded if shown else None)


def size_class(width: int, height: int) -> str:
    """``wide-medium`` for 120×40: the sizes of which each has a layout of its own."""
    across = next(name for least, name in reversed(WIDTHS) if width >= least)
    down = next(name for least, name in reversed(HEIGHTS) if height >= least)
    return f"{across[1:]}{down}"


def state_file(environment: Mapping[str, str]) -> Path:
    """``$XDG_STATE_HOME/launchmon/layouts.json``."""
    home = environment.get("XDG_STATE_HOME", "")
    base = Path(home) if home.startswith("/") else Path(environment.get("HOME", "/")) / ".local/state"
    return base / "launchmon" / "layouts.json"
