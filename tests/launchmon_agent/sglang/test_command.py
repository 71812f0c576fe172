"""Reading a server's command line."""

from __future__ import annotations

import pytest

from launchmon_agent.sglang.command import Command, parse, value_of

SERVER = ("python", "-m", "sglang.launch_server")


def command(line: str) -> Command:
    return parse(line.split())


def test_full_names_with_and_without_equals() -> None:
    found = parse([*SERVER, "--model-path", "/m/kimi", "--tp-size=8", "--port", "31000", "--host=0.0.0.0"])
    assert (found.model, found.tp, found.port, found.host) == ("/m/kimi", 8, 31000, "0.0.0.0")


def test_defaults_are_those_of_sglang() -> None:
    found = parse(SERVER)
    assert (found.host, found.port, found.tp, found.pp, found.dp, found.nnodes) == ("127.0.0.1", 30000, 1, 1, 1, 1)
    assert not found.attention_dp
    assert found.model is None


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        ("--tp 8", "tp", 8),
        ("--tp-s=4", "tp", 4),
        ("--tensor-parallel-size 2", "tp", 2),
        ("--dp 2", "dp", 2),
        ("--data-parallel 2", "dp", 2),
        ("--pp 2", "pp", 2),
        ("--pipeline-parallel-size 2", "pp", 2),
        ("--ep 2", "ep", 2),
        ("--ep-size 2", "ep", 2),
        ("--expert-parallel-size 2", "ep", 2),
        ("--attn-cp-size 2", "attn_cp", 2),
        ("--attention-context-parallel-size 2", "attn_cp", 2),
        ("--moe-dp-size 2", "moe_dp", 2),
        ("--moe-data-parallel-size 2", "moe_dp", 2),
        ("--model /m", "model", "/m"),
        ("--model-p /m", "model", "/m"),
        ("--nnodes 2", "nnodes", 2),
        ("--node-rank 1", "node_rank", 1),
        ("--dist-init-addr 10.0.0.1:5000", "dist_init_addr", "10.0.0.1:5000"),
        ("--nccl-init-addr 10.0.0.1:5000", "dist_init_addr", "10.0.0.1:5000"),
        ("--enable-dp-attention --dp 4", "attention_dp", True),
        ("--attn-dp-size 4", "attention_dp", True),
        ("--attn-dp-size 4", "dp", 4),
        ("--por 1234", "port", 1234),
    ],
)
def test_abbreviations_and_other_names(flags: str, field: str, value: object) -> None:
    assert getattr(parse([*SERVER, *flags.split()]), field) == value


@pytest.mark.parametrize(
    "flags",
    [
        "--tokenizer-path /t",
        "--model-loader-extra-config {}",
        "--modelopt-quant fp8",
        "--pp-max-micro-batch-size 4",
        "--enable-dp-lm-head",
        "--eplb-algorithm auto",
        "--ep-num-redundant-experts 4",
        "--ep-dispatch-algorithm static",
        "--expert-distribution-recorder-mode stat",
        "--moe-dense-tp-size 1",
        "--dist-timeout 10",
        "--nccl-port 1234",
        "--attention-backend fa3",
        "--page-size 64",
    ],
)
def test_flags_with_a_similar_name_change_nothing(flags: str) -> None:
    found = parse([*SERVER, *flags.split()])
    plain = parse(SERVER)
    assert found.flags == tuple(flags.split())
    assert (found.model, found.tp, found.pp, found.dp, found.port, found.attention_dp, found.dist_init_addr) == (
        plain.model,
        plain.tp,
        plain.pp,
        plain.dp,
        plain.port,
        plain.attention_dp,
        plain.dist_init_addr,
    )


def test_the_last_of_repeated_flags_holds() -> None:
    assert parse([*SERVER, "--tp", "2", "--tp-size", "4"]).tp == 4


@pytest.mark.parametrize("value", ["many", "0", "-3", ""])
def test_a_value_without_sense_leaves_the_default(value: str) -> None:
    assert parse([*SERVER, "--tp", value]).tp == 1


def test_a_flag_at_the_end_without_its_value_is_harmless() -> None:
    assert parse([*SERVER, "--port"]).port == 30000


@pytest.mark.parametrize(
    ("line", "model"),
    [
        ("sglang serve org/model --tp 2", "org/model"),
        ("sglang serve --model-path org/model", "org/model"),
        ("/venv/bin/python3.11 /venv/bin/sglang serve org/model", "org/model"),
        ("sglang serve --tp 2", None),
    ],
)
def test_sglang_serve(line: str, model: str | None) -> None:
    found = command(line)
    assert found.entry == "serve"
    assert found.model == model
    assert found.is_server_process


@pytest.mark.parametrize(
    ("line", "wrapper"),
    [
        ("python -m sglang.launch_server", ()),
        ("/venv/bin/python3.12 -u -X dev -m sglang.launch_server", ()),
        ("python /src/sglang/launch_server.py --tp 2", ()),
        ("numactl -N 0 python -m sglang.launch_server", ("numactl", "-N", "0")),
        ("timeout 60 /v/bin/python /v/bin/sglang serve m", ("timeout", "60")),
        ("env A=1 python3 -m sglang.launch_server", ("env", "A=1")),
        ("py-spy record -- python -m sglang.launch_server", ("py-spy", "record", "--")),
    ],
)
def test_what_stands_before_the_server(line: str, wrapper: tuple[str, ...]) -> None:
    found = command(line)
    assert found.is_sglang
    assert found.wrapper == wrapper
    assert found.is_server_process == (wrapper == ())


@pytest.mark.parametrize(
    "line",
    [
        "",
        "bash serve.sh",
        "python serve.py -m sglang.launch_server",
        "python -m http.server 8000",
        "grep sglang.launch_server log",
        "vim sglang/launch_server.py",
        "sglang --help",
        "python -m sglang.bench_serving --port 30000",
        "python -c import(os) -m sglang.launch_server",
    ],
)
def test_commands_that_are_no_server(line: str) -> None:
    found = command(line)
    assert not found.is_sglang
    assert not found.is_server_process


def test_a_command_that_is_no_server_names_a_port_only_if_it_says_so() -> None:
    assert command("bash serve.sh").port is None
    assert command("bash serve.sh --port 31000").port == 31000


def test_interpreter_is_the_python_word() -> None:
    assert command("numactl /v/bin/python3 -m sglang.launch_server").interpreter == "/v/bin/python3"
    assert command("sglang serve m").interpreter is None


def test_the_demo_is_simulated() -> None:
    found = command("python -m launchmon.demo.launch_server --tp 8")
    assert found.simulated
    assert found.tp == 8


def test_of_a_flag_that_is_given_twice_the_last_value_counts() -> None:
    words = ("--revision", "main", "--api-key=a=b", "--revision=v2", "--last")
    assert value_of(words, "--revision") == "v2"
    assert value_of(words, "--api-key") == "a=b"
    assert value_of(words, "--last") is None and value_of(words, "--other") is None
