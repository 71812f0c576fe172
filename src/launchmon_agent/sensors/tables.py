"""Reads the data files beside the sensors. Also out of a zip, where the agent lives on a target."""

from __future__ import annotations

import pkgutil


def rows(name: str, columns: int) -> list[list[str]]:
    """The lines of a table without comments, split into ``columns``; the last column may hold spaces."""
    data = pkgutil.get_data(__package__, name)
    if data is None:
        raise FileNotFoundError(name)
    lines = (line.strip() for line in data.decode("utf-8").splitlines())
    return [line.split(None, columns - 1) for line in lines if line and not line.startswith("#")]
