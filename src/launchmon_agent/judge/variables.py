"""Which variables of a server's environment explain something later, fit to be recorded. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from launchmon_agent.judge import remedies
from launchmon_agent.judge.clocks import clock_variables
from launchmon_agent.sglang.secrets import is_secret_name

SET = "set"
"""In place of a value that may hold credentials."""

_LONGEST = 200
_FAMILIES = re.compile(r"(?:NCCL|TORCH_NCCL|GLOO|NVSHMEM)_\w+")
_OTHERS = frozenset(
    {
        *("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"),
        *("CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "LD_PRELOAD", "no_proxy", "NO_PROXY"),
        *("HF_HUB_OFFLINE", "PYTORCH_CUDA_ALLOC_CONF", "SGLANG_LOGGING_CONFIG_PATH"),
    }
)


def telling(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that change a clock, that a remedy speaks of, or that are known to decide how a launch goes."""
    wanted = {*_OTHERS, *clock_variables(), *_of_remedies()}
    found = {}
    for name, value in sorted(environ.items()):
        if name in remedies.PROXIES:
            found[name] = SET if value else ""
        elif (name in wanted or _FAMILIES.fullmatch(name)) and not is_secret_name(name):
            found[name] = value[:_LONGEST]
    return found


def _of_remedies() -> set[str]:
    changes = (change for row in remedies.rows() if row.do == "relaunch" for change in row.change)
    words = (
        change.removeprefix("unset ").partition("=")[0] for change in changes if not change.startswith(("-", "drop"))
    )
    return set(words)
