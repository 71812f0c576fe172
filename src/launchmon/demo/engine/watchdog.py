"""Looks each second whether all children of a serving launcher are alive."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing.context import SpawnProcess

from launchmon.demo.engine.log import Logger

INTERVAL_S = 1.0


class SubprocessWatchdog:
    """Names are SGLang's: ``scheduler_0`` …, ``detokenizer``."""

    def __init__(self, processes: dict[str, SpawnProcess], log: Logger) -> None:
        self._processes = processes
        self._log = log
        self._stop = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._monitor_loop, name="subprocess-watchdog", daemon=True).start()

    def stop(self) -> None:
        """From now on an exit is no crash."""
        self._stop.set()

    def _monitor_loop(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            for name, process in self._processes.items():
                if not process.is_alive() and process.exitcode and not self._stop.is_set():
                    self._log.info(
                        f"Subprocess {name} (pid={process.pid}) crashed with exit code {process.exitcode}. "
                        "Triggering SIGQUIT for cleanup..."
                    )
                    os.kill(os.getpid(), signal.SIGQUIT)
                    return
