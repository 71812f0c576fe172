"""The stacks screen as rows: the list on the left, the frames on the right, and what stands above both. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby

from launchmon import format as fmt
from launchmon.tui.stacks import words
from launchmon.tui.stacks.board import COMPARE, SETS, THREADS, Board
from launchmon.tui.stacks.tree import Entry, Fork, Item
from launchmon.tui.widgets.facts import fact, paragraph, refusal_rows
from launchmon.tui.widgets.lines import Row, Span, ends, joined_within, row_width
from launchmon_agent.errors import Refused
from launchmon_agent.events import Stacks
from launchmon_agent.stacks.compare import Change
from launchmon_agent.stacks.merge import MergedFrame
from launchmon_agent.stacks.model import short_file
from launchmon_agent.stacks.ranges import label
from launchmon_agent.stacks.render import short_function

MARKS = 12
"""Dumps of the history that are shown as a mark each."""

LABEL = 24
"""Cells for a set of ranks, where one line has to hold an item."""

HEADINGS = {SETS: "WHO IS WHERE", THREADS: "OTHER THREADS", COMPARE: "SINCE THE DUMP BEFORE"}

INDENT = "  "

MIDDLING, ROOMY = 40, 100
"""Cells from which a list of two lines an entry, and of one line, has room for ``= unchanged ×3``."""


# ------------------------------------------------------------------------------------------------------ above all else


def headline(dumps: Sequence[Stacks], place: int, now: float, width: int) -> Row:
    """Which dump this is, when and how it was taken."""
    dump = dumps[place]
    parts: list[Row] = [
        ((f"dump {place + 1} of {len(dumps)} ", "plain"), *history(dumps, place)),
        ((words.time_of(dump.at), "strong"), (f", {fmt.duration(now - dump.at)} ago", "plain")),
    ]
    if dump.automatic:
        parts.append((("◆ automatic", "busy"),))
    parts += [((words.means(dump), "plain"),), ((words.who_was_read(dump), "plain"),)]
    if dump.native:
        parts.append((("with native frames", "plain"),))
    if dump.seconds is not None:
        parts.append(((f"took {dump.seconds:.2f} s", "muted"),))
    return ((" ", "plain"), ("STACKS", "title"), ("  ", "plain"), *joined_within(parts, width - 10))


def history(dumps: Sequence[Stacks], place: int) -> Row:
    """A mark for each of the last dumps: ``◇`` automatic, ``○`` asked for; the one that is shown is filled."""
    first = max(0, min(place - MARKS // 2, len(dumps) - MARKS))
    marks: list[Span] = [("…", "muted")] if first else []
    for at, dump in enumerate(dumps[first : first + MARKS], first):
        filled, hollow = ("◆", "◇") if dump.automatic else ("●", "○")
        marks.append((filled, "busy") if at == place else (hollow, "muted"))
    if first + MARKS < len(dumps):
        marks.append(("…", "muted"))
    return tuple(marks) if len(dumps) > 1 else ()


def chips(dump: Stacks, selected: Collection[str], width: int) -> tuple[Row, list[tuple[int, int, str]]]:
    """Every process as a chip, those of the selected entry marked; and where in the row each is.

    ``✗``: nothing could be read; ``!``: it cannot run on by itself. Empty where there is no room for all.
    """
    row: list[Span] = [(" ", "plain")]
    places = []
    for stack in dump.stacks:
        unread = not any(thread.frames for thread in stack.threads)
        stuck = stack.state_before in words.STATES
        glyph = "✗" if unread else "!" if stuck else ""
        tone = "bad" if unread else "warn" if stuck else "muted"
        begin = row_width(row)
        chosen = stack.who in selected
        row.append((f"[{glyph}{stack.who}]" if chosen else f" {glyph}{stack.who} ", "key" if chosen else tone))
        places.append((begin, row_width(row), stack.who))
    return (tuple(row), places) if row_width(row) <= width else ((), [])


def problem_rows(problems: Sequence[words.Problem], width: int) -> list[Row]:
    """The first problem with its remedy, and how many more there are."""
    if not problems:
        return []
    first, more = problems[0], len(problems) - 1
    tail = f"  (and {fmt.plural(more, 'more problem')})" if more else ""
    glyph, tone = ("✗", "bad") if first.unread else ("!", "warn")
    text = fmt.one_line(f"{first.label}: {first.text}{tail}")
    rows: list[Row] = []
    for at, line in enumerate(fmt.wrap(text, max(10, width - 3))[:2]):
        rows.append(((f" {glyph} " if at == 0 else "   ", tone), (line, tone)))
    if first.cure:
        rows.append((("   try: ", "muted"), (fmt.clip(fmt.one_line(first.cure), width - 9), "strong")))
    return rows


# ----------------------------------------------------------------------------------------------------- the explanation


def title(item: Item, changes: Sequence[Change]) -> str:
    """Of the box with the explanation."""
    parts = [item.label, item.count]
    if item.shared:
        parts.append(item.shared if " of the " in item.shared else f"all of {item.shared}")
    if item.mark[0]:
        parts.append(words.movement(changes, item.who)[0])
    return " · ".join(part for part in parts if part)


def explanation(item: Item, dump: Stacks, width: int) -> list[Row]:
    """What this is, who ends it, and what helps if nobody does."""
    rows: list[Row] = []
    said = item.explanation
    if item.problem is not None:
        rows += paragraph(f"✗ {item.problem.text}", width, "bad")
        return rows + fact("try", item.problem.cure or "", width, "strong")
    if item.pair is not None:
        rows += paragraph(f"{item.label} {item.gist}.", width, "strong")
        return rows + fact("in", item.pair.after[-1] if item.pair.after else "", width)
    if said is not None:
        rows += paragraph(_sentence(said.what), width, "strong")
        if item.inside is not None:
            rows += paragraph(f"Its innermost frame {item.inside.what}.", width)
        closing = item.inside or said
        rows += fact("ends with", closing.ends, width)
        rows += fact("if not", closing.cure or "", width)
    elif item.frames and all(stack.means == "proc" for stack in dump.stacks if stack.who in item.who):
        rows += paragraph(f"In {item.path}: this is the kernel's view. Where in Python it is cannot be seen.", width)
    elif item.frames:
        rows += paragraph(f"In {item.path}: launchmon knows nothing about this place.", width)
        rows += fact("hint", "unchanged over several dumps, with no CPU time, it is stuck there", width)
    else:
        rows += paragraph(item.gist, width)
    return rows + fact("state", words.states(dump, item.who), width, "warn")


def _sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:]}."


def without_dump(reading: str, refusal: Refused | None, width: int) -> tuple[str, list[Row], str]:
    """Where there is no dump at all (yet): title, rows and tone of the box."""
    if refusal is not None:
        keys: Row = (("d", "key"), (" try again   ", "plain"), ("Esc", "key"), (" back", "plain"))
        return "✗ no stacks", [*refusal_rows(refusal, width), (), keys], "bad"
    text = "Each process has five seconds. One that is at work is paused for some 25 ms, and goes on by itself."
    return f"◉ {reading}…", paragraph(text, width), "busy"


# ------------------------------------------------------------------------------------------------------------ the list


def list_head(board: Board) -> Row:
    """The heading of the list, and what it holds."""
    facts = []
    if board.mode == SETS and board.merged is not None:
        facts.append(fmt.plural(len(board.merged.groups), "set"))
    if board.mode == THREADS:
        facts.append(f"of {label(board.threads_of)}")
    if board.mode == COMPARE and board.before is not None:
        facts.append(f"of {words.time_of(board.before.at)}")
    if board.filter:
        facts.append(f"only “{board.filter}”")
    return ((" ", "plain"), (HEADINGS[board.mode], "title"), (f"  {' · '.join(facts)}", "muted"))


def entry_rows(
    entries: Sequence[Entry], selected: Item | None, width: int, *, flat: bool
) -> tuple[list[Row], range | None, list[Item | None]]:
    """The list; which of its rows are the selected item's; and the item of each row.

    ``flat``: one line an item, for a list that is wide and low.
    """
    rows: list[Row] = []
    owners: list[Item | None] = []
    where = None
    shown = [entry for entry in entries if isinstance(entry, Item)]
    labels = min(LABEL, max((len(item.lead + item.label) for item in shown), default=0))
    counts = max((len(item.count) for item in shown), default=0)
    for entry in entries:
        if isinstance(entry, Fork):
            rows.append(_fork(entry, width))
            owners.append(None)
            continue
        chosen = entry is selected
        own = [_one_line(entry, chosen, labels, counts, width)] if flat else _two_lines(entry, chosen, width)
        if chosen:
            where = range(len(rows), len(rows) + len(own))
        rows += own
        owners += [entry] * len(own)
    return rows, where, owners


def _fork(fork: Fork, width: int) -> Row:
    text = f"{fork.label} in {fork.function}, then"
    return (("  ", "plain"), (fork.lead, "muted"), (fmt.clip(text, max(1, width - 2 - len(fork.lead))), "muted"))


def _pointer(chosen: bool) -> Span:
    return ("▶ ", "key") if chosen else ("  ", "plain")


def _marked(item: Item, *, short: bool) -> Row:
    """Whether it has moved, for the end of a line."""
    words_, tone = item.mark
    if short:
        words_ = words_.replace("= unchanged ", "=")
    return ((f"{words_} ", tone),) if words_ else ()


def _one_line(item: Item, chosen: bool, labels: int, counts: int, width: int) -> Row:
    """``labels``, ``counts``: cells of these columns."""
    tone = "strong" if chosen else "plain"
    head: list[Span] = [
        _pointer(chosen),
        (item.lead, "muted"),
        (fmt.fit(item.label, labels - len(item.lead)), tone),
        (f"  {fmt.fit(item.count, counts)}  " if counts else "  ", "muted"),
    ]
    right = _marked(item, short=width < ROOMY)
    room = width - row_width(head) - row_width(right) - 2
    return ends((*head, (fmt.clip(item.gist or item.path, max(1, room)), _of(item, chosen))), right, width, gap=1)


def _two_lines(item: Item, chosen: bool, width: int) -> list[Row]:
    right = _marked(item, short=width < MIDDLING)
    room = max(4, width - 2 - len(item.lead) - row_width(right) - len(item.count) - 3)
    first: Row = (
        _pointer(chosen),
        (item.lead, "muted"),
        (fmt.clip(item.label, room), "strong"),
        (f"  {item.count}" if item.count else "", "muted"),
    )
    below: Span = ("  " + item.under + INDENT, "muted")
    text_room = max(1, width - row_width((below,)) - 1)
    rows = [ends(first, right, width, gap=1)]
    if item.gist:
        rows.append((below, (fmt.clip(item.gist, text_room), _of(item, chosen))))
    if item.path:
        rows.append((below, (fmt.clip(item.path, text_room), "muted" if item.gist else "plain")))
    return rows


def _of(item: Item, chosen: bool) -> str:
    return "strong" if chosen and item.tone == "plain" else item.tone


# ---------------------------------------------------------------------------------------------------------- the frames


def frames_pane(board: Board, dump: Stacks, width: int) -> tuple[list[Row], list[Row]]:
    """Head and body of what is shown of the selected entry: its frames, or both its stacks in a comparison."""
    item = board.selected
    if item is None:
        return [((" ", "plain"), ("FRAMES", "title"))], []
    order = "innermost first" if board.fold else "innermost first, none folded"
    if item.pair is not None:
        pair, title = item.pair, "BEFORE AND NOW"
        body = pair_rows(pair.before, pair.after, pair.common, width, fold=board.fold)
    else:
        owners, values = variables(dump, item.who)
        order += f" · variables of {owners}" if values else ""
        title = "FRAMES"
        body = frame_rows(item.frames, width, fold=board.fold, text=board.filter, values=values)
    head: Row = ((" ", "plain"), (title, "title"), (f"  {item.label} · {order}", "muted"))
    return [head], body or [(("  no frames: see above", "muted"),)]


def frame_rows(
    frames: Sequence[MergedFrame],
    width: int,
    *,
    fold: bool,
    text: str = "",
    values: Mapping[tuple[str, str, int], Mapping[str, str]] | None = None,
) -> list[Row]:
    """Innermost first. ``fold``: runs of runtime frames as one line each, unless there are no others.

    ``text`` is marked where it occurs; ``values``: :func:`variables`.
    """
    folding = fold and not all(frame.runtime for frame in frames)
    names = [short_function(frame.function) for frame in frames if not (folding and frame.runtime)]
    column = min(max(map(len, names), default=0), max(16, width * 11 // 20))
    rows: list[Row] = []
    first = True
    for runtime, run in groupby(frames, key=lambda frame: frame.runtime):
        if runtime and folding:
            rows.append(((f"  {folded(list(run))}", "muted"),))
            continue
        for frame in run:
            rows.append(_frame(frame, column, width, "strong" if first else "plain", text))
            first = False
            for line in frame.lines:
                for name, value in (values or {}).get((frame.function, frame.file, line), {}).items():
                    words_ = fmt.clip(fmt.one_line(f"{name} = {value}"), width - 7)
                    rows.append((("      ", "plain"), (words_, "data")))
    return rows


def variables(dump: Stacks, who: Collection[str]) -> tuple[str, dict[tuple[str, str, int], Mapping[str, str]]]:
    """Whose local variables of these processes are known, and they, by function, file and line."""
    owners: list[str] = []
    found: dict[tuple[str, str, int], Mapping[str, str]] = {}
    for stack in dump.stacks:
        frames = [dump.frames[at] for thread in stack.threads for at in thread.frames if stack.who in who]
        known = [frame for frame in frames if frame.locals and frame.line is not None]
        owners += [stack.who] if known else []
        found.update({(frame.function, short_file(frame), frame.line or 0): frame.locals for frame in known})
    return label(owners), found


def folded(frames: Sequence[MergedFrame]) -> str:
    """``… 12 frames of torch``."""
    families = list(dict.fromkeys(map(words.family, frames)))
    of = " and ".join(families[:2]) + (" and others" if len(families) > 2 else "")
    return f"… {fmt.plural(len(frames), 'frame')} of {of}"


def _frame(frame: MergedFrame, column: int, width: int, tone: str, text: str) -> Row:
    name = fmt.fit(short_function(frame.function), column)
    room = max(0, width - column - 5)
    spans: list[Span] = [("  ", "plain"), *hits(name, tone, text), ("  ", "plain")]
    return (*spans, *hits(clip_left(words.place(frame), room), "muted", text))


def clip_left(text: str, width: int) -> str:
    """The end of a text: of a path, that is what tells."""
    if len(text) <= width:
        return text
    return "…" + text[len(text) - width + 1 :] if width > 1 else ""


def hits(text: str, tone: str, wanted: str) -> list[Span]:
    """The text with ``wanted`` marked."""
    if not wanted:
        return [(text, tone)]
    parts = re.split(f"({re.escape(wanted)})", text, flags=re.IGNORECASE)
    return [(part, "hit" if at % 2 else tone) for at, part in enumerate(parts) if part]


# ------------------------------------------------------------------------------------------------------- the comparison


def pair_rows(before: Sequence[str], after: Sequence[str], common: int, width: int, *, fold: bool) -> list[Row]:
    """Two stacks (outermost first) side by side, innermost on top, what both have at the bottom."""
    half = max(10, (width - 3) // 2)
    old, new = list(reversed(before[common:])), list(reversed(after[common:]))
    height = max(len(old), len(new))
    old, new = [""] * (height - len(old)) + old, [""] * (height - len(new)) + new
    rows: list[Row] = []
    for was, now in zip(old, new, strict=True):
        rows.append(
            (
                (fmt.fit(f"− {was}" if was else "", half), "warn"),
                (" │ ", "muted"),
                (fmt.clip(f"+ {now}" if now else "", half), "good"),
            )
        )
    if not height:
        rows.append((("  = the same, line for line", "plain"),))
    if fold and height and common > 1:
        return [*rows, ((f"  … {fmt.plural(common, 'frame')} in common", "muted"),)]
    return rows + [((fmt.clip(f"  {frame}", width), "muted"),) for frame in reversed(before[:common])]
