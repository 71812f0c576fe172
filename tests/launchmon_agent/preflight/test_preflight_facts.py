"""What preflight sees: in files and processes made for it, and on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from launchmon_agent.preflight import facts
from launchmon_agent.preflight import look as look_module
from launchmon_agent.preflight.facts import Lock, Model
from launchmon_agent.preflight.look import at_once, look
from launchmon_agent.runs.launch import Plan, prepare
from tests.support import fake_servers
from tests.support.ports import free_port


def plan(model: Path | str, *flags: str, **env: str) -> Plan:
    argv = (sys.executable, "-m", "sglang.launch_server", "--model-path", str(model), *flags)
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": fake_servers.FAKES, "HOME": "/nonexistent", **env}
    return prepare((*argv, "--port", str(free_port())), environ=environ)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    where = tmp_path / "kimi"
    where.mkdir()
    (where / "config.json").write_text(json.dumps({"num_attention_heads": 4}))
    return where


def index(where: Path, *names: str) -> None:
    weight_map = {f"layer.{number}": name for number, name in enumerate(names)}
    (where / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


# ------------------------------------------------------------------------------------------------------------ the model


def test_shards_of_the_index_that_are_missing_or_empty(model: Path) -> None:
    index(model, "a.safetensors", "b.safetensors", "c.safetensors", "a.safetensors")
    (model / "a.safetensors").write_bytes(b"x")
    (model / "b.safetensors").write_bytes(b"")
    assert facts.model(plan(model)) == Model(
        str(model), {"num_attention_heads": 4}, 3, ("b.safetensors", "c.safetensors")
    )


def test_a_link_to_nowhere_is_missing(model: Path) -> None:
    index(model, "a.safetensors")
    (model / "a.safetensors").symlink_to(model / "blobs" / "gone")
    found = facts.model(plan(model))
    assert found is not None and found.missing == ("a.safetensors",)


def test_a_model_without_an_index(model: Path) -> None:
    assert facts.model(plan(model)) == Model(str(model), {"num_attention_heads": 4})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"weight_map": {"a": 3}}', '{"weight_map": null}'])
def test_damaged_files_say_nothing(model: Path, text: str) -> None:
    (model / "model.safetensors.index.json").write_text(text)
    (model / "config.json").write_text(text)
    found = facts.model(plan(model))
    assert found is not None and (found.files, found.missing) == (None, ())


def test_the_hubs_cache(tmp_path: Path) -> None:
    assert facts.model(plan("org/kimi", HF_HOME=str(tmp_path))) is None
    folder = tmp_path / "hub" / "models--org--kimi"
    snapshot = folder / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    index(snapshot, "a.safetensors")
    found = facts.model(plan("org/kimi", HF_HOME=str(tmp_path)))
    assert found == Model(str(snapshot), None, 1, ("a.safetensors",))
    assert facts.model(plan("org/kimi", HF_HUB_CACHE=str(tmp_path / "hub"))) == found
    assert facts.model(plan("org/kimi", XDG_CACHE_HOME=str(tmp_path))) is None


# ---------------------------------------------------------------------------------------------------------------- locks


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    where = tmp_path / "py310" / "fused_moe"
    where.mkdir(parents=True)
    (where / "lock").touch()
    return where / "lock"


def test_a_lock_that_nobody_has_open_is_stale(lock: Path, tmp_path: Path) -> None:
    os.utime(lock, (1000.0, 1000.0))
    env = {"TORCH_EXTENSIONS_DIR": str(tmp_path), "HOME": "/nonexistent"}
    assert facts.locks(env, 1600.0) == (Lock(str(lock), 600.0),)


def test_a_lock_that_somebody_alive_has_open_is_not(lock: Path, tmp_path: Path) -> None:
    code = "import sys; held = open(sys.argv[1]); print(flush=True); input()"
    builder = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    env = {"TORCH_EXTENSIONS_DIR": str(tmp_path), "HOME": "/nonexistent"}
    try:
        assert builder.stdout is not None
        builder.stdout.readline()
        assert facts.locks(env, 1600.0) == ()
    finally:
        builder.kill()
        builder.communicate()
    assert [found.path for found in facts.locks(env, 1600.0)] == [str(lock)]


def test_locks_are_looked_for_where_they_are_by_default(tmp_path: Path) -> None:
    for path in (".cache/torch_extensions/py311_cu128/x/lock", ".aiter/build/lock_module_x", ".cache/other/lock"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    names = {os.path.relpath(found.path, tmp_path) for found in facts.locks({"HOME": str(tmp_path)}, 0.0)}
    assert names == {".cache/torch_extensions/py311_cu128/x/lock", ".aiter/build/lock_module_x"}


# --------------------------------------------------------------------------------------------------------- this machine


def test_this_machine() -> None:
    assert "lo" in facts.interfaces()
    shm = facts.shm()
    assert shm is not None and 0 <= shm[1] <= shm[0]
    limits = facts.limits()
    assert limits.open_files is None or limits.open_files > 0
    assert facts.host_name_is_loopback() in (True, False, None)


def test_py_spy_is_looked_for_where_sglang_looks(tmp_path: Path) -> None:
    (tmp_path / "py-spy").write_text("#!/bin/sh\n")
    (tmp_path / "py-spy").chmod(0o755)
    sh = ("sh", "-c", "true")
    assert facts.py_spy(prepare(sh, environ={"PATH": f"{tmp_path}:/bin:/usr/bin"}))
    assert not facts.py_spy(prepare(sh, environ={"PATH": "/bin:/usr/bin"}))


# ------------------------------------------------------------------------------------------------------------- together


def test_everything_together(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_module, "PATIENCE_S", 30.0)
    index(model, "a.safetensors")
    found = {one.id: one for one in look(plan(model, "--tp", "3", RANK="0"))}
    assert {"heads", "shards", "inherited"} <= set(found)
    assert "a.safetensors" in found["shards"].what


def test_a_command_that_is_no_server_is_not_looked_at() -> None:
    assert look(prepare(("sh", "-c", "true"))) == ()


def test_behind_docker_only_the_command_itself_is_judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\n")
    docker.chmod(0o755)
    argv = (str(docker), "run", "image", "python3", "-m", "sglang.launch_server", "--model-path", "org/x")
    environ = {"PATH": "/bin:/usr/bin", "RANK": "0", "http_proxy": "x"}
    found = look(prepare((*argv, "--tp", "3", "--nnodes", "2", "--dist-init-addr", "h:1"), environ=environ))
    assert [one.id for one in found] == ["nodes"]


def test_looks_that_fail_or_hang_keep_nobody_waiting() -> None:
    never = threading.Event()

    def fails() -> None:
        raise RuntimeError("a driver's trouble")

    seen = at_once({"fast": lambda: 1, "fails": fails, "hangs": never.wait}, 0.2)
    never.set()
    assert seen == {"fast": 1, "fails": None}


def test_what_hangs_is_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setattr(look_module, "PATIENCE_S", 0.2)
    monkeypatch.setattr(facts, "locks", lambda env, now: never.wait())
    found = [one.what for one in look(plan(model)) if one.id == "late"]
    never.set()
    assert "Not seen in time: locks of builds" in found
