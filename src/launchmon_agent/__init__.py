"""The half of launchmon that runs where the server runs: it observes, judges and acts, and draws nothing.

Standard library, plus psutil and pynvml where they are importable. It never imports ``launchmon``.
"""

__version__ = "0.1.0"
