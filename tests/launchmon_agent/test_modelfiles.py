"""The files of a model's weights: in a directory, in the hub's cache, and while they arrive."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from launchmon_agent.events import ModelFiles, Run
from launchmon_agent.modelfiles import ModelFilesLook, model_files, snapshot

MIB = 1024**2


def run(model: str, cwd: str = "/", *flags: str) -> Run:
    return Run(0.0, id="x", argv=("server", *flags), cwd=cwd, pid=os.getpid(), model=model)


def filled(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"w" * size)
    return path


def indexed(folder: Path, total: int, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    index = {
        "metadata": {"total_size": total},
        "weight_map": {f"tensor.{place}": name for place, name in enumerate(names)},
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def numbers(found: ModelFiles | None) -> tuple[int | None, int | None, int]:
    assert found is not None
    return found.total, found.here, found.unfinished


# ------------------------------------------------------------------------------------------------------------ directory


def test_the_files_of_the_index_are_what_is_loaded(tmp_path: Path) -> None:
    indexed(tmp_path, 3 * MIB, "a.safetensors", "b.safetensors")
    filled(tmp_path / "a.safetensors", 2 * MIB)
    filled(tmp_path / "b.safetensors", MIB)
    filled(tmp_path / "consolidated.safetensors", 9 * MIB)
    found = model_files(run(str(tmp_path)), 5.0)
    assert found == ModelFiles(5.0, str(tmp_path), 3 * MIB, 3 * MIB, 0)


@pytest.mark.parametrize(
    ("files", "total"),
    [
        ({"model.safetensors": 5, "pytorch_model.bin": 7}, 5),
        ({"pytorch_model.bin": 7, "training_args.bin": 1}, 7),
        ({"model-00001.safetensors": 5, "consolidated.safetensors": 5}, 5),
        ({"m.gguf": 4}, 4),
    ],
)
def test_without_an_index_it_is_the_best_format_that_is_there(
    tmp_path: Path, files: dict[str, int], total: int
) -> None:
    for name, size in files.items():
        filled(tmp_path / name, size)
    assert numbers(model_files(run(str(tmp_path)), 0.0)) == (total, total, 0)


def test_a_path_is_relative_to_where_the_server_was_started(tmp_path: Path) -> None:
    filled(tmp_path / "m" / "model.safetensors", 5)
    assert numbers(model_files(run("m", str(tmp_path)), 0.0)) == (5, 5, 0)


def test_a_single_file_is_a_model_too(tmp_path: Path) -> None:
    assert numbers(model_files(run(str(filled(tmp_path / "m.gguf", 9))), 0.0)) == (9, 9, 0)


def test_a_directory_that_lacks_shards_is_as_large_as_its_index_says(tmp_path: Path) -> None:
    indexed(tmp_path, 100, "a.safetensors", "b.safetensors")
    filled(tmp_path / "a.safetensors", 40)
    assert numbers(model_files(run(str(tmp_path)), 0.0)) == (100, 40, 0)


@pytest.mark.parametrize("text", ["", "[]", '{"weight_map": []}', '{"weight_map": {"a": 7}, "metadata": 8}'])
def test_a_damaged_index_is_passed_over(tmp_path: Path, text: str) -> None:
    filled(tmp_path / "model.safetensors", 5)
    (tmp_path / "model.safetensors.index.json").write_text(text)
    assert numbers(model_files(run(str(tmp_path)), 0.0)) == (5, 5, 0)


def test_an_empty_directory_says_nothing(tmp_path: Path) -> None:
    assert model_files(run(str(tmp_path)), 0.0) is None


# ---------------------------------------------------------------------------------------------------------- hub's cache


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository of org/m in an empty cache that the server's environment names."""
    monkeypatch.setattr("launchmon_agent.sensors.proc.environ", lambda _pid: {"HF_HUB_CACHE": str(tmp_path)})
    return tmp_path / "models--org--m"


def arrived(cache: Path, name: str, size: int) -> None:
    """A finished file: a blob, and a link to it in the snapshot."""
    blob = filled(cache / "blobs" / f"hash-of-{name}", size)
    link = cache / "snapshots" / "abc" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(blob, link.parent))
    filled(cache / "refs" / "main", 0).write_text("abc")


def test_a_download_is_what_has_arrived_of_what_the_index_promises(cache: Path) -> None:
    arrived(cache, "a.safetensors", MIB)
    indexed(cache / "snapshots" / "abc", 4 * MIB, "a.safetensors", "b.safetensors")
    filled(cache / "blobs" / "hash-of-b.incomplete", 2 * MIB)
    assert numbers(model_files(run("org/m"), 0.0)) == (4 * MIB, 3 * MIB, 1)


def test_a_file_that_was_made_long_and_is_filled_later_counts_by_what_is_filled(cache: Path) -> None:
    blob = filled(cache / "blobs" / "hash.incomplete", MIB)
    os.truncate(blob, 64 * MIB)
    found = model_files(run("org/m"), 0.0)
    assert found is not None and found.here is not None and found.here < 2 * MIB
    assert (found.total, found.unfinished) == (None, 1)


def test_a_repository_that_is_all_there(cache: Path) -> None:
    arrived(cache, "model.safetensors", MIB)
    assert numbers(model_files(run("org/m"), 0.0)) == (MIB, MIB, 0)


def test_a_revision_has_a_snapshot_of_its_own(cache: Path) -> None:
    arrived(cache, "model.safetensors", MIB)
    filled(cache / "snapshots" / "v2" / "model.safetensors", 7)
    assert numbers(model_files(run("org/m", "/", "--revision", "v2"), 0.0)) == (7, 7, 0)


def test_what_the_cache_does_not_have_says_nothing(cache: Path) -> None:
    assert model_files(run("org/m"), 0.0) is None
    assert snapshot("org/m", {"HF_HUB_CACHE": str(cache.parent)}) is None


# ------------------------------------------------------------------------------------------------------------ each look


def test_what_is_complete_is_looked_at_once(tmp_path: Path) -> None:
    look = ModelFilesLook()
    filled(tmp_path / "model.safetensors", 5)
    assert numbers(look.find(run(str(tmp_path)), 0.0)) == (5, 5, 0)
    filled(tmp_path / "more.safetensors", 5)
    assert numbers(look.find(run(str(tmp_path)), 5.0)) == (5, 5, 0)


def test_a_download_is_looked_at_each_time(cache: Path) -> None:
    look = ModelFilesLook()
    blob = filled(cache / "blobs" / "hash.incomplete", MIB)
    assert numbers(look.find(run("org/m"), 0.0)) == (None, MIB, 1)
    filled(blob, 2 * MIB)
    assert numbers(look.find(run("org/m"), 5.0)) == (None, 2 * MIB, 1)


def test_another_model_of_the_same_run_is_looked_at_anew(tmp_path: Path) -> None:
    look = ModelFilesLook()
    filled(tmp_path / "a" / "model.safetensors", 5)
    filled(tmp_path / "b" / "model.safetensors", 6)
    assert numbers(look.find(run(str(tmp_path / "a")), 0.0)) == (5, 5, 0)
    assert numbers(look.find(run(str(tmp_path / "b")), 0.0)) == (6, 6, 0)
