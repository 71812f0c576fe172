"""The agent: answers one client on stdin and stdout, and ends when stdin ends.

A run that launchmon launched is followed through its keeper's socket, line for line; every other run is watched here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Iterable
from typing import Any

from launchmon_agent import (
    beginning,
    codec,
    doctor,
    keepers,
    lifetime,
    listing,
    login,
    observe,
    relaunching,
    resuming,
    wire,
)
from launchmon_agent.actions import Actions
from launchmon_agent.discover import Found
from launchmon_agent.errors import Refused
from launchmon_agent.events import Event
from launchmon_agent.hello import hello
from launchmon_agent.peer import Peer
from launchmon_agent.redaction import redacted
from launchmon_agent.relaunching import Relauncher
from launchmon_agent.relay import AGAIN_S, TRIES, Relay
from launchmon_agent.runs.attempts import ledger_of
from launchmon_agent.runs.directory import RunDirectory
from launchmon_agent.runservice import OPERATIONS, RunService
from launchmon_agent.sensors import proc
from launchmon_agent.sharing import Sharing
from launchmon_agent.software import software
from launchmon_agent.tools import Tools
from launchmon_agent.watch import Watch
from launchmon_agent.wire import MAX_LINE, Request

SILENCE_S = 120.0
"""After so long without a word of the client its agent ends: not everything in between tells that it is gone. A client
speaks twice a minute at least (``launchmon.link``)."""


def main() -> None:
    """Serve until stdin ends. Options are the arguments of the process: ``wire.DEFLATE``, ``hello.FOUND``."""
    out = os.dup(1)
    os.dup2(2, 1)  # a stray print goes to stderr and never into the stream
    lifetime.end_with(0)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(out))


async def _serve(out: int) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(out, "wb"))
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    peer = Peer(reader, writer)
    agent = Agent(peer)
    peer.send(wire.hello_line(hello()))
    if wire.DEFLATE in sys.argv[1:]:
        peer.pack()
    try:
        await peer.converse(agent.handle, SILENCE_S)
        lifetime.is_ending()
        await agent.finish()
    finally:
        await agent.leave()


class Agent:
    """Answers requests that come before a run is chosen, then those about that run."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._actions = Actions()
        self._relay: Relay | None = None
        self._service: RunService | None = None
        self._watching: asyncio.Task[None] | None = None
        self._subject: RunDirectory | Found | None = None
        self._relauncher: Relauncher | None = None
        self._sharing: Sharing | None = None
        self._tools = Tools()
        self._beginnings = beginning.Beginnings()

    async def handle(self, request: Request) -> Any:
        """Raises :class:`Refused`."""
        match request.do:
            case "clock":
                return time.time()
            case "runs":
                return await asyncio.to_thread(listing.runs_here)
            case "ping":
                return None
            case "launch":
                path = await self._actions.carry_out(request, lambda: _launch(request.args))
                return await self._follow_directory(RunDirectory(path))
            case "attach":
                return await self._attach(request.args)
            case "resume":
                return await self._resume(request.args)
            case "outcome":
                return await self._outcome(str(request.args.get("action")))
            case "ledger":
                return await asyncio.to_thread(ledger_of, request.args.get("run") or self._followed())
            case "recording":
                return await asyncio.to_thread(self._shared().part, request.args.get("start", 0))
            case "doctor":
                return await asyncio.to_thread(doctor.examine, request.args.get("pid"))
            case "software":
                return await asyncio.to_thread(self._software)
            case "tools":
                return await asyncio.to_thread(self._tools.state, self._server_pids())
            case "ship":
                return await asyncio.to_thread(self._tools.take, request.args)
        if request.do in beginning.OPERATIONS:
            return await asyncio.to_thread(self._beginnings.answer, request.do, request.args)
        if request.do in OPERATIONS:
            return await self._ask(request)
        if request.do in relaunching.OPERATIONS:
            return await self._relaunch(request)
        raise Refused(
            f"{request.do!r} is not something this agent can do", "client and agent are of different versions"
        )

    async def finish(self) -> None:
        """What the client asked for is carried out, also when it has gone."""
        await self._actions.finish()

    async def leave(self) -> None:
        """End what was begun for the client: a foreign run is not watched any longer, a launched one goes on."""
        if self._relay is not None:
            await self._relay.close()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self._relay = self._service = self._watching = None

    async def _ask(self, request: Request) -> Any:
        """Put a question about the run to whoever watches it. Raises :class:`Refused`."""
        if self._relay is not None:
            return await self._relay.ask(request)
        if self._service is not None:
            return await self._service.handle(request)
        raise Refused("no run is chosen yet", "attach or launch comes first")

    async def _relaunch(self, request: Request) -> Any:
        """After a relaunch this agent follows the new run: its events come next, then the reply."""
        if self._relauncher is None:
            raise Refused("no run is chosen yet", "attach or launch comes first")
        if request.do == "relaunch-options":
            return await self._relauncher.options()
        if request.do == "relaunch-plan":
            return await self._relauncher.plan(request.args)
        relauncher = self._relauncher
        path = await self._actions.carry_out(request, lambda: _relaunch(relauncher, request.args))
        await self.leave()
        return await self._follow_directory(RunDirectory(path))

    async def _outcome(self, action: str) -> dict[str, Any]:
        """What became of an action that another agent was asked for. A run that it started is followed from now on."""
        outcome = await self._actions.outcome(action)
        if outcome["state"] == "done" and outcome["do"] in ("launch", "relaunch"):
            await self.leave()
            outcome["value"] = await self._follow_directory(RunDirectory(outcome["value"]))
        return outcome

    async def _resume(self, args: dict[str, Any]) -> dict[str, Any]:
        """The run that the client followed through an agent before this one: ``run``, or ``gone`` with the reason.

        The samples that it missed come first, where they were recorded.
        """
        gone = await asyncio.to_thread(resuming.gone, args)
        if gone is not None:
            return {"run": None, "gone": gone}
        for event in await asyncio.to_thread(resuming.missed, args):
            self._peer.send(codec.encode(event))
        return {"run": await self._attach(args), "gone": None}

    async def _choose(self, subject: RunDirectory | Found) -> None:
        """The run that is followed from now on."""
        self._subject = subject
        self._sharing = Sharing(subject) if isinstance(subject, RunDirectory) else None
        self._relauncher = Relauncher(
            subject, self._ask, lambda event: self._peer.send(codec.encode(redacted(event))), self._seen
        )
        await self._relauncher.remember()

    def _shared(self) -> Sharing:
        if self._sharing is None:
            raise Refused("nothing is recorded", "only runs that launchmon launched are recorded where they run")
        return self._sharing

    def _seen(self) -> Iterable[Event]:
        """All that is known of a run that is watched here."""
        return () if self._service is None else self._service.watch.model.replay()

    def _software(self) -> dict[str, str]:
        """What is installed for the server that is followed; of an ended one what is there now."""
        if isinstance(self._subject, RunDirectory):
            file = self._subject.read()
            server = None if file is None else file.server
            alive = server is not None and proc.alive(server.pid, server.start_time)
            return software(server.pid if server and alive else None, None if file is None else file.interpreter)
        return {} if self._subject is None else software(self._subject.pid, None)

    def _server_pids(self) -> tuple[int, ...]:
        """Of the run that is followed, as far as they tell which environment it has."""
        if isinstance(self._subject, RunDirectory):
            file = self._subject.read()
            return () if file is None or file.server is None else (file.server.pid,)
        return () if self._subject is None else self._subject.pids[:2]

    def _followed(self) -> str:
        if isinstance(self._subject, RunDirectory):
            return self._subject.id
        raise Refused("no attempts are recorded", "this run was not launched by launchmon", "launchmon runs")

    async def _attach(self, args: dict[str, Any]) -> Any:
        if self._relay is not None or self._service is not None:
            raise Refused("this agent follows a run already", "one conversation is about one run")
        if args.get("recorded") is not None:
            return await self._look_back(RunDirectory(os.path.abspath(os.path.expanduser(args["recorded"]))))
        chosen = await asyncio.to_thread(listing.choose, args)
        if isinstance(chosen, RunDirectory):
            return await self._follow_directory(chosen)
        run = self._watch_here(await asyncio.to_thread(observe.foreign_run, chosen, args))
        await self._choose(chosen)
        return run

    async def _look_back(self, directory: RunDirectory) -> Any:
        """At the files of a run, wherever they were copied from: nothing on this machine is taken to be of it."""
        if directory.read() is None:
            raise Refused(f"{directory.path} is no directory of a run", "it has no run.json that can be read")
        if os.path.islink(directory.log):  # whoever made the directory may mean a file of this machine's
            raise Refused(f"{directory.log} is a link", "the directory of a run holds its log itself")
        self._sharing = Sharing(directory)
        return await self._watch_ended(directory)

    async def _follow_directory(self, directory: RunDirectory) -> Any:
        """Through the keeper, starting one for a run that lost it; a run that has ended is read from its files."""
        await self._choose(directory)
        tries = TRIES
        while await asyncio.to_thread(keepers.ensure, directory):
            relay = Relay(directory, self._peer.send, self._peer.close)
            try:
                run = await relay.open()
            except Refused:
                await relay.close()
                tries -= 1
                if not tries or await asyncio.to_thread(keepers.answered, directory):
                    raise
                await asyncio.sleep(AGAIN_S)  # the keeper is ending: then there is another, or the run is over
            else:
                self._relay = relay
                return run
        return await self._watch_ended(directory)

    async def _watch_ended(self, directory: RunDirectory) -> Any:
        """A long recording takes a while to read, in which the client is to hear that its agent is there."""
        return self._watch_here(await asyncio.to_thread(observe.launched_run, directory, ended=True))

    def _watch_here(self, watch: Watch) -> Any:
        watch.listen(self._peer.send_event)
        self._service = RunService(watch, lambda: observe.killer(watch.model), self._actions)
        self._watching = asyncio.create_task(watch.run())
        return watch.model.run


async def _launch(args: dict[str, Any]) -> str:
    """The directory of the new run. Raises :class:`Refused`."""
    return (await asyncio.to_thread(lambda: keepers.launch(login.prepared(args)))).path


async def _relaunch(relauncher: Relauncher, args: dict[str, Any]) -> str:
    """The directory of the next attempt. Raises :class:`Refused`."""
    return (await relauncher.run(args)).path
