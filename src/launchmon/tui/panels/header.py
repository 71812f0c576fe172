"""The top line: which run this is, for how long it has been going, and how fresh what is shown is."""

from __future__ import annotations

import os
import time

from launchmon.format import age, clip, clock
from launchmon.tui.view import View
from launchmon.tui.widgets.lines import Row, ends, joined, row_width
from launchmon.tui.widgets.panel import Content, Panel, Space
from launchmon_agent.events import Run

NAME = 28
"""Cells kept for the brand and the name of the run."""

GAP = ("  ", "plain")

LINKS = {"connecting": ("◌", "busy"), "live": ("●", "good"), "lost": ("◌", "bad"), "ended": ("■", "muted")}

REPLAYED = "replay"
"""State of the link of a recording."""


class HeaderBar(Panel):
    DEFAULT_CSS = """
    HeaderBar { height: 1; max-height: 1; background: $panel; }
    """

    def content(self, view: View, space: Space) -> Content:
        right = _right(view, space.width - NAME)
        room = max(10, space.width - row_width(right) - 3)
        return Content(head=(ends(_left(view, room), (*right, (" ", "plain")), space.width, gap=1),))


def run_name(run: Run | None) -> str:
    """What a person calls the run: its name, else its model, else its id."""
    if run is None:
        return "no run yet"
    if run.name:
        return run.name
    if run.model:
        return os.path.basename(run.model.rstrip("/")) or run.model
    return run.id


def parallelism(run: Run, *, whole: bool = False) -> str:
    """``tp8``, ``tp8 pp2 dp2``. ``whole``: all nodes of the run are shown, not one of them."""
    parts = [f"tp{run.tp}"]
    if run.pp > 1:
        parts.append(f"pp{run.pp}")
    if run.dp > 1:
        parts.append(f"dp{run.dp}")
    if run.nnodes > 1 and not whole:
        parts.append(f"node {run.node_rank + 1}/{run.nnodes}")
    return " ".join(parts)


def _left(view: View, room: int) -> Row:
    run = view.model.run
    brand: Row = ((" launchmon ", "key"),)
    facts = [run_name(run)]
    if run is not None:
        facts.append(parallelism(run, whole=bool(view.nodes)))
    facts.append(view.target)
    if run is not None and run.port:
        facts.append(f":{run.port}")
    if view.read_only and view.link_state != REPLAYED:
        facts.append("read-only")
    left = room - row_width(brand) - 1
    if view.nodes and len(" · ".join(facts)) > left:  # their number, where their names do not fit
        facts[facts.index(view.target)] = f"{len(view.nodes)} nodes"
    while len(facts) > 1 and len(" · ".join(facts)) > left:
        facts.pop()
    name, *rest = facts
    described = joined([((clip(name, left), "strong"),), *(((fact, "plain"),) for fact in rest)])
    return (*brand, (" ", "plain"), *described)


def _right(view: View, room: int) -> Row:
    """Attempt, time, whether it is real, and freshness: the last two always."""
    parts: list[Row] = [freshness(view)]
    lost = lost_nodes(view)
    if lost and not view.stale:
        parts.insert(0, ((f"✗ {lost} lost", "bad"),))
    if simulated(view):
        parts.insert(0, ((" SIMULATED ", "badge"),))
    run = view.model.run
    optional: list[Row] = [((clock(elapsed(view)), "plain"),)]
    if run is not None and run.attempt > 1:
        optional.append(((f"attempt {run.attempt}", "plain"),))
    for part in optional:
        if row_width(joined([part, *parts], GAP)) > room:
            break
        parts.insert(0, part)
    return joined(parts, GAP)


def simulated(view: View) -> bool:
    run, gpus = view.model.run, view.model.gpus
    return bool((run is not None and run.simulated) or (gpus is not None and gpus.source == "simulated"))


def elapsed(view: View) -> float | None:
    """Seconds since the launcher's start, until now or until its end."""
    run = view.model.run
    if run is None or run.start_time is None:
        return None
    end = next((exit_.at for exit_ in view.model.exits if exit_.pid == run.pid), view.now)
    return max(0.0, end - run.start_time)


def lost_nodes(view: View) -> str:
    """``node 1``, ``nodes 1 2``: those whose agent does not answer."""
    lost = [str(node.number) for node in view.nodes if node.link != "live"]
    return f"{'node' if len(lost) == 1 else 'nodes'} {' '.join(lost)}" if lost else ""


def freshness(view: View) -> Row:
    """``● live 0.4 s ago``; when the link is lost, how old everything on the screen is; of a recording, its time."""
    if view.link_state == REPLAYED:
        return ((f" REPLAY {time.strftime('%H:%M:%S', time.localtime(view.now))} ", "badge"),)
    glyph, tone = LINKS.get(view.link_state, LINKS["connecting"])
    if view.link_state == "connecting":
        return ((f"{glyph} connecting", tone),)
    if view.link_state == "live":
        # Past three missed samples the link may be live, but what is shown is not.
        late = view.age > 4
        return ((f"{'◌' if late else glyph} live {age(view.age)} ago", "warn" if late else tone),)
    if view.link_state == "ended":
        return ((f"{glyph} ended, as of {age(view.age)} ago", tone),)
    if view.given_up:
        return ((f"✗ lost {age(view.age)} ago, L tries again", tone),)
    when = "" if view.retry_s is None else f" in {max(1, round(view.retry_s))} s"
    return ((f"{glyph} lost {age(view.age)} ago, trying again{when}", tone),)
