"""Every row of scenarios.toml can be played, and a row that cannot is refused with its name."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from launchmon.demo.gpus import DIRECTORY_PREFIX, VARIABLE
from launchmon.demo.scenarios import (
    FAILURES,
    PATH,
    PHASES,
    InvalidScenario,
    Scenario,
    demo_command,
    free_port,
    parse,
    scenario,
    scenarios,
)

ROWS = pytest.mark.parametrize("row", scenarios(), ids=lambda row: row.name)
TEXT = PATH.read_text(encoding="utf-8")


def test_the_promised_scenarios_are_there() -> None:
    assert [row.name for row in scenarios()] == ["healthy", "seed"]


@ROWS
def test_row_is_told_in_words(row: Scenario) -> None:
    assert row.title and row.title == row.title.strip()
    assert row.shows.endswith(".") and "\n" not in row.shows


@ROWS
def test_row_says_that_it_is_a_demo(row: Scenario) -> None:
    assert row.model.path.startswith("demo/")


@ROWS
def test_row_gets_to_its_point_within_half_a_minute(row: Scenario) -> None:
    assert set(row.seconds) == set(PHASES)
    stretch = (row.slow.factor if row.slow else 1.0) * row.seconds["weights"] - row.seconds["weights"]
    assert 15 <= sum(row.seconds.values()) + stretch <= 35


@ROWS
def test_row_keeps_its_gpu_within_its_limits(row: Scenario) -> None:
    used = row.gpu.context_gb + row.model.rank_weights_gb(row.tp) + row.kv_gb
    assert 0.6 * row.gpu.memory_gb < used < 0.97 * row.gpu.memory_gb
    assert row.gpu.idle_w < row.gpu.power_limit_w / 2
    assert row.gpu.idle_c < row.gpu.hot_c < 90


@ROWS
def test_failure_is_one_the_engine_can_do(row: Scenario) -> None:
    if row.failure is not None:
        assert row.failure.phase in FAILURES[row.failure.kind]
        assert row.failure.unless, "there must be a way out to show"


def test_seed_fails_unless_graphs_are_off() -> None:
    seed = scenario("seed")
    assert seed.failure_under(frozenset({"--tp", "--port"}), tp=8) is seed.failure
    assert seed.failure_under(frozenset({"--disable-cuda-graph"}), tp=8) is None


def test_one_rank_has_nobody_to_wait_for() -> None:
    assert scenario("seed").failure_under(frozenset(), tp=1) is None


def test_healthy_never_fails() -> None:
    assert scenario("healthy").failure_under(frozenset(), tp=8) is None


def test_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match="healthy, seed"):
        scenario("nonsense")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('name = "seed"', 'name = "healthy"', "one name"),
        ('model = "kimi-k25"', 'model = "gpt"', "model is one of: kimi-k25"),
        ('gpu = "h200"', 'gpu = "h300"', "gpu is one of: rtx-pro-6000, h200"),
        ("tp = 8", "tp = 9", "tp is between"),
        ("tp = 8", 'tp = "8"', "tp is a int"),
        ("kv_gb = 44.0", "kv_gb = 88.0", "do not fit"),
        ("kv_gb = 44.0", "", "missing \\['kv_gb'\\]"),
        ("kv_gb = 44.0", "kv_gb = 44.0\nkv_mb = 1", "unknown \\['kv_mb'\\]"),
        ("start = 2.5", "start = -1", "0 or more"),
        ("start = 2.5", "begin = 2.5", "seconds names exactly"),
        ("rank = 5", "rank = 8", "slow is a rank below tp"),
        ('kind = "dead-lock"', 'kind = "fire"', "no failure 'fire'"),
        ('phase = "kv-pool"', 'phase = "graphs"', "in phase 'graphs'"),
        ('["--disable-cuda-graph"', '["disable-cuda-graph"', "list of --flags"),
        ("nvlink = true", "nvlink = 1", "nvlink is a bool"),
        ("[gpus.h200]", "[cards.h200]", "unknown tables: cards"),
        ("[gpus.h200]", "[gpus.h200", "not TOML"),
    ],
)
def test_bad_row_is_refused(old: str, new: str, complaint: str) -> None:
    assert old in TEXT
    with pytest.raises(InvalidScenario, match=complaint):
        parse(TEXT.replace(old, new))


def test_no_scenarios_at_all_is_refused() -> None:
    with pytest.raises(InvalidScenario, match="no scenarios"):
        parse("")


def test_command_names_model_ranks_port_and_scenario() -> None:
    argv, _ = demo_command("seed", 31000)
    assert argv[:3] == [sys.executable, "-m", "launchmon.demo.launch_server"]
    given = dict(zip(argv[3::2], argv[4::2], strict=True))
    assert given == {"--model-path": "demo/kimi-k2.5", "--tp": "8", "--port": "31000", "--scenario": "seed"}


def test_command_gives_each_call_its_own_gpus_and_makes_no_files() -> None:
    directories = [os.path.dirname(demo_command("healthy", 31000)[1][VARIABLE]) for _ in range(2)]
    assert directories[0] != directories[1]
    for directory in directories:
        assert os.path.basename(directory).startswith(DIRECTORY_PREFIX)
        assert not os.path.exists(directory)


def test_command_lets_a_checkout_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    _, changes = demo_command("healthy", 31000, python="/usr/bin/python3", speed=4)
    root, rest = changes["PYTHONPATH"].split(os.pathsep)
    assert os.path.isdir(os.path.join(root, "launchmon", "demo"))
    assert rest == "/somewhere"


def test_free_port_can_be_bound() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))
