"""The keeper of one launched run: owns the server, writes the recording, watches when nobody looks, answers clients.

It is the server's parent and a child sub-reaper, so the exit status of the server and of ranks that it leaves behind
is known. If the keeper dies the server goes on; the next agent starts a keeper that adopts the run: it follows the
same files, and only exit statuses are lost to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import dataclasses
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from launchmon_agent import observe, wire
from launchmon_agent.actions import Actions
from launchmon_agent.codec import from_json
from launchmon_agent.errors import Refused
from launchmon_agent.events import Event, Exit, LogError, Mark, Notice, Processes, Verdict
from launchmon_agent.hello import hello
from launchmon_agent.peer import Peer
from launchmon_agent.preflight.finding import Finding
from launchmon_agent.preflight.look import look
from launchmon_agent.runs.carrying import append
from launchmon_agent.runs.directory import ProcessId, RunDirectory, create
from launchmon_agent.runs.history import write_phases
from launchmon_agent.runs.launch import Plan, prepare, start
from launchmon_agent.runs.outlets import Outlets
from launchmon_agent.runs.recording import SAMPLES, Recording, happenings
from launchmon_agent.runs.sampling import Sampling
from launchmon_agent.runs.sockets import listen, refuse_another, socket_directory, socket_path
from launchmon_agent.runservice import RunService
from launchmon_agent.sensors import proc
from launchmon_agent.wire import MAX_LINE, Request

LINGER_S = 10.0
"""How long a keeper stays after its run has ended and the last client has left."""

ABANDONED_S = 3.0
"""How long nobody may look at a run that was launched for as long as somebody does (a demo), before it is ended."""

SAMPLE_S = 0.9
CALM_S = 60.0
CALM_SAMPLE_S = 10.0
"""One sample of each kind in SAMPLE_S is recorded; once a run has been ready for CALM_S, one in CALM_SAMPLE_S."""

SAME_VERDICT_S = 15.0
CALM_VERDICT_S = 60.0
"""How often a verdict is recorded that differs from the one before in numbers alone; the second: of a ready server."""

_NUMBERS = re.compile(r"\d[\w.,]*")

_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36


def main(args: Sequence[str]) -> None:
    """``launch REQUEST_FD STATUS_FD`` or ``adopt DIRECTORY STATUS_FD``.

    The outcome is written to STATUS_FD as one JSON object: ``{"directory": …}`` or ``{"refused": …}``.
    """
    mode, what, status_fd = args
    _become_keeper()
    status = int(status_fd)
    try:
        if mode == "launch":
            with os.fdopen(int(what), encoding="utf-8") as pipe:
                keeper = Keeper.launch(json.load(pipe))
        else:
            keeper = Keeper.adopt(RunDirectory(what))
    except Refused as refused:
        _say(status, {"refused": refused.as_json()})
        sys.exit(1)
    _say(status, {"directory": keeper.directory.path})
    asyncio.run(keeper.keep())


def _say(status: int, outcome: dict[str, Any]) -> None:
    """Whoever asked may have died meanwhile. A run that was started is kept all the same."""
    with contextlib.suppress(OSError):
        os.write(status, json.dumps(outcome).encode("ascii"))
    os.close(status)


def _become_keeper() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NAME, b"launchmon-keep", 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Handlers, not SIG_IGN: an ignored signal would stay ignored in the server. A failing rank sends SIGQUIT to
    # whatever its parent is by then, which for an orphan is the keeper.
    for number in (signal.SIGQUIT, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: None)


class Keeper:
    """Made by :meth:`launch` or :meth:`adopt`; both raise :class:`Refused`."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self._codes: dict[int, int] = {}
        self._troubles: list[str] = []
        self._told: set[str] = set()
        self._clients = 0
        self._left_at = time.monotonic()
        self._sampling = Sampling()
        self._recorded_verdict: Verdict | None = None
        self._known_offset = -1
        self._past: list[Exit] = []
        self._while_watched = False
        self._findings: tuple[Finding, ...] = ()
        self._not_copied: list[str] = []
        self._notes: list[str] = []
        self._recording = Recording(directory, self._troubles.append)
        self._socket = socket_path(directory.path, socket_directory())
        self._listener = listen(self._socket)
        self._id = ProcessId(os.getpid(), proc.start_time(os.getpid()) or time.time())

    @classmethod
    def launch(cls, request: dict[str, Any]) -> Keeper:
        """Check the command, make the run's directory and start the server. A refusal leaves nothing behind."""
        plan = prepare(
            tuple(request["argv"]),
            env=request.get("env"),
            cwd=request.get("cwd"),
            without=request.get("without") or (),
            environ=request.get("environ"),
        )
        findings = look(plan)
        hopeless = [finding for finding in findings if finding.severity == "error"]
        if hopeless and not request.get("anyway"):
            raise Refused(hopeless[0].what, hopeless[0].why, hopeless[0].try_ or "launchmon launch --anyway -- …")
        details = _details(plan, request)
        directory = create(plan.argv, name=request.get("name"), **details)
        keeper = None
        try:
            keeper = cls(directory)
            server = keeper._start(plan)
        except Refused:
            if keeper is not None:
                keeper._listener.close()
                with contextlib.suppress(OSError):
                    os.unlink(keeper._socket)
            shutil.rmtree(directory.path, ignore_errors=True)
            raise
        keeper._findings = findings
        keeper._notes = list(request.get("notes") or ())
        keeper._not_copied = append(details["outlets"].files, directory.log, server.pid)
        keeper._while_watched = bool(request.get("while_watched"))
        return keeper

    def _start(self, plan: Plan) -> ProcessId:
        """Start the server, and write down which process it is: one that is written down nowhere would be lost."""
        server = ProcessId(*start(plan, self.directory))
        try:
            self.directory.update(server=server, keeper=self._id, socket=self._socket)
        except (OSError, ValueError) as error:
            os.killpg(server.pid, signal.SIGKILL)  # a session of its own, that has just begun
            os.waitpid(server.pid, 0)
            raise Refused(
                f"{self.directory.path} cannot be written",
                getattr(error, "strerror", None) or str(error),
                "set XDG_STATE_HOME to a directory that can be written, with space left",
            ) from error
        return server

    @classmethod
    def adopt(cls, directory: RunDirectory) -> Keeper:
        """Take over a run whose keeper died. One that answers where another ``$XDG_RUNTIME_DIR`` led has it still."""
        file = directory.read()
        if file is not None and file.socket is not None:
            refuse_another(file.socket)
        keeper = cls(directory)
        keeper._read_past()
        try:
            directory.update(keeper=keeper._id, socket=keeper._socket)
        except (OSError, ValueError) as error:
            # A full or read-only disk: it is found by its socket, whose name is known.
            keeper._troubles.append(f"run.json cannot be written: {error}; the server is not affected")
        return keeper

    def _read_past(self) -> None:
        """Exits are in the recording alone; marks are found again in the log and must not be recorded twice."""
        for event in happenings(self.directory):
            if isinstance(event, Exit):
                self._past.append(event)
            elif isinstance(event, (Mark, LogError)):
                self._known_offset = max(self._known_offset, event.offset)

    async def keep(self) -> None:
        """Watch, record and answer until the run is over and nobody looks any more."""
        self._watch = observe.launched_run(self.directory, exit_code=self._codes.get)
        for event in self._past:
            self._watch.emit(event)
        self._watch.listen(self._record, caught_up=not self._past)
        for finding in self._findings:
            said = [finding.what, finding.why, f"try: {finding.try_}" if finding.try_ else ""]
            text = f"{finding.severity}: {'; '.join(part for part in said if part)}"
            self._watch.emit(Notice(time.time(), source="preflight", text=text))
        for note in self._notes:
            self._watch.emit(Notice(time.time(), source="launch", text=note))
        for trouble in self._not_copied:
            self._watch.emit(Notice(time.time(), source="output", text=trouble))
        self._service = RunService(self._watch, lambda: observe.killer(self._watch.model), Actions())
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        self._reap()  # a server may have ended before there was a handler
        stop = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        self._server = await asyncio.start_unix_server(self._serve, sock=self._listener, limit=MAX_LINE)
        watching = asyncio.create_task(self._watch.run())
        waiting = [asyncio.create_task(stop.wait()), asyncio.create_task(self._until_over()), watching]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            self._server.close()
            with contextlib.suppress(OSError):
                os.unlink(self._socket)
            self._recording.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        self._clients += 1
        leave = None
        try:
            peer.send(wire.hello_line(hello(keeper=True)))

            async def handle(request: Request) -> Any:
                nonlocal leave
                if request.do == "watch" and leave is None:
                    leave = self._watch.listen(peer.send_event)
                    return self._watch.model.run
                return await self._service.handle(request)

            await peer.converse(handle)
        finally:
            if leave is not None:
                leave()
            self._clients -= 1
            self._left_at = time.monotonic()

    def _reap(self) -> None:
        """Collect the exit statuses of children that have ended: the server, and orphans that became ours.

        Children in the keeper's own session are helpers that the subprocess module waits for.
        """
        own_session = os.getsid(0)
        for child in proc.children(os.getpid()):
            if child.dead and child.session != own_session:
                with contextlib.suppress(ChildProcessError):
                    pid, status = os.waitpid(child.pid, os.WNOHANG)
                    if pid:
                        self._codes[pid] = os.waitstatus_to_exitcode(status)
        self._watch.poke()

    async def _until_over(self) -> None:
        while True:
            await asyncio.sleep(1)
            while self._troubles:
                self._watch.emit(Notice(time.time(), source="recording", text=self._troubles.pop(0)))
            alone_s = 0.0 if self._clients else time.monotonic() - self._left_at
            if self._while_watched and alone_s > ABANDONED_S:
                await self._end_abandoned()
            if alone_s > LINGER_S and self._is_over():
                return
            if not os.path.exists(self._socket):
                await self._listen_again()

    async def _end_abandoned(self) -> None:
        """Once. A run that is being ended already, by a client that has gone since, is left to that."""
        self._while_watched = False
        with contextlib.suppress(Refused):
            await self._service.kill(force=True)

    async def _listen_again(self) -> None:
        """Someone removed the socket: a session's end takes $XDG_RUNTIME_DIR away with all that is in it."""
        try:
            path = socket_path(self.directory.path, socket_directory())
            listener = listen(path)
        except Refused as refused:
            if refused.what not in self._told:
                self._told.add(refused.what)
                self._troubles.append(f"nobody can reach this keeper: {refused.what}: {refused.cause}")
            return  # it is tried again in a second
        self._server.close()
        self._socket = path
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=MAX_LINE)
        with contextlib.suppress(OSError, ValueError):
            self.directory.update(socket=self._socket)

    def _is_over(self) -> bool:
        sample = self._watch.model.processes
        return sample is not None and all(process.state == "Z" for process in sample.processes)

    # ------------------------------------------------------------------------------------------------------- recording

    def _record(self, event: Event, _line: bytes) -> None:
        if isinstance(event, Exit) or (isinstance(event, Mark) and event.id == "ready"):
            write_phases(self.directory, self._watch.model, event.at)
        if isinstance(event, (Mark, LogError)) and event.offset <= self._known_offset:
            return
        every = self._sample_every(event.at)
        for waited in self._sampling.due(event.at, every):
            self._recording.append(_without_helpers(waited))
        if event.kind in SAMPLES and not self._sampling.take(event, every):
            return
        if isinstance(event, Verdict) and not self._says_more(event):
            return
        self._recording.append(_without_helpers(event))

    def _says_more(self, verdict: Verdict) -> bool:
        """Whether it differs from the last recorded in more than its numbers, or that one is old."""
        last = self._recorded_verdict
        old = CALM_VERDICT_S if verdict.verdict in ("ready", "serving") else SAME_VERDICT_S
        if last is not None and _wording(last) == _wording(verdict) and verdict.at - last.at < old:
            return False
        self._recorded_verdict = verdict
        return True

    def _sample_every(self, now: float) -> float:
        ready = self._watch.model.marks("ready")
        return CALM_SAMPLE_S if ready and now - ready[-1].at > CALM_S else SAMPLE_S


def _details(plan: Plan, request: dict[str, Any]) -> dict[str, Any]:
    """Fields of ``run.json``. ``request["run"]``: those that a relaunch knows better: series, parent, what changed."""
    attempt = request.get("run") or {}
    return {
        "cwd": plan.cwd,
        "env": plan.shown_env,
        "interpreter": plan.interpreter,
        "preparations": plan.preparations,
        "while_watched": bool(request.get("while_watched")),
        **attempt,
        "change": tuple(attempt.get("change", ())),
        "outlets": from_json(Outlets, attempt.get("outlets", {})),
    }


def _wording(verdict: Verdict) -> tuple[object, ...]:
    return verdict.verdict, verdict.confidence, verdict.blames, _NUMBERS.sub("#", verdict.summary)


def _without_helpers(event: Event) -> Event:
    """A sample without the processes that explain nothing later (resource trackers)."""
    if isinstance(event, Processes):
        kept = tuple(process for process in event.processes if process.role != "helper")
        return dataclasses.replace(event, processes=kept)
    return event
