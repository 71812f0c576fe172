"""What the facts mean for this command. Pure."""

from __future__ import annotations

from launchmon_agent.preflight import environment, files, hardware
from launchmon_agent.preflight.finding import SEVERITIES, Finding
from launchmon_agent.preflight.start import Start


def findings(start: Start) -> tuple[Finding, ...]:
    """Everything there is to say, errors first."""
    checks = (*hardware.CHECKS, *files.CHECKS, *environment.CHECKS)
    found = [finding for check in checks for finding in check(start)]
    return tuple(sorted(found, key=lambda one: SEVERITIES.index(one.severity)))
