"""What the verbs make of several targets: which are meant, whether there is a choice, and how to come back."""

from __future__ import annotations

from dataclasses import replace

import click
import pytest
from click.testing import CliRunner

from launchmon.cli import launch
from launchmon.cli.attach import _found, _several
from launchmon.cli.common import chosen, named_targets, say_how_to_return, selectors, targets
from launchmon.cluster.launching import shared_name
from launchmon.connect.target import LOCAL, Target, options_of, ssh, via
from launchmon.text import kill_plan_text, runs_text
from launchmon.victim import Victim
from launchmon_agent.errors import Refused
from launchmon_agent.judge.cluster import Node
from tests.support import fake_session as fake

JOB = Target("slurm", "42")


def named(*words: str) -> tuple[Target, ...]:
    found: list[tuple[Target, ...]] = []

    @click.command()
    @targets
    def verb() -> None:
        found.append(named_targets())

    done = CliRunner().invoke(verb, list(words))
    if isinstance(done.exception, Refused):
        raise done.exception
    assert done.exit_code == 0, done.output
    return found[0]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ((), (LOCAL,)),
        (("--on", "a", "--via", "docker exec -i b"), (ssh("a"), via("docker exec -i b"))),
        (("--slurm", "42"), (JOB,)),
        (("--slurm", "42", "--on", "login"), (Target("slurm", "42", login=ssh("login")),)),
        (("--via", "ssh login", "--slurm", "42"), (Target("slurm", "42", login=via("ssh login")),)),
    ],
)
def test_the_targets_that_are_meant(words: tuple[str, ...], meant: tuple[Target, ...]) -> None:
    found = named(*words)
    assert found == meant
    assert named(*options_of(found)) == meant


@pytest.mark.parametrize(
    ("words", "meant", "run"),
    [
        ((), (LOCAL,), None),
        (("mine",), (LOCAL,), "mine"),
        (("root@gpu7",), (ssh("root@gpu7"),), None),
        (("root@gpu7", "mine"), (ssh("root@gpu7"),), "mine"),
        (("mine", "root@gpu7:22", "--on", "gpu8"), (ssh("gpu8"), ssh("root@gpu7:22")), "mine"),
        (("./a@b/events.jsonl",), (LOCAL,), "./a@b/events.jsonl"),
    ],
)
def test_a_host_with_a_user_is_a_target_and_no_run(
    words: tuple[str, ...], meant: tuple[Target, ...], run: str | None
) -> None:
    found: list[object] = []

    @click.command()
    @selectors
    def verb(**which: object) -> None:
        found.extend((set(named_targets()), chosen(**which).get("run")))  # type: ignore[arg-type]

    done = CliRunner().invoke(verb, list(words))
    assert done.exit_code == 0, done.output
    assert found == [set(meant), run]


def test_several_runs_are_too_many() -> None:
    verb = click.command()(selectors(lambda **_: None))
    done = CliRunner().invoke(verb, ["a", "b"])
    assert done.exit_code == 2 and "one run at a time: a b" in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("",), "the id or name of a run is empty"),
        (("--port", "99999"), "not in the range"),
        (("--port", "0"), "not in the range"),
    ],
)
def test_what_no_run_can_be_chosen_by(words: tuple[str, ...], said: str) -> None:
    verb = click.command()(selectors(lambda **_: None))
    done = CliRunner().invoke(verb, list(words))
    assert done.exit_code == 2 and said in done.output


def test_a_name_by_which_a_run_could_not_be_found_again() -> None:
    done = CliRunner().invoke(launch.command, ["--name", "a@b", "--", "x"])
    assert done.exit_code == 2 and "has an @" in done.output
    assert "@" not in shared_name(("sglang", "serve", "--model-path", "/models/kimi@main"), 0.0)


def test_a_prefix_that_cannot_be_split_says_how_one_looks() -> None:
    with pytest.raises(Refused, match="cannot be split into words") as refused:
        named("--via", "docker exec 'x")
    assert refused.value.try_ == "launchmon attach --via 'docker exec -i NAME'"


def test_a_job_has_one_login_node() -> None:
    with pytest.raises(Refused, match="--slurm finds the nodes by itself"):
        named("--slurm", "42", "--on", "a", "--on", "b")


def item(**fields: object) -> dict[str, object]:
    plain = dict.fromkeys(("name", "id", "model", "tp", "port", "verdict", "started", "host", "pid"))
    return {**plain, "state": "running", "launched": True, "simulated": False, "dp": 1, "pp": 1, "tp": 8, **fields}


def test_one_server_on_each_of_several_machines_is_no_choice() -> None:
    assert not _several([item(target="a"), item(target="b")])
    assert _several([item(target="a"), item(target="a")])
    assert _several([item(), item()])
    assert not _several([item(), item(state="ended"), item(state="elsewhere")])


@pytest.mark.parametrize(
    ("fields", "selector"),
    [
        ({"id": "i", "name": "big"}, {"run": "i"}),
        ({"pid": 7}, {"pid": 7}),
        ({"id": "i", "name": "big", "target": "a"}, {"run": "big"}),
        ({"id": "i", "port": 30000, "target": "a"}, {"port": 30000}),
        ({"pid": 7, "target": "a"}, {}),
    ],
)
def test_a_run_of_the_list_is_meant_on_every_node(fields: dict[str, object], selector: dict[str, object]) -> None:
    assert _found(item(**fields), [LOCAL]).selector == (selector, [LOCAL])


@pytest.mark.parametrize(
    ("name", "nodes", "words"),
    [
        ("big", 2, "launchmon attach --on a --on b big"),
        (None, 2, "launchmon attach --on a --on b"),
        ("big", 0, "launchmon attach --on a --on b 20251129-180000-kimi"),
    ],
)
def test_how_to_come_back_names_all_targets(
    name: str | None, nodes: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    session = fake.seed()
    assert session.model.run is not None
    session.model.run = replace(session.model.run, name=name)
    session.nodes = tuple(Node(number, "ab"[number], None) for number in range(nodes))
    say_how_to_return(session, [ssh("a"), ssh("b")])
    assert capsys.readouterr().out.rstrip().endswith(words)


def test_a_launched_run_without_a_name_gets_one_for_all_nodes() -> None:
    command = ("python", "-m", "sglang.launch_server", "--model-path")
    assert shared_name((*command, "/models/Kimi-K2.5/"), 0.0).startswith("Kimi-K2.5-")
    assert shared_name(command[:3], 0.0).startswith("run-")
    assert shared_name(command[:3], 0.0) != shared_name(command[:3], 1.0)


def test_runs_are_grouped_by_target_and_told_where_they_are() -> None:
    text = runs_text([item(id="one", target="a"), item(id="two", target="b", state="elsewhere", host="gpu9")])
    assert [line.split()[0] for line in text.splitlines() if line] == ["a:", "ID", "one", "b:", "ID", "two"]
    assert "on gpu9" in text


def test_a_plan_of_several_nodes_has_their_numbers() -> None:
    plan = [Victim(7, "launcher", None, "python", 0), Victim(8, "scheduler", "TP1", None, 1)]
    assert [line.split() for line in kill_plan_text(plan).splitlines()[1:]] == [
        ["NODE", "PID", "ROLE", "TITLE"],
        ["0", "7", "launcher", "python"],
        ["1", "8", "TP1"],
    ]
