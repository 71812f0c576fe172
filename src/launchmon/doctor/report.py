"""What was found, as one object for scripts and as lines for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from launchmon.format import wrap
from launchmon.redact import Redactor
from launchmon_agent.capability import BROKEN, LESS, OK, Capability, worst
from launchmon_agent.log.display import printable

SCHEMA = 1
EXIT = {OK: 0, BROKEN: 1, LESS: 2}
"""By the worst state of all."""

WIDEST = 100
LABEL = 14
INDENT = 10


@dataclass(frozen=True)
class Examined:
    """One target. ``hostname`` and ``user`` are None where it was not reached."""

    name: str
    capabilities: Sequence[Capability]
    hostname: str | None = None
    user: str | None = None


@dataclass(frozen=True)
class Report:
    client: Sequence[Capability]
    targets: Sequence[Examined] = field(default_factory=tuple)

    @property
    def state(self) -> str:
        return worst(one.state for one in self._all())

    @property
    def exit_status(self) -> int:
        return EXIT[self.state]

    def count(self, state: str) -> int:
        return sum(one.state == state for one in self._all())

    def _all(self) -> list[Capability]:
        return [*self.client, *(one for target in self.targets for one in target.capabilities)]


def as_object(report: Report, at: float, hostname: str, user: str) -> dict[str, Any]:
    """Fit to be shared: without secrets, and with stand-ins for users, machines and addresses.

    ``hostname`` and ``user``: of this program.
    """
    hosts = [hostname, *(target.hostname for target in report.targets if target.hostname)]
    users = [user, *(target.user for target in report.targets if target.user)]
    rules = Redactor(users, hosts)

    def told(capabilities: Sequence[Capability]) -> list[dict[str, Any]]:
        return [{key: rules.text(text) for key, text in one.as_json().items()} for one in capabilities]

    when = datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "schema": SCHEMA,
        "at": when,
        "state": report.state,
        "client": told(report.client),
        "targets": [
            {
                "name": rules.text(target.name),
                "state": worst(one.state for one in target.capabilities),
                "capabilities": told(target.capabilities),
            }
            for target in report.targets
        ],
    }


def text(report: Report, columns: int = WIDEST) -> str:
    """``columns``: of the terminal."""
    width = max(20, min(WIDEST, columns) - INDENT - LABEL)
    lines = ["this program", *_rows(report.client, width)]
    for target in report.targets:
        lines += ["", f"{printable(target.name)}, as the agent there sees it", *_rows(target.capabilities, width)]
    return "\n".join([*lines, "", summary(report)])


def summary(report: Report) -> str:
    broken, less = report.count(BROKEN), report.count(LESS)
    if not broken and not less:
        return "All well."
    parts = [f"{broken} cannot work"] if broken else []
    parts += [f"{less} {'works' if less == 1 else 'work'} with less"] if less else []
    return f"{', '.join(parts)}; the rest is well."


def _rows(capabilities: Sequence[Capability], width: int) -> list[str]:
    lines = []
    for one in capabilities:
        state = one.state.upper() if one.state == BROKEN else one.state
        first, *rest = _wrapped(one.found, width) or [""]
        lines.append(f"  {state:<{INDENT - 3}} {printable(one.id):<{LABEL - 1}} {first}".rstrip())
        lines += [" " * (INDENT + LABEL) + line for line in rest]
        for label, words in (("costs", one.cost), ("try", one.try_)):
            for place, line in enumerate(_wrapped(words, width - 7)):
                head = f"{label + ':':<7}" if place == 0 else " " * 7
                lines.append(" " * (INDENT + LABEL) + head + line)
    return lines


def _wrapped(words: str, width: int) -> list[str]:
    return wrap(printable(words), width) if words else []


def capability_of(body: Mapping[str, Any]) -> Capability:
    """From an agent's JSON object, whose texts are only shown."""
    known = {key: str(body.get(key, "")) for key in ("id", "state", "found", "cost")}
    if known["state"] not in EXIT:
        known["state"] = LESS  # a state of another version
    return Capability(**known, try_=str(body.get("try", "")))
