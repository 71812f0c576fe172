"""Mistakes that are found before a start."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.runs import checks
from launchmon_agent.runs.launch import prepare

SERVER = (sys.executable, "-m", "launchmon.demo.launch_server")  # needs no SGLang to be found


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def executable(path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def refusal(*argv: str, **options: object) -> Refused:
    with pytest.raises(Refused) as refused:
        prepare(argv, **options)  # type: ignore[arg-type]
    return refused.value


def serve(*flags: str) -> tuple[str, ...]:
    return (*SERVER, "--port", str(free_port()), *flags)


def test_no_command() -> None:
    assert "no command" in refusal().what
    assert "no command" in refusal("  ").what


def test_a_command_that_is_not_found() -> None:
    assert "no-such-program" in refusal("no-such-program", "--x").what


def test_a_path_that_does_not_exist(tmp_path) -> None:
    assert "does not exist" in refusal("./serve.sh", cwd=str(tmp_path)).what


def test_a_file_that_cannot_be_executed(tmp_path) -> None:
    (tmp_path / "serve.sh").write_text("")
    refused = refusal("./serve.sh", cwd=str(tmp_path))
    assert "cannot be executed" in refused.what
    assert refused.try_.startswith("chmod +x ")


def test_a_directory_is_no_command(tmp_path) -> None:
    assert "is a directory" in refusal(str(tmp_path)).what


def test_a_variable_in_front_is_explained_without_its_value() -> None:
    refused = refusal("HF_TOKEN=abc", "python")
    assert "--env" in refused.try_
    assert "abc" not in refused.what + refused.cause + refused.try_


def test_a_working_directory_that_does_not_exist(tmp_path: Path) -> None:
    missing = str(tmp_path / "gone")
    assert missing in refusal("true", cwd=missing).what


@pytest.mark.parametrize("name", ["", "A=B", "A\0"])
def test_a_name_that_cannot_be_a_variable(name: str) -> None:
    assert "cannot be a variable" in refusal("true", env={name: "x"}).what


def test_a_port_in_use_names_its_owner(taken: int) -> None:
    refused = refusal(*SERVER, "--port", str(taken))
    assert refused.what == f"Port {taken} is in use"
    assert f"process {os.getpid()} listens there" in refused.cause
    assert f"--port {taken + 1}" in refused.try_


def test_the_same_port_on_another_address_is_free(taken: int) -> None:
    prepare((*SERVER, "--port", str(taken), "--host", "127.0.0.2"))


def test_all_addresses_include_the_one_in_use(taken: int) -> None:
    assert "in use" in refusal(*SERVER, "--port", str(taken), "--host", "0.0.0.0").what


@pytest.mark.parametrize("wrapper", ["docker run image", "srun --jobid 7", "ssh host"])
def test_what_runs_elsewhere_is_not_checked_here(tmp_path, taken: int, wrapper: str) -> None:
    first, *rest = wrapper.split()
    program = executable(tmp_path / first, "#!/bin/sh\n")
    prepare((program, *rest, "python", "-m", "sglang.launch_server", "--port", str(taken), "--model", "/not/here"))


def test_a_local_wrapper_changes_nothing(taken: int) -> None:
    assert "in use" in refusal("env", "A=1", *SERVER, "--port", str(taken)).what


@pytest.mark.parametrize("model", ["/models/none", "./none", "../none/x", "~/none", "a/b/c", "odd name"])
def test_a_model_path_that_does_not_exist(model: str) -> None:
    refused = refusal(*serve("--model-path", model))
    assert model in refused.what


@pytest.mark.parametrize("model", ["org/model", "gpt2", "s3://bucket/model", "hf://org/model"])
def test_a_model_that_may_be_elsewhere_is_left_to_the_server(model: str) -> None:
    prepare(serve("--model-path", model))


def test_a_model_is_looked_for_in_the_working_directory(tmp_path) -> None:
    (tmp_path / "model").mkdir()
    prepare(serve("--model-path", "./model"), cwd=str(tmp_path))


def test_a_tilde_that_no_shell_replaced(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model").mkdir()
    refused = refusal(*serve("--model-path=~/model"))
    assert refused.try_ == f"--model-path {tmp_path}/model"


def test_an_interpreter_without_sglang(tmp_path) -> None:
    python = executable(tmp_path / "python3", f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    refused = refusal(python, "-m", "sglang.launch_server", "--port", str(free_port()))
    assert refused.what == f"SGLang is not installed for {python}"


def test_an_interpreter_with_sglang_on_its_path(tmp_path) -> None:
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "__init__.py").write_text("raise SystemExit('must not be imported')")
    prepare(
        (sys.executable, "-m", "sglang.launch_server", "--port", str(free_port())),
        env={"PYTHONPATH": str(tmp_path)},
    )


def test_an_interpreter_that_does_not_work(tmp_path) -> None:
    python = executable(tmp_path / "python3", "#!/bin/sh\necho libpython is gone >&2\nexit 127\n")
    refused = refusal(python, "-m", "sglang.launch_server", "--port", str(free_port()))
    assert refused.cause == "libpython is gone"


def test_the_interpreter_of_a_console_script(tmp_path) -> None:
    script = executable(tmp_path / "sglang", "#!/venv/bin/python3.12\n")
    assert checks.interpreter_of(script, (script, "serve"), {}) == "/venv/bin/python3.12"


def test_the_interpreter_found_by_env_in_a_first_line(tmp_path) -> None:
    script = executable(tmp_path / "sglang", "#!/usr/bin/env python3\n")
    python = executable(tmp_path / "python3", "")
    assert checks.interpreter_of(script, (script,), {"PATH": str(tmp_path)}) == python


def test_the_interpreter_of_a_wrapped_command() -> None:
    assert checks.interpreter_of("/usr/bin/env", ("env", "A=1", sys.executable, "-m", "x"), {}) == sys.executable


def test_a_shell_script_shows_no_interpreter(tmp_path) -> None:
    script = executable(tmp_path / "serve.sh", "#!/bin/sh\n")
    assert checks.interpreter_of(script, (script,), {"PATH": "/bin"}) is None
