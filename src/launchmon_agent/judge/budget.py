"""The arithmetic of a GPU's memory: what the weights left, and what --mem-fraction-static makes of it. Pure.

SGLang takes ``before * (1 - fraction)`` out of what is free after the weights, and the KV cache gets the rest
(``model_executor/pool_configurator.py``). The log tells both numbers, in GB that are 2^30 bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from launchmon_agent.judge.remedies import context_of
from launchmon_agent.model import RunModel

MOST = 0.97
"""A larger fraction leaves nothing for activations and graphs."""


@dataclass(frozen=True)
class Budget:
    """Of one GPU, in GB as SGLang prints them."""

    before: float  # free before the weights were loaded
    after: float  # free after it
    fraction: float  # --mem-fraction-static

    @property
    def reserve(self) -> float:
        """For activations and graphs."""
        return self.before * (1 - self.fraction)

    @property
    def cache(self) -> float:
        """Left for the KV cache; negative: the weights alone exceed the share."""
        return self.after - self.reserve

    @property
    def least_fraction(self) -> float:
        """Above it the KV cache gets anything at all, rounded up to hundredths."""
        return math.ceil(100 * (1 - self.after / self.before) + 1e-9) / 100


def budget(model: RunModel, rank: str) -> Budget | None:
    """Of this rank, else of the one with the least; None where the log does not tell all of it."""
    fraction = context_of(model).fraction
    before, after = _free(model, "begin"), _free(model, "end")
    ranks = [rank] if rank in before and rank in after else sorted(before.keys() & after.keys(), key=after.__getitem__)
    if fraction is None or not ranks or before[ranks[0]] <= 0:
        return None
    return Budget(before[ranks[0]], after[ranks[0]], fraction)


def cache_words(found: Budget) -> str:
    """Why nothing is left for the KV cache, and which fraction would leave something."""
    sums = (
        f"{found.before:.1f} GB were free before the weights and {found.after:.1f} GB after them; "
        f"at {found.fraction:g} {found.reserve:.1f} GB are kept for activations, "
        f"which leaves {found.cache:.1f} GB for the KV cache"
    )
    if found.least_fraction > MOST:
        return f"{sums}: no fraction helps, the weights need more GPUs or a smaller format."
    return f"{sums}: it takes more than {found.least_fraction:.2f}."


def reserve_words(found: Budget) -> str:
    """What is there for graphs and activations."""
    return f"At {found.fraction:g} of {found.before:.1f} GB {found.reserve:.1f} GB are left for graphs and activations."


def _free(model: RunModel, what: str) -> dict[str, float]:
    """By rank: of the model itself, whose weights are loaded before those of a draft."""
    found: dict[str, float] = {}
    for mark in model.marks("weights"):
        number = _number(mark.values.get("avail"))
        if mark.what == what and number is not None:
            found.setdefault(mark.rank, number)
    return found


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
