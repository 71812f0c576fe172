"""NVML through nvidia-ml-py, loaded when first needed, with its error codes sorted by what to do about them.

Codes are those of nvml.h. A function that the installed nvidia-ml-py lacks counts as one that the driver lacks.
"""

from __future__ import annotations

import importlib
from typing import Any

_LIBRARY_NOT_FOUND = 12
_UNAVAILABLE = {
    1: "NVML has not been started",
    4: "the NVIDIA driver refuses access to its devices (/dev/nvidia*)",
    9: "the NVIDIA driver is not loaded: its kernel module does not answer",
    _LIBRARY_NOT_FOUND: "no NVIDIA driver here: libnvidia-ml.so.1 was not found",
    18: "the NVIDIA library and the loaded kernel module differ in version: the driver was updated without a restart",
}
_NO_LONGER = (1, 9, _LIBRARY_NOT_FOUND, 18)
"""Codes that a question about a GPU can get when the driver itself has gone."""

_LOST = {
    15: "the GPU is lost: it has fallen off the bus, or the driver gave it up",
    16: "the GPU needs a reset",
    28: "the GPU is no longer there",
}
_PASSING = (
    5,  # already initialised
    7,  # insufficient size: the list has grown between two calls
    10,  # timeout
    11,  # interrupt issue
    17,  # the operating system refused
    19,  # in use
    20,  # out of memory
    21,  # no data
    23,  # out of resources
    27,  # not ready
    29,  # invalid state
    999,  # unknown
)


class Unavailable(Exception):
    """There is no NVML. The text is a plain sentence for a person."""


class Unsupported(Exception):
    """This GPU or driver will never answer this question."""


class Lost(Exception):
    """The GPU answers nothing any more. The text is a plain sentence for a person."""


class Failed(Exception):
    """No answer this time."""


class Nvml:
    """A started NVML."""

    def __init__(self) -> None:
        """Raises :class:`Unavailable`."""
        try:
            self._module: Any = importlib.import_module("pynvml")
        except Exception as error:
            raise Unavailable(f"nvidia-ml-py is not usable in the agent's interpreter: {error}") from error
        try:
            self._module.nvmlInit()
        except Exception as error:
            code = getattr(error, "value", None)
            text = _UNAVAILABLE.get(code) if isinstance(code, int) else None
            raise Unavailable(text or f"NVML did not start: {error}") from error

    def ask(self, function: str, *arguments: Any) -> Any:
        """Call ``nvml<function>``. Raises the four errors of this module and no others."""
        try:
            call = getattr(self._module, "nvml" + function)
        except AttributeError as error:
            raise Unsupported(f"this nvidia-ml-py has no nvml{function}") from error
        try:
            return call(*arguments)
        except Exception as error:
            raise _sorted(error) from error

    def close(self) -> None:
        """The library stays loaded; NVML lets go of the driver."""
        try:
            self._module.nvmlShutdown()
        except Exception:  # noqa: BLE001, S110 - it ends either way
            pass


def _sorted(error: Exception) -> Exception:
    code = getattr(error, "value", None)
    if not isinstance(code, int) or code in _PASSING:
        return Failed(str(error))
    if code in _LOST:
        return Lost(_LOST[code])
    if code in _NO_LONGER:
        return Unavailable(_UNAVAILABLE[code])
    return Unsupported(str(error))
