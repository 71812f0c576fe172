"""Puts a watch together: which sensors and which log belong to a run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from launchmon_agent.discover import Found
from launchmon_agent.errors import Refused
from launchmon_agent.events import Notice, Run
from launchmon_agent.installed import sglang_version
from launchmon_agent.judge.variables import telling
from launchmon_agent.log.engine import LogEngine
from launchmon_agent.log.marks import MarkScanner
from launchmon_agent.log.owner import owner_of
from launchmon_agent.log.sources import CommandSource, FileSource, Source
from launchmon_agent.log.tmux import TmuxSource
from launchmon_agent.looks import looks
from launchmon_agent.model import RunModel
from launchmon_agent.runs.directory import RunDirectory, RunFile
from launchmon_agent.runs.history import expected
from launchmon_agent.runs.kill import Killer
from launchmon_agent.runs.recording import read_events
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.gpu import GpuSensor
from launchmon_agent.sensors.heartbeat import HeartbeatSensor
from launchmon_agent.sensors.host import HostSensor
from launchmon_agent.sensors.http import HttpSensor
from launchmon_agent.sensors.kernel import KernelSensor
from launchmon_agent.sensors.processes import ProcessSensor
from launchmon_agent.sensors.ras import RasSensor
from launchmon_agent.sglang.command import parse, value_of
from launchmon_agent.sglang.run import run_of_command
from launchmon_agent.sources import IsOurs, Sensors
from launchmon_agent.stacks.dump import Dumper
from launchmon_agent.stacks.plant import home_of
from launchmon_agent.watch import Watch

SIMULATED_GPUS = "LAUNCHMON_SIMULATED_GPUS"
"""Variable of a demo server that names the file with its simulated GPUs."""


UNLOGGED = frozenset({"exit", "kernel", "action", "gpus", "host", "installed", "files", "leftovers"})
"""Kinds of events of which the log of a run that has ended tells nothing."""


def launched_run(
    directory: RunDirectory, *, exit_code: Callable[[int], int | None] = lambda _pid: None, ended: bool = False
) -> Watch:
    """A watch over a run that launchmon launched. ``ended``: nothing of it runs, its files are all there is."""
    file = directory.read()
    assert file is not None
    run = _run_of_file(file, directory)
    log = _engine(FileSource(directory.log))
    if ended:
        watch = Watch(run, None, log)
        for event in read_events(directory):
            if event.kind in UNLOGGED or not os.path.exists(directory.log):
                watch.emit(event)
            elif isinstance(event, Run) and watch.model.run is not None:
                watch.emit(_with_what_lived(watch.model.run, event))
        return watch
    return Watch(run, _sensors(run, session=run.pid, directory=directory.path), log, exit_code=exit_code)


def _with_what_lived(run: Run, recorded: Run) -> Run:
    """With what only the living process told."""
    version = run.engine_version or recorded.engine_version
    return replace(run, engine_version=version, variables=recorded.variables, limits=recorded.limits)


def foreign_run(found: Found, args: dict[str, Any]) -> Watch:
    """A watch over a run that somebody else started; it changes nothing there. Raises :class:`Refused`."""
    command = parse(found.argv)
    source = _source(found, args.get("log"), args.get("log_command"))
    run = run_of_command(
        command,
        time.time(),
        id=found.run_id or f"pid-{found.pid}",
        pid=found.pid,
        start_time=found.start_time,
        cwd=found.cwd,
        engine_version=found.engine_version,
        variables=telling(proc.environ(found.pid) or {}),
        limits=proc.limits(found.pid),
        log=source.name if source else None,
        log_source=source.kind if source else "none",
    )
    watch = Watch(run, _sensors(run, session=None), _engine(source) if source else None)
    if source is None:
        watch.emit(Notice(time.time(), source="log", text=found.log_note or "this run has no log that can be read"))
    return watch


def _source(found: Found, path: str | None, command: str | None) -> Source | None:
    """What the person named, else what the process writes to. Raises :class:`Refused`."""
    if command is not None:
        return CommandSource(command)
    if path is not None:
        return FileSource(os.path.abspath(os.path.expanduser(path)))
    if found.pane is not None:
        return TmuxSource(found.pane.id, found.pane.socket)
    if found.log is not None:
        return FileSource(found.log, found.log_source)
    return None


def _engine(source: Source) -> LogEngine:
    try:
        return LogEngine(source, MarkScanner(), owner_of)
    except Refused:
        source.close()
        raise


def killer(model: RunModel) -> Killer:
    """How to end the run of this model, as it is now."""
    run = model.run
    assert run is not None
    processes = model.processes.processes if model.processes else ()
    return Killer(run=run, processes=processes, held=[lambda: gpu_memory_held(model, {one.pid for one in processes})])


def gpu_memory_held(model: RunModel, pids: Collection[int]) -> str | None:
    """What these processes still hold on GPUs by the newest sample: SIGKILL only queues the driver's tear-down."""
    if model.gpus is None:
        return None
    held = [
        f"GPU {gpu.index}: {process.memory / 2**30:.1f} GiB by process {process.pid}"
        for gpu in model.gpus.gpus
        for process in gpu.processes
        if process.pid in pids and process.memory
    ]
    return "; ".join(held) or None


def _run_of_file(file: RunFile, directory: RunDirectory) -> Run:
    server = file.server
    alive = server is not None and proc.alive(server.pid, server.start_time)  # the pid may be another's by now
    environ = (proc.environ(server.pid) if server and alive else None) or {}
    return run_of_command(
        parse(file.argv),
        time.time(),
        id=directory.id,
        pid=server.pid if server else None,
        start_time=server.start_time if server else None,
        cwd=file.cwd,
        interpreter=file.interpreter,
        engine_version=sglang_version(server.pid) if server and alive else None,
        variables=telling(environ),
        limits=proc.limits(server.pid) if server and alive else {},
        launched=file.launched,
        name=file.name,
        series=file.series,
        attempt=file.attempt,
        parent=file.parent,
        preparations=file.preparations,
        log=directory.log,
        log_source="file",
    )


def _sensors(run: Run, session: int | None, directory: str | None = None) -> Sensors:
    """``directory``: of a launched run."""
    assert run.pid is not None and run.start_time is not None
    environ = proc.environ(run.pid) or {}
    hook = home_of(directory) if directory else None
    paths = {"shm": "/dev/shm"}  # noqa: S108 - looked at, not written
    if run.model is not None and os.path.exists(os.path.join(run.cwd or "/", run.model)):
        paths["model"] = os.path.join(run.cwd or "/", run.model)
    return Sensors(
        gpu=GpuSensor(environ.get(SIMULATED_GPUS) if run.simulated else None),
        host=HostSensor(paths, pid=run.pid),
        kernel=KernelSensor(since=run.start_time),
        processes=ProcessSensor(run.pid, run.start_time, session=session),
        http=_http_sensor(run),
        heartbeat=HeartbeatSensor(),
        ras=RasSensor(run.pid),
        expected=lambda model, now: expected(model, now, besides=directory),
        looks=looks(),
        stacks=lambda now_known, processes: Dumper(now_known, processes, hook=hook),
    )


def _http_sensor(started: Run) -> Callable[[Run, IsOurs], HttpSensor]:
    """``started``: the run with its command as it was given. What a watch knows of a run holds no API key."""
    key, metrics = value_of(started.argv, "--api-key"), "--enable-metrics" in started.argv

    def sensor(run: Run, is_ours: IsOurs) -> HttpSensor:
        assert run.pid is not None
        return HttpSensor(run.pid, run.port, run.host, run.engine_version, key, is_ours, metrics=metrics)

    return sensor
