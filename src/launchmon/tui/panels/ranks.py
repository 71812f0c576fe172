"""The rank panel: one line a scheduler, then the rest of the run and the host in a few words."""

from __future__ import annotations

import signal

from launchmon import format as fmt
from launchmon.tui.panels.node_column import named, shown_node
from launchmon.tui.panels.rail import phase_words
from launchmon.tui.view import View
from launchmon.tui.widgets.curve import ROOMY, curve
from launchmon.tui.widgets.lines import Row, Span, joined_within
from launchmon.tui.widgets.panel import Content, Panel, Space, dated
from launchmon.tui.widgets.table import Cell, Column, Layout, lay_out
from launchmon_agent.events import Exit, Host, Http, Process

COLUMNS = (
    Column("node", "NODE", 4),
    Column("rank", "RANK", 4, most=8),
    Column("pid", "PID", 7, rank=6, align="right"),
    Column("state", "S", 1, rank=5),
    Column("cpu", "CPU", 5, rank=1, align="right"),
    Column("busy", "", 8, rank=9, most=24, grows=1),
    Column("gpu", "GPU", 3, rank=7, align="right"),
    Column("anon", "anon", 4, rank=4, align="right"),
    Column("file", "file", 4, rank=4, align="right"),
    Column("read", "read/s", 6, rank=2, align="right"),
    Column("moved", "", 8, rank=10, most=24, grows=1),
    Column("blocked", "blocked in", 10, rank=3, most=24),
    Column("phase", "phase", 9, rank=2, most=20),
    Column("silent", "silent", 6, align="right"),
    Column("children", "children", 8, rank=8, most=24),
)

STATES = {"D": "warn", "Z": "bad", "T": "warn"}
"""States that are worth a colour: waiting for a device, dead but not reaped, stopped."""


class RanksPanel(Panel, can_focus=True):
    HELP = (
        "One line a rank. CPU counts the rank with its children, because compilers run there. anon is memory of its "
        "own; file is mapped weights, shared between ranks and counted in each. S is the state (R runs, S sleeps, D "
        "waits for a device). silent is the time since its last log line. The small curves have a bar for each second, "
        "newest right: CPU of one core, and bytes read and written, against the most that is shown. A ready, idle rank "
        "spins at 100% CPU: that is normal."
    )

    def content(self, view: View, space: Space) -> Content:
        ranks, width = view.model.rank_rows(), space.width
        if not ranks:
            text = "no scheduler yet" if view.model.processes is not None else "waiting for the first sample"
            head = dated(((" ", "plain"), ("RANK", "title"), ("  ", "plain"), (text, "muted")), view, width)
            return Content(head=(head,), tail=tuple(context(view, width)))
        busy_children = any(process.children for process in ranks)
        columns = [column for column in named(COLUMNS, view, width) if column.name != "children" or busy_children]
        if width < ROOMY:
            columns = [column for column in columns if column.name not in ("busy", "moved")]
        if busy_children:  # compilers at work are the news: they stay longer than what is at rest
            columns = [_kept(column) for column in columns]
        layout = lay_out(columns, width - 1)
        return Content(
            head=(dated(layout.heading(), view, width),),
            body=tuple(_rank(process, view, layout) for process in ranks),
            tail=tuple(context(view, width)),
        )


def _kept(column: Column) -> Column:
    if column.name != "children":
        return column
    return Column(column.name, column.title, column.width, rank=1, most=column.most)


def _rank(process: Process, view: View, layout: Layout) -> Row:
    if process.pid == 0:
        return _absent(process, view, layout)
    cpu = _cpu(process)
    silent = _silent(process.rank, view)
    widest = max(layout.width_of("busy"), layout.width_of("moved"))
    past = view.model.samples.of_rank(process.rank or "", process.node)[-widest:] if widest else ()
    moved = [None if one is None else _moved(one) for one in past]
    cells: dict[str, Cell] = {
        "node": shown_node(process.node, view, layout.width_of("node")),
        "rank": (process.rank or fmt.UNKNOWN, "strong"),
        "pid": (str(process.pid), "muted"),
        "state": (process.state or fmt.UNKNOWN, STATES.get(process.state or "", "plain")),
        "cpu": (fmt.percent(cpu, 1), "plain" if cpu else "muted"),
        "busy": curve([None if one is None else _cpu(one) for one in past], layout.width_of("busy"), 100.0),
        "gpu": (fmt.number(process.gpu), "plain"),
        "anon": (fmt.size(process.rss_anon), "plain"),
        "file": (fmt.size(process.rss_file), "muted"),
        "read": (fmt.size(process.read_bps), "plain" if process.read_bps else "muted"),
        "moved": curve(moved, layout.width_of("moved"), fmt.KIB**2),
        "blocked": (process.blocked_in or fmt.UNKNOWN, "muted"),
        "phase": _phase(process.rank, view),
        "silent": (fmt.duration(silent), "plain"),
        "children": (" ".join(f"{kind}×{count}" for kind, count in process.children.items()), "busy"),
    }
    return layout.row(cells)


def _cpu(process: Process) -> float | None:
    """With its children, because compilers run there."""
    return process.tree_cpu_percent if process.tree_cpu_percent is not None else process.cpu_percent


def _moved(process: Process) -> float | None:
    """Bytes that it reads and writes per second."""
    known = [rate for rate in (process.read_bps, process.write_bps) if rate is not None]
    return sum(known) if known else None


