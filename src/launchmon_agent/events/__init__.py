"""The vocabulary: every fact that travels or is recorded. :mod:`launchmon_agent.codec` is its wire format.

An event is a frozen dataclass with a ``kind`` and ``at``: seconds since the epoch on the target. Sizes are bytes,
rates bytes per second, times seconds, utilisations percent. ``None`` means "not known", never zero.
``docs/recording-format.md`` is made from these modules: the comment behind a field is its remark there.
"""

from __future__ import annotations

from launchmon_agent.events.base import LAUNCHER, Event, Other
from launchmon_agent.events.conclusions import Action, Countdown, Evidence, Next, Notice, RuledOut, Verdict
from launchmon_agent.events.dump import Frame, RankStack, Stacks, Thread
from launchmon_agent.events.log import LastLine, Log, LogError, Mark, Progress
from launchmon_agent.events.samples import (
    Beat,
    CollectiveRank,
    Communicator,
    Exit,
    Gpu,
    GpuProcess,
    Gpus,
    Heartbeat,
    Host,
    Http,
    Kernel,
    Process,
    Processes,
    Ras,
)
from launchmon_agent.events.subject import Expected, Installed, Leftovers, ModelFiles, Orphan, Run

__all__ = [
    "KINDS",
    "LAUNCHER",
    "Action",
    "Beat",
    "CollectiveRank",
    "Communicator",
    "Countdown",
    "Event",
    "Evidence",
    "Exit",
    "Expected",
    "Frame",
    "Gpu",
    "GpuProcess",
    "Gpus",
    "Heartbeat",
    "Host",
    "Http",
    "Installed",
    "Kernel",
    "LastLine",
    "Leftovers",
    "Log",
    "LogError",
    "Mark",
    "ModelFiles",
    "Next",
    "Notice",
    "Orphan",
    "Other",
    "Process",
    "Processes",
    "Progress",
    "RankStack",
    "Ras",
    "RuledOut",
    "Run",
    "Stacks",
    "Thread",
    "Verdict",
]

KINDS: dict[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        Run,
        Processes,
        Gpus,
        Host,
        Http,
        Heartbeat,
        Ras,
        Expected,
        Installed,
        ModelFiles,
        Leftovers,
        Kernel,
        Exit,
        Mark,
        Progress,
        LogError,
        Log,
        Stacks,
        Verdict,
        Action,
        Notice,
    )
}
"""Every kind, in the order in which the recording format lists them."""
