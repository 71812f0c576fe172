"""The verdict: what the judge concludes, on which grounds, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from launchmon.format import clip, duration, one_line, plural
from launchmon.tui.bindings import key_of
from launchmon.tui.panels.rail import phase_words
from launchmon.tui.relaunch.draft import change_words
from launchmon.tui.view import View
from launchmon.tui.widgets.facts import LABEL, fact, paragraph
from launchmon.tui.widgets.lines import Row, set_title
from launchmon.tui.widgets.panel import Content, Panel, Space
from launchmon_agent.events import Next, Verdict

KINDS: dict[str, tuple[str, str, str]] = {
    # kind: glyph, words, tone
    "starting": ("◉", "STARTING", "busy"),
    "reading": ("◉", "READING", "busy"),
    "downloading": ("◉", "DOWNLOADING", "busy"),
    "compiling": ("◉", "COMPILING", "busy"),
    "computing": ("◉", "COMPUTING", "busy"),
    "waiting-peer": ("!", "WAITING · for another node", "warn"),
    "waiting-lock": ("!", "WAITING · for a lock", "warn"),
    "rank-missing": ("✗", "RANK MISSING", "bad"),
    "one-behind": ("!", "ONE RANK BEHIND", "warn"),
    "deadlock-silent": ("✗", "DEAD-LOCK · silent", "bad"),
    "deadlock-spinning": ("✗", "DEAD-LOCK · spinning", "bad"),
    "deadlock-divergent": ("✗", "DEAD-LOCK · ranks diverge", "bad"),
    "crashed": ("✗", "CRASHED", "bad"),
    "http-wait": ("!", "WAITING · for HTTP", "warn"),
    "ready": ("✓", "READY", "good"),
    "serving": ("✓", "SERVING", "good"),
    "hung-serving": ("✗", "HUNG · while serving", "bad"),
    "stopped": ("■", "STOPPED", "muted"),
    "unknown": ("?", "UNKNOWN", "muted"),
}
ENDS = "ends by itself"
"""The evidence that is a clock (``judge/surroundings``)."""

BRIEF = 5
"""Rows of the panel beside the others: no more than decides. With more room all of it is told."""

WATCHING = ("◌", "WATCHING", "muted")


class VerdictPanel(Panel, can_focus=True):
    HELP = (
        "What launchmon makes of it: the kind of situation, how sure it is, and one sentence. Below are the next "
        "steps, what is ruled out and by which numbers, the evidence, and what could not be learnt. z shows all of it."
    )
    DEFAULT_CSS = """
    VerdictPanel {
        border: round $foreground 40%;
        border-title-style: bold;
        border-subtitle-color: $text-muted;
        max-height: 7;
        padding: 0 1;
        &.-good { border: round $success; border-title-color: $text-success; }
        &.-busy { border: round $primary; border-title-color: $text-primary; }
        &.-warn { border: round $warning; border-title-color: $text-warning; }
        &.-bad { border: round $error; border-title-color: $text-error; }
        &:focus { border: heavy $foreground 40%; }
        &.-good:focus { border: heavy $success; }
        &.-busy:focus { border: heavy $primary; }
        &.-warn:focus { border: heavy $warning; }
        &.-bad:focus { border: heavy $error; }
    }
    """

    def look(self, view: View) -> None:
        title, tone = heading(view.model.verdict)
        if view.stale:
            title += " · as of then"
        set_title(self, title)
        for name in ("good", "busy", "warn", "bad"):
            self.set_class(name == tone, f"-{name}")
        super().look(view)

    def content(self, view: View, space: Space) -> Content:
        told = rows if space.limit > BRIEF else brief
        return Content(body=tuple(told(view, space.width, key_of(self.app, "relaunch"))))

    def marked(self, head: Sequence[Row], part: str, width: int) -> list[Row]:
        kept = "" if self._view is None else kept_words(kept_dumps(self._view), key_of(self.app, "stacks"))
        lines = part and f"lines {part}"
        subtitle = clip(" · ".join(word for word in (kept, lines) if word), width)
        if self.border_subtitle != subtitle:
            self.border_subtitle = subtitle
        return list(head)


def heading(verdict: Verdict | None) -> tuple[str, str]:
    """Title of the panel and its tone."""
    if verdict is None:
        glyph, words, tone = WATCHING
        return f"{glyph} {words}", tone
    glyph, words, tone = KINDS.get(verdict.verdict, ("?", verdict.verdict.upper(), "muted"))
    # "Ready, high confidence" says nothing: confidence matters where something is wrong or guessed.
    certain = tone in ("good", "busy") and verdict.confidence == "high"
    return f"{glyph} {words}" + ("" if certain else f" · {verdict.confidence} confidence"), tone


def kept_dumps(view: View) -> int:
    """Dumps that were taken without anybody asking, because a stall had begun."""
    return sum(dump.automatic for dump in view.model.stacks)


def kept_words(count: int, key: str) -> str:
    """``d: 3 dumps kept``; ``key`` shows them."""
    return f"{key}: {plural(count, 'dump')} kept" if count else ""


def brief(view: View, width: int, key: str = "r") -> list[Row]:
    """What decides, for a panel of :data:`BRIEF` rows: the sentence, the next step, a line of what is ruled out."""
    verdict = view.model.verdict
    if verdict is None:
        return rows(view, width, key)
    out = paragraph(verdict.summary or "No summary.", width)
    if verdict.next:
        out += _line("next", next_words(verdict.next[0], None if view.read_only else key), width, "strong")
    out += _line("ruled out", _ruled_out(verdict), width)
    ends = [item.value for item in verdict.evidence if item.what == ENDS]
    out += _line("ends by", ends[0] if ends else "", width)
    if len(out) < BRIEF and not verdict.ruled_out:
        told = [f"{item.what}: {item.value}" for item in verdict.evidence if item.what != ENDS]
        out += _line("evidence", " · ".join(told), width)
    return out + _notices(view, width)


def _line(label: str, text: str, width: int, tone: str = "plain") -> list[Row]:
    return fact(label, clip(one_line(text), max(10, width - LABEL)), width, tone)


def _ruled_out(verdict: Verdict) -> str:
    return " · ".join(f"{item.kind}: {item.because}" for item in verdict.ruled_out)


def rows(view: View, width: int, key: str = "r") -> list[Row]:
    """The verdict in full, most useful first. ``key`` relaunches."""
    verdict = view.model.verdict
    if verdict is None:
        return [*paragraph(_before_any(view), width), *_notices(view, width)]
    out = paragraph(verdict.summary or "No summary.", width)
    for place, step in enumerate(verdict.next):
        out += fact("next" if place == 0 else "", next_words(step, None if view.read_only else key), width, "strong")
    out += fact("ruled out", _ruled_out(verdict), width)
    out += fact("blames", ", ".join(verdict.blames), width)
    for item in verdict.evidence:
        out += fact("evidence", f"{item.what}: {item.value}", width)
    for text in verdict.unknown:
        out += fact("not known", text, width)
    return out + _notices(view, width)


def next_words(step: Next, key: str | None) -> str:
    """``r relaunch + --disable-cuda-graph (why)``: what to press where a key does it."""
    words = " ".join([step.do, *step.change])
    if step.do == "relaunch" and step.change:
        words = f"{f'{key} ' if key else ''}relaunch {change_words(step.change)}"
    return f"{words} ({step.why})" if step.why else words


def _before_any(view: View) -> str:
    if view.link_state == "connecting":
        return view.link_message or f"Connecting to {view.target}."
    running = [cell for cell in view.model.phases.rail(view.now) if cell.state == "running"]
    if not running:
        return "No verdict yet: the first samples are on their way."
    cell = running[-1]
    since = "" if cell.seconds is None else f" for {duration(cell.seconds)}"
    return f"No verdict yet: in {phase_words(cell.phase)}{since}."


def _notices(view: View, width: int) -> list[Row]:
    out: list[Row] = []
    for notice in view.model.notices:
        out += fact("notice", f"{notice.source}: {notice.text}", width)
    return out
