"""Programs that the agent uses besides Python: what is here, and taking one from the client where it is missing."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence
from typing import Any

from launchmon_agent.errors import Refused
from launchmon_agent.stacks import cache, pyspy


class Tools:
    """For one client."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def state(self, pids: Sequence[int]) -> dict[str, Any]:
        """``pyspy``: the one that is used on these processes, or None; ``machine``: what kind one must be for."""
        usable = (program for program in pyspy.find(pids) if cache.runs(program))
        return {"pyspy": next(usable, None), "machine": os.uname().machine}

    def take(self, part: dict[str, Any]) -> str | None:
        """One part of a program: ``number`` from 0, ``data`` in base64, and with the last one the ``name``.

        Returns the program's path once it is whole. Raises :class:`Refused`.
        """
        try:
            data = base64.b64decode(str(part.get("data", "")), validate=True)
        except binascii.Error as error:
            raise Refused("a part of a program is damaged", str(error)) from None
        if part.get("number") == 0:
            self._parts = []
        if part.get("number") != len(self._parts) or sum(map(len, self._parts)) + len(data) > cache.LARGEST:
            raise Refused("the parts of a program do not fit", "client and agent are of different versions")
        self._parts.append(data)
        if part.get("name") is None:
            return None
        packed, self._parts = b"".join(self._parts), []
        return cache.keep(str(part["name"]), packed)
