"""The simulated server takes SGLang's flags, and shows what it was given."""

from __future__ import annotations

import pytest

from launchmon.demo.options import SPEED_VARIABLE, parse


def test_defaults_come_from_the_scenario() -> None:
    options = parse([])
    assert (options.scenario.name, options.tp, options.model_path) == ("healthy", 8, "demo/kimi-k2.5")
    assert (options.host, options.port, options.speed) == ("127.0.0.1", 30000, 1.0)
    assert options.graphs
    assert options.failure is None


@pytest.mark.parametrize("flag", ["--tp", "--tp-size", "--tensor-parallel-size"])
def test_every_spelling_of_tp(flag: str) -> None:
    options = parse([flag, "4"])
    assert options.tp == options.server_args["tp_size"] == 4


def test_flags_of_sglang_are_shown_in_the_server_args() -> None:
    options = parse(["--mem-fraction-static", "0.7", "--attention-backend=triton", "--enable-metrics"])
    shown = options.server_args
    assert shown["mem_fraction_static"] == 0.7
    assert shown["attention_backend"] == "triton"
    assert shown["enable_metrics"] is True


@pytest.mark.parametrize("flag", ["--disable-cuda-graph", "--disable-decode-cuda-graph"])
def test_graphs_can_be_switched_off_and_that_cures_the_seed(flag: str) -> None:
    assert parse(["--scenario", "seed"]).failure is not None
    options = parse(["--scenario", "seed", flag])
    assert options.failure is None
    assert not options.graphs
    assert options.server_args[flag[2:].replace("-", "_")] is True


def test_speed_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SPEED_VARIABLE, "12")
    assert parse([]).speed == 12.0
    assert parse(["--speed", "3"]).speed == 3.0


@pytest.mark.parametrize(
    "argv",
    [["--tp", "0"], ["--tp", "9"], ["--tp", "two"], ["--port", "x"], ["--scenario", "no"], ["--speed", "0"]],
    ids=" ".join,
)
def test_a_wrong_value_is_a_usage_error(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(argv)
    assert stop.value.code == 2
    assert "error: " in capsys.readouterr().err
