"""``launchmon attach``: watch a run, whoever started it. Without a verb: pick one."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import click

from launchmon import recent
from launchmon.cli.beginning import offering
from launchmon.cli.common import (
    chosen,
    named_targets,
    need_terminal,
    on_verdict,
    open_on,
    open_session,
    run_async,
    say_how_to_return,
    selectors,
)
from launchmon.cli.recordings import open_recording
from launchmon.cli.runs import list_runs, listed
from launchmon.cli.showing import import_screen_meanwhile, show
from launchmon.cluster.session import AnySession
from launchmon.connect import Asker
from launchmon.connect.ssh.config import listed_hosts
from launchmon.connect.target import LOCAL, Target, ssh
from launchmon.format import duration
from launchmon.listed import Found, Place
from launchmon.replay.session import ReplaySession
from launchmon_agent.errors import Refused


@click.command("attach")
@selectors
@click.option("--read-only", is_flag=True, help="Refuse every key that would change something.")
@on_verdict
def command(read_only: bool, on_verdict: str | None, **which: Any) -> None:
    """Watch a run that is going on. Without a selector: the only one found, or a list to pick from.

    Nothing about the run is changed. RUN is the id or name of a run that launchmon launched.
    """
    need_terminal("launchmon diagnose")
    wanted = chosen(**which)
    import_screen_meanwhile()
    if not wanted and _several(run_async(list_runs())):
        pick_and_attach(read_only, on_verdict)
        return
    say_how_to_return(show(opener(wanted), on_verdict=on_verdict, read_only=read_only).session)


def _several(runs: Sequence[dict[str, Any]]) -> bool:
    """Whether there is a choice: two servers of one machine. Of several machines each has one, as nodes of one run."""
    running = [run.get("target") for run in runs if run["state"] == "running"]
    return len(set(running)) < len(running)


def opener(which: dict[str, Any], where: Sequence[Target] | None = None) -> Callable[[Asker], Awaitable[AnySession]]:
    """How the app opens its session: attach first, so that a refusal is a line on stderr and no screen.

    ``where``: in place of the targets that were named.
    """

    async def opened(asker: Asker) -> AnySession:
        session = await open_session(asker=asker, where=where)
        try:
            await session.attach(**which)
        except Refused:
            await session.close()
            raise
        return session

    return opened


def pick_and_attach(read_only: bool = False, on_verdict: str | None = None) -> None:
    """The home screen: runs found here, and other machines; Enter watches a run, or looks for runs there.

    Where the verb names targets, theirs are listed instead, once.
    """
    need_terminal("launchmon runs")
    named = named_targets()
    here = named == (LOCAL,)

    opened_on: Sequence[Target] | None = named

    async def pick(asker: Asker) -> list[Found]:
        return [_found(item, named) for item in await list_runs(asker)]

    async def pick_there(place: Place, asker: Asker) -> list[Found]:
        session = await open_on(place.selector, read_only=True, asker=asker, attended=False)
        try:
            runs = listed(await session.request("runs"))
        finally:
            await session.close()
        return [_found(item, (place.selector,)) for item in runs]

    async def attach(found: Found, asker: Asker) -> AnySession | ReplaySession:
        nonlocal opened_on
        which, opened_on = found.selector
        if not found.alive:
            return await open_recording(which["run"], asker, opened_on)
        return await opener(which, opened_on)(asker)

    def begun(where: Sequence[Target] | None) -> None:
        nonlocal opened_on
        opened_on = where

    left = show(
        None,
        pick=pick,
        beginnings=offering(named, begun),
        there=None if here else ", ".join(where.label for where in named),
        places=places if here else None,
        pick_there=pick_there,
        attach=attach,
        on_verdict=on_verdict,
        read_only=read_only,
    )
    if opened_on is not None:
        say_how_to_return(left.session, opened_on)


def places() -> list[Place]:
    """Machines where the person has been, newest first, then those of their SSH configuration."""
    now = time.time()
    been = [Place(one.target.label, one.target, f"{duration(now - one.at)} ago") for one in recent.load()]
    known = {place.selector for place in been}
    listed = [ssh(host) for host in listed_hosts()]
    return been + [Place(host.label, host, "SSH configuration") for host in listed if host not in known]


def _found(item: dict[str, Any], where: Sequence[Target]) -> Found:
    """A row of the agent's list of runs, with what :func:`opener` takes."""
    return Found(
        label=item["name"] or item["id"] or f"pid {item['pid']}",
        selector=(_selector(item), where),
        model=item["model"],
        tp=item["tp"],
        port=item["port"],
        phase=f"on {item['host']}" if item["state"] == "elsewhere" else item["verdict"],
        alive=item["state"] == "running",
        launched=item["launched"],
        pid=item["pid"],
        age_s=None if item["started"] is None else time.time() - item["started"],
        target=item.get("target"),
        notes=("simulated",) if item["simulated"] else (),
    )


def _selector(item: dict[str, Any]) -> dict[str, Any]:
    """An id and a pid are of one machine. On several, it is the name or the port that means the run on each."""
    if "target" in item:
        wide = {"run": item["name"], "port": item["port"]}
        return next(({key: value} for key, value in wide.items() if value is not None), {})
    return {"run": item["id"]} if item["id"] else {"pid": item["pid"]}
