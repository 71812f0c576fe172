"""What a bench measures, as rows of one table; and how a bench is run by itself.

Each bench is a module with ``results(quick)``: it yields a :class:`Result` for each value as soon as it is measured.
``python -m tests.bench`` runs all of them, each in a process of its own, so that none sees the memory of another.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One measured value. ``budget`` is the most that it may be, or the least where ``at_least``; None: there is none.

    ``ratio`` is the value over that of ``against``, both measured in the same run; or the other way round for speeds.
    """

    what: str
    value: float
    unit: str
    budget: float | None = None
    at_least: bool = False
    ratio: float | None = None
    against: str = ""

    @property
    def kept(self) -> bool | None:
        """Whether the budget is kept; None where there is none."""
        if self.budget is None:
            return None
        return self.value >= self.budget if self.at_least else self.value <= self.budget


def run(results: Callable[[bool], Iterable[Result]]) -> None:
    """The ``main`` of a bench: ``--quick`` measures less, ``--json`` prints lines that :func:`read` understands."""
    quick, as_json = "--quick" in sys.argv, "--json" in sys.argv
    for result in results(quick):
        print(json.dumps(dataclasses.asdict(result)) if as_json else row(result), flush=True)


def read(line: str) -> Result:
    return Result(**json.loads(line))


def row(result: Result) -> str:
    """One line of a table: what, value, budget, ratio."""
    columns = cells(result)
    return f"{columns[0]:<62}{columns[1]:>14}  {columns[2]:<22}{columns[3]}"


def cells(result: Result) -> Sequence[str]:
    budget = ""
    if result.budget is not None:
        word = "at least" if result.at_least else "at most"
        budget = f"{word} {result.budget:g} {result.unit}" + ("" if result.kept else "  MISSED")
    ratio = "" if result.ratio is None else f"{result.ratio:.2f} × {result.against}"
    return result.what, f"{spelt(result.value)} {result.unit}", budget, ratio


def spelt(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
