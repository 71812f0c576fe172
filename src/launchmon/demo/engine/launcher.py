"""The launcher from its first line to its end: resolve, start the engine, open the port, warm up, serve, shut down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

from launchmon.demo.engine import model_runner
from launchmon.demo.engine.engine import Engine
from launchmon.demo.engine.http_server import UNHEALTHY, HttpServer
from launchmon.demo.engine.log import Logger
from launchmon.demo.engine.tokenizer_manager import TokenizerManager
from launchmon.demo.engine.warmup import _execute_server_warmup
from launchmon.demo.engine.watchdog import SubprocessWatchdog
from launchmon.demo.gpus import DIRECTORY_PREFIX, VARIABLE
from launchmon.demo.options import Options

DRAIN_S = 5.0
"""How often a shutdown looks whether the requests in flight have ended."""

SETTLE_S = 5.0
"""How long SGLang waits before its crash diagnostics."""

SETTLE_AT_LEAST_S = 1.5
"""However fast the demo: its ranks look for their peers every half second."""

PORT_TAKEN = 3
"""uvicorn's exit status when it cannot have the port."""


def launch_server(options: Options) -> int:
    """The exit status. A failure of a child ends in a SIGKILL of the launcher by itself, not here."""
    log = Logger()
    directory = _run_directory(options, log)
    time.sleep(options.scenario.seconds["start"] / options.speed)
    log.info(f"server_args={options.server_args}")
    log.info("Using default HuggingFace chat template with detected content format: openai")
    engine = Engine(options, directory, log)
    engine.launch()
    return _setup_and_run_http_server(options, engine, log)


def _run_directory(options: Options, log: Logger) -> str:
    """A private directory for the files of this run, and the process that reports the GPUs and removes them at last."""
    directory = tempfile.mkdtemp(prefix=DIRECTORY_PREFIX)
    with open(os.path.join(directory, model_runner.CHECKPOINT), "wb") as checkpoint:
        checkpoint.truncate(model_runner.CHECKPOINT_BYTES)
    path = os.environ.get(VARIABLE) or os.path.join(directory, "gpus.json")
    command = [sys.executable, "-m", "launchmon.demo.driver"]
    command += [str(os.getpid()), directory, path, options.scenario.name, str(options.speed)]
    nothing = subprocess.DEVNULL
    status = subprocess.run(command, stdin=nothing, stdout=nothing, stderr=nothing, check=False).returncode
    if status:
        log.info(f"launchmon demo: the GPUs cannot be shown ({VARIABLE}={path})")
    return directory


def _setup_and_run_http_server(options: Options, engine: Engine, log: Logger) -> int:
    manager = TokenizerManager(engine.to_scheduler, engine.from_detokenizer)
    names = {f"scheduler_{rank}": process for rank, process in enumerate(engine.schedulers)}
    watchdog = SubprocessWatchdog({**names, "detokenizer": engine.processes[-1]}, log)
    watchdog.start()
    log.info(f"INFO:     Started server process [{os.getpid()}]")
    log.info("INFO:     Waiting for application startup.")
    log.info("INFO:     Application startup complete.")
    server: HttpServer | None
    try:
        server = HttpServer(options, manager, log)
    except OSError as error:
        server = None
        log.info(
            f"ERROR:    [Errno {error.errno}] error while attempting to bind on address "
            f"('{options.host}', {options.port}): {(error.strerror or str(error)).lower()}"
        )
    else:
        log.info(f"INFO:     Uvicorn running on http://{options.host}:{options.port} (Press CTRL+C to quit)")
        server.serve()
    warm_up = threading.Thread(target=_execute_server_warmup, args=(options, server, log), daemon=True)
    warm_up.start()
    if server is None:
        warm_up.join(timeout=SETTLE_S)
    else:
        _serve(options, engine, server, watchdog, log)
    watchdog.stop()
    if server is not None:
        log.info("INFO:     Shutting down")
    log.info("INFO:     Waiting for application shutdown.")
    log.info("INFO:     Application shutdown complete.")
    if server is not None:
        log.info(f"INFO:     Finished server process [{os.getpid()}]")
    engine.kill_process_tree(include_parent=False)
    return PORT_TAKEN if server is None else 0


def _serve(options: Options, engine: Engine, server: HttpServer, watchdog: SubprocessWatchdog, log: Logger) -> None:
    """Until a SIGTERM or SIGINT, and until the requests in flight have ended."""
    wake, woken = os.pipe()

    def stop_handler(signum: int, frame: object) -> None:  # noqa: ARG001
        os.write(woken, bytes([signum]))

    def running_phase_sigquit_handler(signum: int, frame: object) -> None:  # noqa: ARG001
        signal.signal(signal.SIGQUIT, signal.SIG_IGN)  # each rank that loses its peer sends one
        log.info("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        watchdog.stop()
        log.info("Sleeping 5 seconds before crash diagnostics to let GPU activity settle.")
        time.sleep(max(SETTLE_S / options.speed, SETTLE_AT_LEAST_S))
        if not any(process.is_alive() for process in engine.schedulers):
            log.info("No live scheduler processes found; skipping py-spy and CUDA coredump.")
        engine.kill_process_tree(include_parent=True)

    signal.signal(signal.SIGQUIT, running_phase_sigquit_handler)
    signal.signal(signal.SIGTERM, stop_handler)
    signal.signal(signal.SIGINT, stop_handler)
    # Not an Event: a handler that sets it while the main thread is inside its wait could find the lock taken.
    if os.read(wake, 1)[0] == signal.SIGTERM:
        log.info("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    server.shutting_down = True
    time.sleep(2.0 / options.speed)
    while server.status != UNHEALTHY:
        remaining_rids = list(server.manager.rid_to_state)
        log.info(
            f"Gracefully exiting... Remaining number of requests {len(remaining_rids)}. "
            f"Remaining requests {remaining_rids=}."
        )
        if not remaining_rids:
            break
        time.sleep(DRAIN_S / options.speed)
    watchdog.stop()
    server.manager.shut_down()
    for process in engine.schedulers:
        process.join(timeout=SETTLE_S)
    engine.kill_process_tree(include_parent=False)