def _absent(process: Process, view: View, layout: Layout) -> Row:
    """A rank without a process: it ended, or it has not begun."""
    ended = [exit_ for exit_ in view.model.exits if exit_.rank == process.rank]
    name = f"{process.rank or fmt.UNKNOWN:<4}  "
    head: Row = ((f" {name}", "strong"),)
    if view.nodes:
        width = layout.width_of("node")
        text, tone = shown_node(ended[-1].node if ended else None, view, width)
        head = ((f" {text:<{width}}{' ' * layout.gap}", tone), (name, "strong"))
    if not ended:
        unseen = [str(node.number) for node in view.nodes if node.model is None and not node.absent]
        if unseen:
            return (*head, (f"{fmt.UNKNOWN} not known: nothing is heard of node {', '.join(unseen)}", "muted"))
        return (*head, ("○ not started yet", "muted"))
    last = ended[-1]
    return (*head, (f"✗ {exit_words(last)} {fmt.duration(view.now - last.at)} ago, pid {last.pid}", "bad"))


def exit_words(exit_: Exit) -> str:
    """``ended by SIGKILL``, ``ended with code 1``, ``ended``."""
    if exit_.code is None:
        return "ended"
    if exit_.code < 0:
        try:
            return f"ended by {signal.Signals(-exit_.code).name}"
        except ValueError:
            return f"ended by signal {-exit_.code}"
    return f"ended with code {exit_.code}"


def _phase(rank: str | None, view: View) -> Span:
    span = None if rank is None else view.model.phases.current(rank)
    if span is None:
        return (fmt.UNKNOWN, "muted")
    words = phase_words(span.phase)
    if span.progress is not None and span.progress.percent is not None and span.end is None:
        words = f"{words} {fmt.percent(span.progress.percent)}"
    return (words, "plain")


def _silent(rank: str | None, view: View) -> float | None:
    last = None if rank is None else view.model.last_line_at(rank)
    return None if last is None else view.now - last


# --------------------------------------------------------------------------------------------- what surrounds the ranks


def context(view: View, width: int) -> list[Row]:
    """The other processes, the port and the host, a line each; what matters most comes first and stays longest."""
    host = _host(view.model.host)
    if host and view.nodes:
        host = [((f"of node {view.nodes[0].number}", "muted"),), *host]
    lines = [("also", _others(view)), ("http", _http(view.model.http)), ("host", host)]
    return [((f" {label}  ", "muted"), *joined_within(parts, width - 8)) for label, parts in lines if parts]


def _others(view: View) -> list[Row]:
    sample = view.model.processes
    if sample is None:
        return []
    return [
        (
            (_place(process.node), "muted"),
            (f"{process.role} ", "plain"),
            (f"{process.pid} ", "muted"),
            (process.state or fmt.UNKNOWN, STATES.get(process.state or "", "plain")),
            *((f" {kind}×{count}", "busy") for kind, count in process.children.items()),
        )
        for process in sample.processes
        if process.rank is None
    ]


def _place(node: int | None) -> str:
    return "" if node is None else f"node {node} "


def _http(http: Http | None) -> list[Row]:
    if http is None or http.port is None:
        return []
    port: Span = (f":{http.port} ", "plain")
    if http.error is not None:
        return [(port, (f"! {fmt.one_line(http.error)}", "warn"))]
    if not http.listening:
        return [(port, ("nobody listens" if http.listening is False else "not known", "muted"))]
    if http.ours is False:
        return [(port, (f"✗ held by another process, pid {fmt.number(http.owner_pid)}", "bad"))]
    parts: list[Row] = [(port, ("listening" if http.ours else "listening, owner not readable", "plain"))]
    for name, status in (("/model_info", http.model_info), ("/ready", http.ready)):
        if status is not None:
            answer = "no answer" if status == 0 else str(status)
            parts.append(((f"{name} ", "muted"), (answer, "good" if status == 200 else "warn")))
    if http.running is not None:
        parts.append(((f"{http.running} running, {fmt.number(http.queued)} queued", "plain"),))
    return parts


def _host(host: Host | None) -> list[Row]:
    if host is None:
        return []
    used = None
    if host.memory_total is not None and host.memory_available is not None:
        used = host.memory_total - host.memory_available
    alarms: list[Row] = []
    if host.cgroup_oom_kills:
        alarms.append(((f"✗ {fmt.plural(host.cgroup_oom_kills, 'OOM kill')} in this cgroup", "bad"),))
    if host.swap_used:
        alarms.append((("! swap ", "warn"), (fmt.size(host.swap_used), "warn")))
    facts = (
        ("ram", f"{fmt.gib(used)}/{fmt.gib(host.memory_total)}G"),
        ("disk", f"{fmt.size(host.disk_read_bps)}↓ {fmt.size(host.disk_write_bps)}↑"),
        ("net", f"{fmt.size(host.net_rx_bps)}↓ {fmt.size(host.net_tx_bps)}↑"),
        ("shm", f"{fmt.gib(host.shm_used)}/{fmt.gib(host.shm_total)}G"),
        ("cpu", fmt.percent(host.cpu_percent)),
    )
    return [*alarms, *(((f"{label} ", "muted"), (value, "plain")) for label, value in facts)]
