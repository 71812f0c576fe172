"""The half of launchmon that runs where the server runs: it observes, judges and acts, and draws nothing.

Standard library, and pynvml for GPU values. It never imports ``launchmon``.
"""

__version__ = "0.1.0"
