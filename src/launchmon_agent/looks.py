"""What a watch looks at now and then, besides its sensors: flags installed, the model's files, what was left behind."""

from __future__ import annotations

from launchmon_agent.modelfiles import ModelFilesLook
from launchmon_agent.sensors.orphans import leftovers
from launchmon_agent.sglangsource import installed_flags
from launchmon_agent.sources import Look

FILES_S = 5.0
LEFTOVERS_S = 30.0


def looks() -> tuple[Look, ...]:
    """For one run."""
    return (
        Look("installed", installed_flags),
        Look("files", ModelFilesLook().find, FILES_S),
        Look("leftovers", lambda run, now: leftovers(run.start_time, now), LEFTOVERS_S),
    )
