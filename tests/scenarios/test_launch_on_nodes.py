"""The verbs on a run of two nodes, each a host of its own in namespaces; the directory of runs is shared by both."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.scenarios.test_cli import launchmon
from tests.support.fake_servers import FAKES
from tests.support.hosts import Host, Hosts, needs_hosts
from tests.support.waiting import until

pytestmark = [needs_hosts, pytest.mark.timeout(300)]

PORT = 30000


@pytest.fixture
def hosts() -> Iterator[Sequence[Host]]:
    with Hosts(2) as made:
        yield made


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


def on(hosts: Sequence[Host]) -> list[str]:
    return [word for host in hosts for word in ("--via", host.prefix)]


def launched(hosts: Sequence[Host], *words: str) -> Any:
    address = f"{hosts[0].address}:20000"
    server = [sys.executable, "-m", "sglang.launch_server", "--model-path", "org/tiny", "--tp", "4"]
    server += ["--port", str(PORT), "--dist-init-addr", address]
    return launchmon("launch", *on(hosts), *words, "--env", f"PYTHONPATH={FAKES}", "--detach", "--", *server)


def diagnosed(hosts: Sequence[Host], name: str) -> dict[str, Any]:
    done = launchmon("diagnose", name, *on(hosts), "--for", "2", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def servers(host: Host) -> str:
    return host.check("sh", "-c", "ps -ww -eo args | grep -e '[s]glang.launch_server' -e '[s]glang::' || true")


def test_a_run_of_two_nodes_from_its_launch_to_its_end(hosts: Sequence[Host]) -> None:
    done = launched(hosts)
    assert done.returncode == 0, done.stderr
    name = done.stdout.strip()
    assert name.startswith("tiny-")
    for number, host in enumerate(hosts):
        until(lambda host=host: "sglang::scheduler" in servers(host))  # type: ignore[misc]
        assert f"--nnodes 2 --node-rank {number}" in servers(host)

    found = diagnosed(hosts, name)
    assert [(row["rank"], row["node"], row["alive"]) for row in found["ranks"]] == [
        ("TP0", 0, True),
        ("TP1", 0, True),
        ("TP2", 1, True),
        ("TP3", 1, True),
    ]
    told = [(one["node"], one["name"], one["hostname"], one["link"]) for one in found["targets"]]
    assert told == [(0, "node0", "node0", "live"), (1, "node1", "node1", "live")]
    assert found["target"]["name"] == "node0"

    rows = json.loads(launchmon("runs", *on(hosts), "--json").stdout)
    states = sorted((row["target"], row["state"], row["host"]) for row in rows)
    assert len({row["id"] for row in rows}) == 2 and {row["name"] for row in rows} == {name}
    assert [(state, host) for _, state, host in states] == [
        ("elsewhere", "node1"),
        ("running", None),
        ("elsewhere", "node0"),
        ("running", None),
    ]

    dump = json.loads(launchmon("dump", name, *on(hosts), "--json").stdout)
    assert {(stack["rank"], stack.get("node")) for stack in dump["stacks"] if "rank" in stack} == {
        ("TP0", 0),
        ("TP1", 0),
        ("TP2", 1),
        ("TP3", 1),
    }

    waited = launchmon("wait", name, *on(hosts), "--timeout", "1", "--json")
    assert waited.returncode in (0, 5), waited.stderr
    assert len(json.loads(waited.stdout)["targets"]) == 2

    planned = launchmon("relaunch", name, *on(hosts), "--set", "NCCL_DEBUG=INFO", "--dry-run")
    assert planned.returncode == 0 and "NCCL_DEBUG=INFO" in planned.stdout, planned.stderr

    for verb in (("replay", name, "--json"), ("report", name, "-o", "-")):
        refused = launchmon(*verb, *on(hosts))
        assert refused.returncode == 1 and "a recording is of one node" in refused.stderr

    killed = launchmon("kill", name, *on(hosts), "--yes", "--json", "--force")
    assert killed.returncode == 0, killed.stderr
    assert not any(servers(host) for host in hosts)


def test_a_relaunch_is_of_both_nodes(hosts: Sequence[Host]) -> None:
    name = launched(hosts, "--name", "again").stdout.strip()
    assert name == "again"
    try:
        done = launchmon("relaunch", name, *on(hosts), "--set", "NCCL_DEBUG=INFO", "--force", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["attempt"] == 2
        for number, host in enumerate(hosts):
            assert f"--node-rank {number}" in servers(host)
    finally:
        launchmon("kill", name, *on(hosts), "--yes", "--force")


def test_a_launch_that_fails_on_one_node_says_what_to_do(hosts: Sequence[Host]) -> None:
    with hosts[1].run(sys.executable, "-m", "http.server", str(PORT), "--bind", "127.0.0.1") as other:
        until(lambda: str(PORT) in hosts[1].check("ss", "-Htln"))
        done = launched(hosts, "--name", "half")
        other.kill()
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0].startswith("launchmon: node1: ") and str(PORT) in lines[0]
    assert lines[1].endswith("started nevertheless on node0")
    try_ = lines[2].removeprefix("  try: ")
    assert try_ == shlex.join(["launchmon", "kill", "--via", hosts[0].prefix, "half"])
    until(lambda: servers(hosts[0]) != "")
    ended = launchmon(*shlex.split(try_)[1:], "--yes", "--force")
    assert ended.returncode == 0, ended.stderr
    assert not servers(hosts[0])
