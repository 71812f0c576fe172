"""The title of the log panel, which says what is shown of the log and how; and the row where nothing is. Pure."""

from __future__ import annotations

from launchmon import format as fmt
from launchmon.tui.log_reader import LogReader
from launchmon.tui.log_told import Told
from launchmon.tui.view import View
from launchmon.tui.widgets.lines import Row, joined_within, overlaid, pointed
from launchmon.tui.widgets.panel import dated

LEVEL_NAMES = {"warning": "warnings and errors", "error": "errors only"}
"""Level that is filtered by → what remains."""


def title_row(reader: LogReader, view: View, width: int, focused: bool) -> Row:
    """One row of ``width`` cells. What a person just asked for comes first, then filters, then facts."""
    log, port, only = view.model.log, reader.viewport, reader.only
    name = _title(view)
    room = width - len(name) - 4
    parts: list[Row] = [((fmt.clip(reader.message, room), "warn"),)] if reader.message else []
    if reader.search.told:
        parts.append(((reader.search.told, "key"),))
    parts.append((("follow", "good"),) if port.follow else (("held", "warn"),))
    parts.append(((f"only {only.rank}", "warn"),) if only.rank else (("all ranks", "plain"),))
    if only.level is not None:
        parts.append(((LEVEL_NAMES[only.level], "warn"),))
    if only.only is not None:
        parts.append(((f"&{only.only}", "warn"),))
    ways = [name for name, on in (("folded", port.fold), ("wrapped", port.wrap), ("raw", reader.raw)) if on]
    if ways:
        parts.append(((" ".join(ways), "plain"),))
    if log is not None:
        parts.append(((_lines(log.lines, log.indexed, log.size), "plain"),))
        if log.grown_at is not None:
            parts.append(((f"last {fmt.duration(view.now - log.grown_at)} ago", "plain"),))
    errors = Told(view.model).errors
    if errors:
        parts.append(((f"✗ {fmt.plural(len(errors), 'error')}", "bad"),))
    if reader.pointer.bookmarks:
        parts.append(((f"◆ {len(reader.pointer.bookmarks)}", "data"),))
    row: Row = ((" ", "plain"), (name, "key" if focused else "title"), ("  ", "plain"), *joined_within(parts, room))
    if not port.follow:
        row = overlaid(row, ((f"{reader.position()} ", "muted"),), width)
    return pointed(dated(row, view, width), focused)


def _title(view: View) -> str:
    """With the node whose log it is, where there are several."""
    log = view.model.log
    name = next((node.name for node in view.nodes if log is not None and node.number == log.node), "")
    return f"LOG {name}".rstrip()


def _lines(count: int | None, indexed: int, size: int) -> str:
    if count is None:
        return fmt.size(size)
    if indexed < size:
        return f"indexing {fmt.percent(100 * indexed / size)}"
    return fmt.plural(count, "line") if count == 1 else f"{fmt.thousands(count)} lines"


def empty_row(reader: LogReader, view: View) -> Row:
    """Why no line is shown."""
    run, log = view.model.run, view.model.log
    if log is not None and log.error:
        return ((f"  ! {fmt.one_line(log.error)}", "warn"),)
    if run is not None and run.log_source == "none":
        return (("  ! no log found for this run: attach with --log PATH or --log-command CMD", "warn"),)
    if view.stale:
        return (("  not read before the link was lost", "muted"),)
    if reader.message and not reader.loaded:
        return ((f"  ! {reader.message}", "warn"),)
    only = reader.only
    if not reader.viewport.buffer.at_start and not only.all:
        return (("  looking for lines that pass the filter…", "muted"),)
    if only.level is not None or only.only is not None:
        return (("  no line passes the filter (Esc takes it away)", "muted"),)
    if only.rank:
        return ((f"  nothing from {only.rank} (f shows the next rank, Esc all)", "muted"),)
    return (("  nothing written yet", "muted"),)
