"""What the verbs print for people: plain lines, no colour, from the same objects that ``--json`` prints. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from launchmon.format import duration, size
from launchmon.victim import Victim
from launchmon_agent.sglang.rail import RAIL

Row = Sequence[str]


def diagnosis_text(found: Mapping[str, Any]) -> str:
    """The diagnosis as a short report: verdict, phases, ranks, GPUs."""
    verdict = found["verdict"]
    lines = [f"{verdict['kind'].upper()} ({verdict['confidence']} confidence)  {verdict['summary']}"]
    lines += [f"  {item['what']}: {item['value']}" for item in verdict["evidence"]]
    lines += [f"  not known: {item}" for item in verdict["unknown"]]
    run = found["run"]
    if run is not None:
        shape = f"tp {run['tp']} · pp {run['pp']} · dp {run['dp']} · port {run['port']}"
        lines += ["", f"run   {run['id']} · {run['model'] or 'model not known'} · {shape}"]
        lines += [f"log   {run['log'] or 'none that can be read'}"]
        if run["simulated"]:
            lines += ["      SIMULATED: this is launchmon's demo, no GPU and no model is used"]
    if len(found["targets"]) > 1:
        lines += ["", *_table(("NODE", "NAME", "HOST", "LINK", "CLOCK"), map(_target, found["targets"]))]
    lines += ["", *_phases(found["phases"])]
    if found["ranks"]:
        lines += ["", *rank_lines(found["ranks"])]
    if found["gpus"]:
        lines += ["", *gpu_lines(found["gpus"])]
    elif found["target"]["gpu_error"]:
        lines += ["", f"GPU   none: {found['target']['gpu_error']}"]
    return "\n".join(lines)


def rank_lines(ranks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of a diagnosis: one line a rank, below a heading."""
    return _by_node(("RANK", "PID", "S", "CPU", "GPU", "ANON", "FILE", "PHASE", "SILENT"), ranks, _rank)


def gpu_lines(gpus: Sequence[Mapping[str, Any]]) -> list[str]:
    return _by_node(("GPU", "NAME", "MEMORY", "UTIL", "POWER", "°C"), gpus, _gpu)


def _by_node(heads: Row, found: Sequence[Mapping[str, Any]], row: Callable[[Mapping[str, Any]], Row]) -> list[str]:
    """With the node in front where there are several."""
    if len({one["node"] for one in found}) < 2:
        return _table(heads, map(row, found))
    rows = [("-" if one["node"] is None else str(one["node"]), *row(one)) for one in found]
    return _table(("NODE", *heads), rows)


def _target(target: Mapping[str, Any]) -> Row:
    return (
        str(target["node"]),
        target["name"],
        target["hostname"] or "-",
        target["problem"] or target["link"],
        f"{target['clock_offset_s']:+.1f} s",
    )


def runs_text(found: Sequence[Mapping[str, Any]]) -> str:
    """Grouped by target where rows name theirs."""
    if not found:
        return "No SGLang run is on this machine, and none was launched here.\n  try: launchmon demo"
    targets = list(dict.fromkeys(item.get("target") for item in found))
    if len(targets) > 1:
        groups = [
            (name, [{**item, "target": None} for item in found if item.get("target") == name]) for name in targets
        ]
        return "\n\n".join(f"{name}:\n{runs_text(group)}" for name, group in groups)
    rows = [
        (
            item["id"] or "-",
            f"on {item['host']}" if item["state"] == "elsewhere" else item["state"],
            str(item["pid"] or "-"),
            str(item["port"] or "-"),
            f"tp{item['tp']}"
            + (f" dp{item['dp']}" if item["dp"] > 1 else "")
            + (f" pp{item['pp']}" if item["pp"] > 1 else ""),
            item["model"] or "-",
            _age(item["started"]),
            "launchmon" if item["launched"] else "found",
        )
        for item in found
    ]
    return "\n".join(_table(("ID", "STATE", "PID", "PORT", "SIZE", "MODEL", "AGE", "BY"), rows))


def kill_plan_text(victims: Sequence[Victim]) -> str:
    rows: list[Row] = [(str(one.pid), one.rank or one.role, one.title or "") for one in victims]
    heads: Row = ("PID", "ROLE", "TITLE")
    if any(one.node is not None for one in victims):
        rows = [(str(one.node), *row) for one, row in zip(victims, rows, strict=True)]
        heads = ("NODE", *heads)
    return "\n".join(["These processes will be ended:", *_table(heads, rows)])


