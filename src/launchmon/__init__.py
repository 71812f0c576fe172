"""The half of launchmon that a person starts: the terminal UI and the command line. It asks the agent and shows."""

from launchmon_agent import __version__

__all__ = ["__version__"]
