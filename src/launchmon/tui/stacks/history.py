"""All dumps of a run in the order of time, and which of them is looked at. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from launchmon_agent.events import Stacks
from launchmon_agent.stacks.merge import Merged, merge

_Key = tuple[float, str]


class History:
    """Follows the newest dump until an older one is asked for."""

    def __init__(self) -> None:
        self._dumps: dict[_Key, Stacks] = {}
        self._held: _Key | None = None  # None: the newest
        self._merged: tuple[tuple[_Key, ...], Merged] | None = None

    def take(self, dumps: Iterable[Stacks]) -> None:
        """Take in what is not known yet. Once known, a dump stays."""
        new = {_key(dump): dump for dump in dumps if _key(dump) not in self._dumps}
        if new:
            self._dumps = dict(sorted({**self._dumps, **new}.items()))

    @property
    def dumps(self) -> tuple[Stacks, ...]:
        return tuple(self._dumps.values())

    @property
    def place(self) -> int:
        """Of the one that is looked at, from 0; -1 where there is none."""
        keys = list(self._dumps)
        return keys.index(self._held) if self._held is not None else len(keys) - 1

    @property
    def current(self) -> Stacks | None:
        return self.dumps[self.place] if self._dumps else None

    @property
    def before(self) -> Stacks | None:
        """The dump before the current one."""
        return self.dumps[self.place - 1] if self.place > 0 else None

    def step(self, by: int) -> bool:
        """To an older (-1) or a newer (1) one; False where there is none."""
        keys, wanted = list(self._dumps), self.place + by
        if not 0 <= wanted < len(keys):
            return False
        self._held = keys[wanted] if wanted < len(keys) - 1 else None
        return True

    def newest(self) -> None:
        self._held = None

    def merged(self) -> Merged | None:
        """The current dump against all before it."""
        current = self.current
        if current is None:
            return None
        upto = tuple(self._dumps)[: self.place + 1]
        if self._merged is None or self._merged[0] != upto:
            self._merged = upto, merge(current, self.dumps[: self.place])
        return self._merged[1]


def _key(dump: Stacks) -> _Key:
    return dump.at, dump.id
