"""Client, agent and keeper die at every step of what they do, and a server that notes all it is sent goes on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.sensors import proc
from tests.support import fake_servers
from tests.support.fault_rig import FaultRig
from tests.support.ports import free_port
from tests.support.raw_agent import RawAgent
from tests.support.waiting import until

ACTION = "0123456789abcdef" * 2

End = Callable[[RawAgent], None]


def client_killed(agent: RawAgent) -> None:
    agent.hang_up()
    agent.process.wait(60)


def agent_killed(agent: RawAgent) -> None:
    agent.kill()


LAUNCH_STEPS: dict[str, Callable[[FaultRig], object]] = {
    "asked": lambda _rig: True,
    "directory": lambda rig: os.path.isdir(rig.root) and os.listdir(rig.root),
    "server": lambda rig: rig.servers(),
    "written": lambda rig: [place for place in rig.runs() if rig.file(place).server],
}


@pytest.mark.parametrize("end", [client_killed, agent_killed])
@pytest.mark.parametrize("step", LAUNCH_STEPS)
def test_a_launch_whose_asker_dies_is_whole_or_never_began(rig: FaultRig, step: str, end: End) -> None:
    agent = rig.start_agent()
    agent.send("launch", **rig.plan(), action=ACTION)
    until(lambda: LAUNCH_STEPS[step](rig))
    end(agent)
    with rig.agent() as other:
        outcome = other.ask("outcome", action=ACTION)
        until(lambda: len(rig.servers()) == len([one for one in rig.runs() if rig.file(one).server]))
    if outcome["state"] == "done":
        assert outcome["value"]["id"] == rig.runs()[0].id
    else:
        assert outcome["state"] in ("unknown", "not done")
        assert end is agent_killed or not rig.runs()
    for place in rig.runs():
        rig.until_it_writes(place)
        rig.assert_unharmed(place)
        rig.assert_kept(place)


@pytest.mark.parametrize("step", ["look", "wait", "sweep"])
def test_a_kill_whose_asker_dies_is_carried_to_its_end(rig: FaultRig, step: str) -> None:
    agent = rig.start_agent()
    place = rig.launch(agent, "--tp", "2", "--patient", "1.5")
    server = rig.server(place)
    agent.send("kill", action=ACTION, force=step == "sweep")
    if step != "look":
        agent.wait_for_step(step)
    client_killed(agent)
    with rig.agent() as other:
        outcome = other.ask("outcome", action=ACTION)
        if step == "look" and outcome["state"] == "not done":  # asked before the agent had read of it, which stays so
            rig.assert_unharmed(place)
            return
        assert (outcome["state"], outcome["value"]["leftovers"]) == ("done", [])
        assert not [row for row in proc.table().values() if row.session == server.pid and not row.dead]
        other.ask("attach", run=place.id)
        verdict = other.wait_for(lambda one: one.get("kind") == "verdict" and one.get("verdict") == "stopped")
        assert verdict["confidence"] == "high"
    assert rig.witness.signals in ([], [f"{server.pid} SIGTERM"])
    rig.witness.assert_whole(rig.log(place))


RELAUNCH_STEPS = ["asked", "ending", "ended", "starting"]


@pytest.mark.parametrize("step", RELAUNCH_STEPS)
def test_a_relaunch_whose_asker_dies_ends_with_a_new_server(rig: FaultRig, step: str) -> None:
    agent = rig.start_agent()
    first = rig.launch(agent)
    agent.send("relaunch", action=ACTION, set={"MARK": "1"}, force=True)
    if step == "ending":
        agent.wait_for_step("sweep", "doing")
    elif step == "ended":
        agent.wait_for_step("done")
    elif step == "starting":
        agent.wait_for_step("start", "doing")
    client_killed(agent)
    with rig.agent() as other:
        outcome = other.ask("outcome", action=ACTION)
        if step == "asked" and outcome["state"] == "not done":  # as in the test of a kill
            rig.assert_unharmed(first)
            return
        assert outcome["state"] == "done"
        second = rig.runs()[0]
        assert outcome["value"]["id"] == second.id != first.id
    assert rig.file(second).parent == first.id
    assert rig.servers() == [rig.server(second).pid]
    rig.until_it_writes(second)
    rig.assert_unharmed(second)
    rig.witness.assert_whole(rig.log(first))


def test_a_relaunch_whose_agent_is_killed_is_unknown_and_can_be_asked_for_again(rig: FaultRig) -> None:
    agent = rig.start_agent()
    first = rig.launch(agent, "--patient", "1.5")
    agent.send("relaunch", action=ACTION)
    agent.wait_for_step("wait")
    agent_killed(agent)
    until(lambda: not rig.servers())  # the keeper was asked to end it, and does
    with rig.agent() as other:
        assert other.ask("outcome", action=ACTION) == {"state": "unknown"}
        other.ask("attach", run=first.id)
        until(lambda: not rig.servers())  # the kill may not be over yet: it still looks for what appears
        again = other.ask("relaunch", force=True)
        assert rig.servers() == [again["pid"]] and again["parent"] == first.id
    rig.witness.assert_whole(rig.log(first))


def test_a_keeper_that_is_killed_is_replaced_under_its_client(rig: FaultRig) -> None:
    with rig.agent() as agent:
        place = rig.launch(agent, "--tp", "2")
        old = rig.kill_keeper(place)
        notice = agent.wait_for(lambda one: one.get("kind") == "notice" and one["source"] == "keeper")
        assert notice["text"] == "the keeper was gone; another one has adopted the run"
        assert rig.keeper(place).pid != old.pid
        assert agent.ask("kill-plan")["launcher"] == rig.server(place).pid
        rig.assert_unharmed(place)
        rig.assert_kept(place)


@pytest.mark.parametrize("agents", [1, 3])
def test_keeper_and_agent_are_killed_and_those_who_come_next_share_one_keeper(rig: FaultRig, agents: int) -> None:
    agent = rig.start_agent()
    place = rig.launch(agent)
    agent_killed(agent)
    rig.kill_keeper(place)
    rig.assert_unharmed(place)
    others = [rig.start_agent() for _ in range(agents)]
    asked = [other.send("attach", run=place.id) for other in others]
    for other, number in zip(others, asked, strict=True):
        assert other.reply(number)["pid"] == rig.server(place).pid
    rig.assert_kept(place)
    rig.assert_unharmed(place)
    for other in others:
        client_killed(other)
    rig.assert_followed_to_the_end(place)


def test_a_keeper_that_is_killed_in_the_middle_of_a_kill_is_told_and_the_next_kill_ends_it(rig: FaultRig) -> None:
    with rig.agent() as agent:
        place = rig.launch(agent, "--patient", "600")
        asked = agent.send("kill")
        agent.wait_for_step("wait")
        rig.kill_keeper(place)
        with pytest.raises(Refused, match="keeper of this run ended before it answered"):
            agent.reply(asked)
        agent.wait_for(lambda one: one.get("kind") == "notice" and one["source"] == "keeper")
        assert rig.servers() == [rig.server(place).pid], "what was asked to end goes on, and is not lost"
        assert agent.ask("kill", force=True)["leftovers"] == []
    assert rig.servers() == []
    rig.witness.assert_whole(rig.log(place))


def test_a_client_that_is_killed_while_it_watches_changes_nothing(rig: FaultRig) -> None:
    agent = rig.start_agent()
    place = rig.launch(agent, "--tp", "2")
    agent.wait_for(lambda one: one.get("kind") == "verdict")
    client_killed(agent)
    rig.assert_unharmed(place)
    rig.assert_kept(place)
    rig.assert_followed_to_the_end(place)


def test_two_clients_kill_and_relaunch_at_once_and_one_server_is_left_at_most(rig: FaultRig) -> None:
    with rig.agent() as one, rig.agent() as two:
        place = rig.launch(one)
        two.ask("attach", run=place.id)
        asked = [(one, one.send("relaunch", force=True)), (two, two.send("kill", force=True))]
        refusals = []
        for agent, number in asked:
            try:
                agent.reply(number)
            except Refused as refused:
                refusals.append(refused.what)
        assert refusals in ([], ["this run is being killed already"])
        servers = [rig.server(found) for found in rig.runs()]
        running = [server.pid for server in servers if proc.alive(server.pid, server.start_time)]
        assert rig.servers() == running and len(running) <= 1
    rig.witness.assert_whole(rig.log(place))


def test_a_keeper_that_is_asked_to_end_leaves_the_server(rig: FaultRig) -> None:
    agent = rig.start_agent()
    place = rig.launch(agent)
    client_killed(agent)
    keeper = rig.keeper(place)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        os.kill(keeper.pid, number)
    rig.assert_kept(place)
    os.kill(keeper.pid, signal.SIGTERM)
    until(lambda: not rig.keepers())
    rig.assert_unharmed(place)
    rig.assert_followed_to_the_end(place)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_who_comes_while_a_keeper_is_ending_gets_another(rig: FaultRig, number: signal.Signals) -> None:
    agent = rig.start_agent()
    place = rig.launch(agent)
    client_killed(agent)
    old = rig.keeper(place)
    later = rig.start_agent()
    os.kill(old.pid, number)
    assert later.ask("attach", run=place.id)["pid"] == rig.server(place).pid
    until(lambda: not proc.alive(old.pid, old.start_time))
    until(lambda: rig.keeper(place) != old)
    rig.assert_kept(place)
    client_killed(later)
    rig.assert_followed_to_the_end(place)


@pytest.mark.parametrize("step", ["asked", "ended"])
def test_a_relaunch_of_a_run_of_somebody_else_is_carried_to_its_end_too(rig: FaultRig, step: str) -> None:
    """There is no keeper yet: the agent that watches it is all there is."""
    port = free_port()
    log = rig.home / "by-hand.log"
    with (
        log.open("wb") as output,
        fake_servers.session_of(*fake_servers.command(port=port), stdout=output, stderr=output) as server,
    ):
        threading.Thread(target=server.wait, daemon=True).start()
        until(lambda: b"ready to roll" in log.read_bytes())
        agent = rig.start_agent()
        agent.ask("attach", pid=server.pid)
        agent.wait_for(lambda one: one.get("kind") == "processes")
        agent.send("relaunch", action=ACTION, set={"MARK": "1"}, force=True)
        if step == "ended":
            agent.wait_for_step("done")
        client_killed(agent)
        with rig.agent() as other:
            outcome = other.ask("outcome", action=ACTION)
            if step == "asked" and outcome["state"] == "not done":
                assert server.poll() is None and not rig.runs()
                return
            assert outcome["state"] == "done", outcome
            second, first = rig.runs()
            assert (rig.file(second).parent, rig.file(first).launched) == (first.id, False)
            assert not proc.alive(server.pid, rig.server(first).start_time)
            assert proc.alive(rig.server(second).pid, rig.server(second).start_time)
            assert other.ask("kill", force=True)["leftovers"] == []
