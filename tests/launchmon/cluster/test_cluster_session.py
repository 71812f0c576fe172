"""A session with several nodes: what is there, what is not, what is done on each and said where it is not."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from launchmon.cluster.session import ClusterSession
from launchmon.connect.target import ssh, via
from launchmon.session import Session
from launchmon_agent.errors import Refused
from tests.support.client import eventually
from tests.support.fake_nodes import ADDRESS, FakeNode, opened, openers, played
from tests.support.fake_pipe import FakePipe, Pipes, hello
from tests.support.story import Story

SILENT = Refused("gpu1 does not answer", "it is switched off")


async def followed(*nodes: FakeNode | Refused) -> ClusterSession:
    session = await opened(*nodes)
    await session.attach()
    return session


def rows(session: ClusterSession) -> list[tuple[str | None, int | None, bool]]:
    return [(row.rank, row.node, bool(row.pid)) for row in session.model.rank_rows()]


BOTH = [("TP0", 0, True), ("TP1", 0, True), ("TP2", 1, True), ("TP3", 1, True)]
FIRST = [("TP0", 0, True), ("TP1", 0, True), ("TP2", None, False), ("TP3", None, False)]


# ------------------------------------------------------------------------------------------------------------- opening


async def test_ranks_of_both_nodes_are_in_one_model() -> None:
    session = await followed(FakeNode(played(0)), FakeNode(played(1)))
    assert rows(session) == BOTH
    assert session.target == "gpu0 + gpu1"
    assert [(node.number, node.label, node.link, node.hostname) for node in session.nodes] == [
        (0, "gpu0", "live", "gpu7"),
        (1, "gpu1", "live", "gpu7"),
    ]
    await session.close()


async def test_the_order_of_the_targets_does_not_matter() -> None:
    session = await followed(FakeNode(played(1)), FakeNode(played(0)))
    assert [(node.number, node.label) for node in session.nodes] == [(0, "gpu1"), (1, "gpu0")]
    assert session.model.labels == ("gpu1", "gpu0")
    assert rows(session) == BOTH
    await session.close()


async def test_a_node_that_cannot_be_reached_is_named_and_the_other_shown() -> None:
    session = await followed(FakeNode(played(0)), SILENT)
    assert rows(session) == FIRST
    assert session.link.state == "live" and "gpu1" in session.link.message
    assert session.nodes[1].link == "none"
    verdict = session.model.verdict
    assert verdict is not None and "node 1 (gpu1): gpu1 does not answer (it is switched off)" in verdict.unknown
    await session.close()


async def test_no_node_that_can_be_reached_is_the_first_refusal() -> None:
    with pytest.raises(Refused, match="gpu0 is asleep"):
        await opened(Refused("gpu0 is asleep"), SILENT)


async def test_sessions_are_closed_when_another_target_fails_in_an_unforeseen_way() -> None:
    node = FakeNode(played(0))
    (reached,) = openers([node])

    async def broken() -> Session:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ClusterSession.open([reached, ("gpu1", broken)])
    assert node.closed


# ----------------------------------------------------------------------------------------------------------- attaching


async def test_a_run_on_no_node_is_refused() -> None:
    session = await opened(FakeNode(), FakeNode())
    with pytest.raises(Refused, match="no SGLang server is on this machine"):
        await session.attach()
    await session.close()


async def test_a_node_without_a_server_is_absent() -> None:
    alone = Story(tp=4, nnodes=2, node_rank=0, address=ADDRESS).up_to("dist-init").quiet(17).play(60)
    session = await followed(FakeNode(alone), FakeNode())
    assert session.nodes[1].absent
    assert session.model.verdict is not None and session.model.verdict.blames == ("node 1",)
    await session.close()


async def test_a_node_that_starts_later_is_taken_in() -> None:
    late = FakeNode()
    session = await followed(FakeNode(played(0)), late)
    await session.look_again()
    assert rows(session) == FIRST
    late.story = played(1)
    await session.look_again()
    assert rows(session) == BOTH
    assert not session.nodes[1].absent and session.nodes[1].problem is None
    await session.close()


async def test_the_first_node_may_be_the_late_one() -> None:
    late = FakeNode()
    session = await followed(late, FakeNode(played(1)))
    assert [(node.number, node.label) for node in session.nodes] == [(0, "gpu0"), (1, "gpu1")]
    late.story = played(0)
    await session.look_again()
    assert rows(session) == BOTH
    await session.close()


async def test_numbers_of_nodes_without_a_run_give_way() -> None:
    late = [FakeNode(), FakeNode()]
    session = await followed(FakeNode(played(0, of=3, tp=6)), *late)
    late[0].story = played(2, of=3, tp=6)
    await session.look_again()
    assert [(node.number, node.label) for node in session.nodes] == [(0, "gpu0"), (1, "gpu2"), (2, "gpu1")]
    await session.close()


async def test_servers_with_one_node_rank_are_no_nodes_of_one_run() -> None:
    session = await opened(FakeNode(played(0)), FakeNode(played(0)))
    with pytest.raises(Refused, match="gpu0 and gpu1 are not nodes of one run"):
        await session.attach()
    await session.close()


async def test_another_server_that_starts_later_changes_nothing() -> None:
    late = FakeNode()
    session = await followed(FakeNode(played(0)), late)
    late.story = played(0, phase="weights")
    await session.look_again()
    assert rows(session) == FIRST
    assert session.nodes[1].problem is not None and "another run" in session.nodes[1].problem
    await session.look_again()
    assert len(late.done("attach")) == 2  # with the first one that was refused: it is not asked for any more
    await session.close()


async def test_clocks_are_measured_and_corrected() -> None:
    ahead = FakeNode(played(1), clock_s=3600)
    session = await opened(FakeNode(played(0)), ahead)
    await session.attach()
    offsets = [node.offset_s for node in session.nodes]
    assert offsets == [pytest.approx(0, abs=30), pytest.approx(-3600, abs=30)]
    assert any("the clock of gpu1" in notice.text for notice in session.model.notices)
    await session.close()


# ----------------------------------------------------------------------------------------------------------- launching


ON = [ssh("gpu0"), via("docker exec -i sgl")]


async def test_each_node_is_launched_with_its_own_plan() -> None:
    nodes = [FakeNode(played(0)), FakeNode(played(1))]
    session = await opened(*nodes)
    run = await session.launch([{"argv": ["a", "0"]}, {"argv": ["a", "1"]}], ON)
    assert run.nnodes == 2
    assert [node.done("launch")[0]["argv"] for node in nodes] == [["a", "0"], ["a", "1"]]
    await session.close()


async def test_nothing_is_launched_unless_all_are_reached() -> None:
    node = FakeNode(played(0))
    session = await opened(node, SILENT)
    with pytest.raises(Refused, match="gpu1 cannot be reached"):
        await session.launch([{}, {}], ON)
    assert not node.done("launch")
    await session.close()


async def test_a_launch_that_fails_on_one_node_says_how_to_end_the_other() -> None:
    session = await opened(FakeNode(played(0), launch="no such model"), FakeNode(played(1)))
    with pytest.raises(Refused, match="gpu0: no such model") as refused:
        await session.launch([{"name": "the big one"}, {"name": "the big one"}], ON)
    assert refused.value.cause == "the cause; started nevertheless on gpu1"
    assert refused.value.try_ == "launchmon kill --via 'docker exec -i sgl' 'the big one'"
    await session.close()


async def test_a_launch_that_fails_everywhere_is_the_first_refusal() -> None:
    session = await opened(FakeNode(launch="no such model"), FakeNode(launch="no such model"))
    with pytest.raises(Refused, match=r"^no such model$"):
        await session.launch([{}, {}], ON)
    await session.close()


# -------------------------------------------------------------------------------------------------------------- acting


async def test_a_dump_is_of_all_nodes() -> None:
    session = await followed(FakeNode(played(0)), FakeNode(played(1)))
    dump = await session.dump()
    assert [(stack.rank, stack.node) for stack in dump.stacks] == [("TP0", 0), ("TP1", 0), ("TP2", 1), ("TP3", 1)]
    assert [len(one.stacks) for one in session.model.stacks] == [4]
    await session.close()


async def test_a_node_without_a_dump_is_in_it_with_the_reason() -> None:
    session = await followed(FakeNode(played(0)), FakeNode(played(1), dump="ptrace is refused"))
    dump = await session.dump()
    problems = {stack.rank: (stack.node, stack.problem, stack.cure) for stack in dump.stacks}
    assert problems == {
        "TP0": (0, None, None),
        "TP1": (0, None, None),
        "TP2": (1, "ptrace is refused", "the cure"),
        "TP3": (1, "ptrace is refused", "the cure"),
    }
    await session.close()


async def test_a_dump_that_all_nodes_refuse_is_refused() -> None:
    session = await followed(FakeNode(played(0), dump="ptrace is refused"), FakeNode(played(1), dump="no"))
    with pytest.raises(Refused, match=r"node 0 \(gpu0\): ptrace is refused"):
        await session.dump()
    await session.close()


async def test_what_a_kill_would_end_is_told_with_its_node() -> None:
    session = await followed(FakeNode(played(0)), FakeNode(played(1)))
    plan = await session.kill_plan()
    assert [(one.node, one.rank or one.role) for one in plan] == [
        (0, "launcher"),
        (0, "TP0"),
        (0, "TP1"),
        (1, "launcher"),
        (1, "TP2"),
        (1, "TP3"),
    ]
    await session.close()


async def test_a_kill_is_of_all_nodes_at_once() -> None:
    nodes = [FakeNode(played(0)), FakeNode(played(1))]
    session = await followed(*nodes)
    result = await session.kill(force=True)
    assert [node.done("kill")[0]["force"] for node in nodes] == [True, True]
    assert len(result["killed"]) == 2 and result["notes"] == ["node 0: port free", "node 1: port free"]
    await session.close()


async def test_a_kill_that_one_node_refuses_says_where_it_was_done() -> None:
    session = await followed(FakeNode(played(0)), FakeNode(played(1), kill="it is another user's"))
    with pytest.raises(Refused, match=r"node 1 \(gpu1\): it is another user's") as refused:
        await session.kill()
    assert refused.value.cause == "the cause; done on node 0"
    await session.close()


async def test_what_may_live_on_a_node_that_is_not_reached_is_left_over() -> None:
    session = await followed(FakeNode(played(0)), SILENT)
    result = await session.kill()
    assert result["leftovers"] == ["whatever runs on node 1 (gpu1): gpu1 does not answer (it is switched off)"]
    await session.close()


async def test_nothing_is_left_over_on_a_node_without_a_server() -> None:
    session = await followed(FakeNode(played(0)), FakeNode())
    assert (await session.kill())["leftovers"] == []
    await session.close()


async def test_a_read_only_session_kills_and_relaunches_nothing() -> None:
    nodes = [FakeNode(played(0)), FakeNode(played(1))]
    session = await opened(*nodes, read_only=True)
    await session.attach()
    for act in (session.kill(), session.relaunch(add=["--x"])):
        with pytest.raises(Refused, match="read-only"):
            await act
    assert len(await session.kill_plan()) == 6
    assert not any(node.done("kill") or node.done("relaunch") for node in nodes)
    await session.close()


async def test_a_relaunch_is_of_all_nodes_and_a_new_model_follows_it() -> None:
    nodes = [FakeNode(played(0)), FakeNode(played(1))]
    session = await followed(*nodes)
    run = await session.relaunch(add=["--disable-cuda-graph"])
    assert [node.done("relaunch")[0]["add"] for node in nodes] == [["--disable-cuda-graph"]] * 2
    assert (run.id, run.attempt) == ("again", 2)
    assert session.model.processes is None
    await session.close()


async def test_a_relaunch_that_one_node_refuses_says_where_it_was_done() -> None:
    session = await followed(FakeNode(played(0)), FakeNode(played(1), relaunch="there is no such flag"))
    with pytest.raises(Refused, match=r"node 1 \(gpu1\): there is no such flag") as refused:
        await session.relaunch(add=["--x"])
    assert "done on node 0" in refused.value.cause
    await session.close()


@pytest.mark.parametrize("ask", ["relaunch", "relaunch_plan"])
async def test_going_back_to_an_attempt_is_refused(ask: str) -> None:
    session = await followed(FakeNode(played(0)), FakeNode(played(1)))
    with pytest.raises(Refused, match="going back"):
        await getattr(session, ask)(back_to="an-attempt")
    await session.close()


async def test_a_recording_is_of_one_node() -> None:
    session = await followed(FakeNode(played(0)), FakeNode(played(1)))
    with pytest.raises(Refused, match="a recording is of one node"):
        await session.recording()
    await session.close()


# ------------------------------------------------------------------------------------------------------------- the log


async def test_the_logs_are_shown_one_after_the_other() -> None:
    session = await followed(FakeNode(played(0)), FakeNode(played(1)))
    shown = []
    for _ in range(3):
        assert session.model.log is not None
        (line,) = (await session.window("end", 1, 0)).lines
        shown.append((session.shown_log, session.model.log.node, line.text))
        session.show_next_log()
    assert shown == [
        ((0, "gpu0"), 0, "the log of node 0"),
        ((1, "gpu1"), 1, "the log of node 1"),
        ((0, "gpu0"), 0, "the log of node 0"),
    ]
    await session.close()


# ------------------------------------------------------------------------------------------------------------ the link


async def test_a_link_that_is_lost_and_comes_back() -> None:
    gone = FakeNode(played(1))
    pipes = Pipes(gone)
    (first,) = openers([FakeNode(played(0))])

    async def second() -> Session:
        return await Session.open(pipes)

    session = await ClusterSession.open([first, ("gpu1", second)])
    await session.attach()
    gone.drop()
    await eventually(lambda: session.nodes[1].link == "lost")
    assert session.link.state == "live"
    assert session.nodes[1].problem is not None and session.nodes[1].problem.startswith("the link is lost")
    assert rows(session) == BOTH  # as they were last

    back = FakeNode(played(1, seconds=50))
    pipes.prepare(back)
    session.try_now()
    await eventually(lambda: session.nodes[1].link == "live")
    assert back.done("resume") and session.nodes[1].problem is None
    assert rows(session) == BOTH
    await session.close()


async def test_who_waits_for_a_link_goes_on_when_any_node_is_back() -> None:
    nodes = [FakeNode(played(0)), FakeNode(played(1))]
    pipes = [Pipes(node) for node in nodes]
    session = await ClusterSession.open([(f"gpu{n}", partial(Session.open, one)) for n, one in enumerate(pipes)])
    await session.attach()
    for node in nodes:
        node.drop()
    await eventually(lambda: session.link.state == "lost")
    waiting = asyncio.create_task(session.back())
    pipes[1].prepare(FakeNode(played(1, seconds=50)))
    session.try_now()
    await eventually(waiting.done)
    await waiting
    assert [node.link for node in session.nodes] == ["lost", "live"]
    await session.close()


async def test_an_agent_that_is_not_one_is_a_refusal_of_that_node() -> None:
    mute = FakePipe(hello(protocol=99))
    (first,) = openers([FakeNode(played(0))])

    async def second() -> Session:
        return await Session.open(Pipes(mute))

    session = await ClusterSession.open([first, ("gpu1", second)])
    await session.attach()
    assert session.nodes[1].link == "none"
    await session.close()
