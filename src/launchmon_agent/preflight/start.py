"""A launch before it begins, as the checks see it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launchmon_agent.events import Gpu
from launchmon_agent.preflight.facts import Facts
from launchmon_agent.sglang.command import Command
from launchmon_agent.sglang.ranks import expected_ranks
from launchmon_agent.sglang.run import run_of_command

SHOWN = 4
"""Names that are listed; of more only the number is told."""


@dataclass(frozen=True)
class Start:
    """What would be started, and where."""

    command: Command
    env: Mapping[str, str]  # the whole environment of the server
    facts: Facts

    @property
    def ranks(self) -> int:
        """On this node."""
        return len(expected_ranks(run_of_command(self.command, 0.0, id="")))

    @property
    def sizes(self) -> str:
        """``tp 8 × pp 2``."""
        sizes = (("tp", self.command.tp), ("pp", self.command.pp), ("dp", self.command.dp))
        return " × ".join(f"{name} {size}" for name, size in sizes if size > 1 or name == "tp")

    @property
    def device(self) -> str:
        return self.flag("--device") or "cuda"

    def flag(self, name: str) -> str | None:
        """The value of a flag written in full; "" for a switch; None: it is not set."""
        words = self.command.flags
        for place, word in enumerate(words):
            flag, equals, value = word.partition("=")
            if flag == name:
                return value if equals else words[place + 1] if place + 1 < len(words) else ""
        return None

    def flag_number(self, name: str, default: int) -> int:
        value = self.flag(name) or ""
        return int(value) if value.isdigit() else default

    def visible_gpus(self) -> list[Gpu]:
        """Those that the server will see, in its own order."""
        everything = [] if self.facts.gpus is None else list(self.facts.gpus.gpus)
        chosen = self.env.get("CUDA_VISIBLE_DEVICES")
        if chosen is None:
            return everything
        found = []
        for word in (part.strip() for part in chosen.split(",")):
            gpu = _gpu_of(word, everything)
            if gpu is None:
                break  # CUDA stops at the first that does not exist
            found.append(gpu)
        return found


def _gpu_of(word: str, everything: Sequence[Gpu]) -> Gpu | None:
    """By index or by the beginning of its UUID."""
    if word.startswith("MIG-"):
        return Gpu(index=-1, name=word)  # a slice, of which NVML's list of GPUs says nothing
    named = (gpu for gpu in everything if word == str(gpu.index) or (word and (gpu.uuid or "").startswith(word)))
    return next(named, None)


def pids_in_words(pids: Sequence[int]) -> str:
    shown = ", ".join(map(str, pids[:SHOWN]))
    return f"pid {shown}" + (f" and {len(pids) - SHOWN} more" if len(pids) > SHOWN else "")
