"""What is shown of a ladder: before it is climbed, and while and after it is. Pure."""

from __future__ import annotations

from launchmon.format import duration, one_line, plural, wrap
from launchmon.ladder import ATTEMPTS, MINUTES, Ladder
from launchmon.tui.relaunch.draft import Base, change_words
from launchmon.tui.widgets.lines import Row

STAMP = 8
"""Cells for the time of a step."""


def ladder_rows(ladder: Ladder, width: int) -> tuple[Row, list[Row]]:
    """A heading, and each step with its time since the beginning; the last one is what goes on, or how it ended."""
    head: Row = ((" ", "plain"), ("LADDER", "title"))
    if ladder.climbing:
        head = (*head, ("  s stops it", "muted"))
    steps: list[tuple[str, str, str]] = [(f"+{duration(at)}", text, "plain") for at, text in ladder.said]
    if ladder.end is not None:
        steps.append(("✓" if ladder.end.ready else "✗", ladder.end.words, "good" if ladder.end.ready else "warn"))
    else:
        steps.append(("◉", _going_on(ladder), "busy"))
    rows: list[Row] = []
    for stamp, text, tone in steps:
        for place, line in enumerate(wrap(one_line(text), max(20, width - STAMP - 2))):
            rows.append(((f" {stamp if place == 0 else '':>{STAMP - 1}} ", "muted"), (line, tone)))
    return head, rows


def _going_on(ladder: Ladder) -> str:
    if ladder.relaunching:
        return "ending the attempt before, and starting this one" + ("; then it stops" if ladder.stopping else "")
    return "waiting for a verdict that decides"


def question_rows(base: Base, width: int) -> list[Row]:
    """What a climb would try, what it may cost, and the keys."""
    rows: list[Row] = [(("Each of these by itself, in this order, until a launch is ready:", "strong"),)]
    for number, remedy in enumerate(base.remedies, 1):
        for place, line in enumerate(wrap(change_words(remedy.change), width - 4)):
            rows.append(((f"{number if place == 0 else '':>3} ", "key"), (line, "plain")))
    told = (
        "The run that is there ends first, and each attempt that does not get ready. "
        f"At most {plural(ATTEMPTS, 'relaunch', 'relaunches')}, none after {MINUTES / 60:.0f} hours, "
        "and none once you have left launchmon."
    )
    rows += [(), *(((line, "plain"),) for line in wrap(told, width)), ()]
    return [*rows, (("y", "key"), (" start", "plain")), (("Esc", "key"), (" not yet", "plain"))]
