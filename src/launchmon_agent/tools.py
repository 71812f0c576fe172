"""Programs that the agent uses besides Python: what is here, and taking one from the client where it is missing."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from typing import Any

from launchmon_agent.errors import Refused
from launchmon_agent.stacks import cache, permission, pyspy


class Tools:
    """For one client."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def state(self, pids: Sequence[int]) -> dict[str, Any]:
        """``pyspy``: the one that is used on these processes, or None; ``machine``: what kind one must be for;
        ``refused``: why none would be allowed to read them, or None."""
        usable = (program for program in pyspy.find(pids) if cache.runs(program))
        refused = permission.check(pids[0]) if pids else None
        return {
            "pyspy": next(usable, None),
            "machine": os.uname().machine,
            "refused": None if refused is None else refused.as_json(),
        }

    def take(self, part: dict[str, Any]) -> dict[str, Any]:
        """One part of a program: ``number`` from 0, ``data`` in base64, and with the last one the ``name``.

        Returns its ``path`` once it is whole; ``again``: those before this part are not known here. Raises
        :class:`Refused`.
        """
        try:
            data = base64.b64decode(str(part.get("data", "")), validate=True)
        except ValueError as error:
            raise Refused("a part of a program is damaged", str(error)) from None
        if part.get("number") == 0:
            self._parts = []
        if part.get("number") != len(self._parts):
            return {"path": None, "again": True}
        if sum(map(len, self._parts)) + len(data) > cache.LARGEST:
            raise Refused("the program is too large", f"at most {cache.LARGEST >> 20} MiB are taken")
        self._parts.append(data)
        if part.get("name") is None:
            return {"path": None, "again": False}
        packed, self._parts = b"".join(self._parts), []
        return {"path": cache.keep(str(part["name"]), packed), "again": False}
