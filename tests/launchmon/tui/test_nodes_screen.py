"""The main screen over several nodes: what is where, whose log is shown, what a kill ends on each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from launchmon.cluster.session import ClusterSession
from launchmon.config import Effective
from launchmon.connect import Asker
from launchmon.tui.app import LaunchmonApp
from launchmon.tui.screens.nodes import NodesScreen
from launchmon_agent.errors import Refused
from launchmon_agent.events import LogError
from tests.support import fake_session as fake
from tests.support.client import eventually
from tests.support.fake_nodes import ADDRESS, FakeNode, opened, played, settled
from tests.support.story import T0, Story
from tests.support.tui_rig import PLAIN, Rig, running

WIDE, NARROW = (120, 40), (80, 24)
ERROR = LogError(T0 + 30, rank="TP2", offset=100, id="oom", severity="fatal", text="CUDA out of memory")


@asynccontextmanager
async def shown(*nodes: FakeNode | Refused, size: tuple[int, int] = WIDE) -> AsyncIterator[Rig]:
    sessions = []

    async def open_session(_: Asker) -> ClusterSession:
        sessions.append(await opened(*nodes))
        await sessions[0].attach()
        await settled()
        sessions[0].age = lambda: 0.4  # type: ignore[method-assign]
        return sessions[0]

    app = LaunchmonApp(open_session, settings=Effective(PLAIN))
    async with app.run_test(size=size) as pilot:
        await eventually(lambda: isinstance(app.screen, NodesScreen))
        rig = Rig(app, pilot, sessions[0])  # type: ignore[arg-type]
        await rig.settle()
        rig.run.look()
        await rig.settle()
        yield rig


def of(count: int, tp: int | None = None) -> list[FakeNode]:
    return [FakeNode(played(number, of=count, tp=tp or 4 * count)) for number in range(count)]


def row(text: str, begins: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.strip().startswith(begins))


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["120x40", "80x24"])
@pytest.mark.parametrize("count", [2, 4])
async def test_ranks_and_gpus_bear_their_node(count: int, size: tuple[int, int]) -> None:
    async with shown(*of(count), size=size) as rig:
        assert isinstance(rig.run, NodesScreen)
        ranks = rig.text("ranks")
        assert ranks.split()[:2] == ["NODE", "RANK"]
        assert row(ranks, "0    TP3")[:3] == ["0", "TP3", "203"]
        assert row(ranks, "1    TP4")[:3] == ["1", "TP4", "200"]
        assert rig.text("header").split("·")[1].strip() == f"tp{4 * count}"  # not "node 1/2": all are shown
        gpus = rig.text("gpus")
        if size == WIDE:
            assert gpus.split()[:2] == ["NODE", "GPU"]
            assert [line.split()[:2] for line in gpus.splitlines()[1:9]] == [
                [str(number), str(index)] for number in (0, 1) for index in range(4)
            ]
        else:
            assert f"{4 * count} ×" in gpus


async def test_one_node_needs_no_column() -> None:
    async with running(fake.seed()) as rig:
        assert "NODE" not in rig.screen_text()
        assert "next node" not in rig.text("footer")
        await rig.press("c")
        assert rig.text("log-title").split()[:2] == ["▸LOG", "follow"]


async def test_a_key_shows_the_log_of_the_next_node() -> None:
    async with shown(*of(2)) as rig:
        assert "c next node" in rig.text("footer")
        for name, line in (("node 0 (gpu0)", "node 0"), ("node 1 (gpu1)", "node 1"), ("node 0 (gpu0)", "node 0")):
            assert f"LOG {name}" in rig.text("log-title")
            assert rig.log_text().split("\n")[0].strip() == f"the log of {line}"
            await rig.press("c")


async def test_errors_are_those_of_the_log_that_is_shown() -> None:
    nodes = of(2)
    async with shown(*nodes) as rig:
        nodes[1].tell(ERROR)
        await settled()
        rig.run.look()
        await rig.press("e")
        assert "no error in this log, but in that of node 1" in rig.text("log-title")
        await rig.press("exclamation_mark")
        assert "no error in this log, but in that of node 1" in rig.text("log-title")
        await rig.press("c")
        assert "✗ 1 error" in rig.text("log-title")
        await rig.press("e")
        assert "error 1 of 1" in rig.text("log-title")


async def test_a_rank_filter_goes_over_the_ranks_of_the_log() -> None:
    async with shown(*of(2)) as rig:
        await rig.press("0")
        assert "only TP0" in rig.text("log-title")
        await rig.press("c", "0")
        assert "only TP4" in rig.text("log-title")


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["120x40", "80x24"])
async def test_a_node_that_cannot_be_reached_is_in_the_first_line(size: tuple[int, int]) -> None:
    async with shown(of(2)[0], Refused("it is switched off"), size=size) as rig:
        assert "✗ node 1 lost" in rig.text("header") and "● live" in rig.text("header")
        assert "– not known: nothing is heard of node 1" in rig.text("ranks")


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["120x40", "80x24"])
async def test_what_has_ended_or_gives_no_values_stays_in_its_column(size: tuple[int, int]) -> None:
    story = Story(tp=4, nnodes=2, node_rank=1, address=ADDRESS).up_to("kv-pool").gpu(1, 32, error="lost")
    async with shown(of(2, tp=4)[0], FakeNode(story.dies(35, "TP3").play(40)), size=size) as rig:
        ranks = rig.text("ranks").splitlines()
        lines = [line for line in ranks if line.split()[1:2] in (["TP2"], ["TP3"])]
        assert len({line.index("TP") for line in lines}) == 1
        assert "1" in lines[1][:6] and "✗ ended by SIGKILL" in lines[1]
        if size == WIDE:
            gpus = rig.text("gpus").splitlines()
            assert gpus[4].startswith(gpus[3][: gpus[3].index("0", 6)] + "1  ✗ lost")


async def test_rows_of_a_node_whose_link_is_lost_are_marked() -> None:
    nodes = of(2)
    async with shown(*nodes) as rig:
        nodes[1].drop()
        await eventually(lambda: rig.session.nodes[1].link == "lost")
        rig.run.look()
        await rig.settle()
        assert "✗ node 1 lost" in rig.text("header")
        assert row(rig.text("ranks"), "✗ 1")[:4] == ["✗", "1", "TP4", "200"]
        assert row(rig.text("ranks"), "0    TP0")[:2] == ["0", "TP0"]


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["120x40", "80x24"])
@pytest.mark.parametrize("count", [2, 4])
async def test_a_kill_lists_what_ends_node_by_node(count: int, size: tuple[int, int]) -> None:
    nodes = of(count)
    async with shown(*nodes, size=size) as rig:
        await rig.press("k")
        text = rig.text("kill-lines")
        for number in range(count):
            assert f"node {number} (gpu{number}): 5 processes" in text
        assert text.count("launcher") >= count and "y stop" in text
        await rig.press("y")
        await eventually(lambda: all(node.done("kill") for node in nodes))
        await rig.settle()


async def test_help_and_palette_offer_the_key_only_where_there_are_nodes() -> None:
    async with shown(*of(2)) as rig:
        assert "next node" in [one.title for one in rig.app.get_system_commands(rig.run)]
    async with running(fake.seed()) as rig:
        assert "next node" not in [one.title for one in rig.app.get_system_commands(rig.run)]