def kill_result_text(result: Mapping[str, Any]) -> str:
    killed, leftovers = result["killed"], result["leftovers"]
    lines = [f"{len(killed)} processes ended in {result['seconds']:.1f} s."]
    lines += [f"  left over: {item}" for item in leftovers]
    lines += [f"  note: {item}" for item in result["notes"]]
    return "\n".join(lines)


def relaunch_plan_text(plan: Mapping[str, Any]) -> str:
    """The difference, then the command, of a relaunch that is only looked at."""
    lines = [f"attempt {plan['attempt']}, environment: {plan['environment']}"]
    lines += [f"  {line}" for line in plan["difference"]] or ["  nothing changes"]
    lines += [f"  warning: {line}" for line in plan["warnings"]]
    lines += [f"  output: {line}" for line in plan["output"]]
    return "\n".join([*lines, "", plan["command"]])


def ledger_text(ledger: Mapping[str, Any]) -> str:
    """The attempts of a series beside each other, then what changed since it last worked."""
    rows = ledger["attempts"]
    phases = [phase for phase in RAIL if any(phase in row["seconds"] for row in rows)]
    table = [
        (
            ("* " if row["best"] else "  ") + str(row["attempt"]),
            row["phase"] or "-",
            *(duration(row["seconds"][phase]) if phase in row["seconds"] else "-" for phase in phases),
            "-" if row["ready_s"] is None else duration(row["ready_s"]),
            row["verdict"] or "-",
            _exit(row),
            row["id"],
        )
        for row in rows
    ]
    lines = _table(("  #", "GOT TO", *phases, "READY IN", "VERDICT", "EXIT", "ID"), table)
    lines += ["", "* the best so far"]
    for row in rows:
        lines += [f"  {row['attempt']}: {line}" for line in row["change"]]
    if ledger["since_it_worked"] is not None:
        lines += ["", f"changed since it last worked ({ledger['worked']}):"]
        lines += [f"  {line}" for line in ledger["since_it_worked"]] or ["  nothing"]
    return "\n".join(lines)


def _exit(row: Mapping[str, Any]) -> str:
    if row["alive"]:
        return "lives"
    if row["ended_by"] == "launchmon":
        return "killed"
    return "?" if row["exit_code"] is None else str(row["exit_code"])


def _phases(spans: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line a phase: its earliest begin and latest end over the ranks."""
    order: dict[str, list[Mapping[str, Any]]] = {}
    for span in spans:
        order.setdefault(span["name"], []).append(span)
    rows = []
    for name in sorted(order, key=RAIL.index):
        group = order[name]
        begins = [span["begin_s"] for span in group if span["begin_s"] is not None]
        ends = [span["end_s"] for span in group]
        begin = min(begins, default=None)
        end = None if None in ends else max(ends)
        took = "…" if end is None or begin is None else duration(end - begin)
        rows.append((name, "-" if begin is None else f"+{duration(begin)}", took))
    return _table(("PHASE", "BEGAN", "TOOK"), rows)


def _rank(rank: Mapping[str, Any]) -> Row:
    cpu = rank["tree_cpu_percent"]
    return (
        rank["rank"] or "-",
        str(rank["pid"] or "-"),
        rank["state"] or "-",
        "-" if cpu is None else f"{cpu:.0f}%",
        "-" if rank["gpu"] is None else str(rank["gpu"]),
        size(rank["rss_anon"]),
        size(rank["rss_file"]),
        rank["phase"] or "-",
        "-" if rank["silent_s"] is None else duration(rank["silent_s"]),
    )


def _gpu(gpu: Mapping[str, Any]) -> Row:
    return (
        str(gpu["index"]),
        gpu["name"] or "-",
        gpu["error"] or f"{size(gpu['memory_used'])}/{size(gpu['memory_total'])}",
        _number(gpu["util_percent"], "%"),
        f"{_number(gpu['power_w'])}/{_number(gpu['power_limit_w'], ' W')}",
        _number(gpu["temperature_c"]),
    )


def _number(value: float | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:.0f}{unit}"


def _age(started: float | None) -> str:
    return "-" if started is None else duration(max(0.0, time.time() - started))


def _table(heads: Row, rows: Any) -> list[str]:
    table = [heads, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
