"""The standard streams that a verb was started without, as a daemon may start it."""

from __future__ import annotations

import os
import sys


def open_closed_streams() -> None:
    """Put ``/dev/null`` in their place: else the next file that is opened gets the number of one, and is written to
    in its place.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)  # noqa: SIM115  (for as long as the process lives)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)  # which keeps it open when another one is put before it
