"""The files of a model's weights: where they are, how large, and how much has arrived. Blocking; for a thread.

A model is a directory, a file, or a repository of the hub in its cache. Which files hold the weights is SGLang's choice
(``srt/model_loader``, 0.4.6 to 0.5.23): those of the index, else the safetensors, else the older formats.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping
from typing import Any

from launchmon_agent.events import ModelFiles, Run
from launchmon_agent.installed import root_of
from launchmon_agent.sensors import proc
from launchmon_agent.sglang.command import value_of

INDEX = "model.safetensors.index.json"

_LARGEST_JSON = 64 << 20
_PATTERNS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")
_NOT_LOADED = ("consolidated", "training_args")
"""Beginnings of names: a second copy of Mistral's weights, and what a trainer leaves."""

_UNFINISHED = ".incomplete"
_BLOCK = 512
"""Bytes: the unit of ``st_blocks`` (stat(2))."""


class ModelFilesLook:
    """Of one run. What is complete is looked at once; a download again each time."""

    def __init__(self) -> None:
        self._complete: ModelFiles | None = None
        self._of: str | None = None

    def find(self, run: Run, now: float) -> ModelFiles | None:
        """None: where the model is, is not known, or nothing of it is there."""
        if run.model != self._of:
            self._complete, self._of = None, run.model
        if self._complete is not None:
            return self._complete
        found = model_files(run, now)
        if found is not None and found.total is not None and found.here == found.total and not found.unfinished:
            self._complete = found
        return found


def model_files(run: Run, now: float) -> ModelFiles | None:
    """What the disk says now. Never raises."""
    if run.model is None or run.pid is None or run.simulated:
        return None
    root, path = root_of(run.pid), os.path.join(run.cwd or "/", os.path.expanduser(run.model))
    if os.path.isfile(root + path):
        size = _arrived(root + path)
        return ModelFiles(now, path, size, size)
    if os.path.isdir(root + path):
        return _in_directory(root, path, now)
    return _in_cache(root, run.model, value_of(run.argv, "--revision"), proc.environ(run.pid) or {}, now)


def snapshot(name: str, env: Mapping[str, str], revision: str = "main", root: str = "") -> str | None:
    """Where the hub's cache has a repository (huggingface_hub, "Manage your cache"); None: it has none of it."""
    folder = _repository(name, env)
    known = (proc.read(os.path.join(root + folder, "refs", revision), 100) or b"").decode("ascii", "replace").strip()
    path = os.path.join(folder, "snapshots", known or revision)
    return path if os.path.isdir(root + path) else None


def read_json(path: str) -> dict[str, Any] | None:
    """An object; None where there is none that can be understood."""
    try:
        body = json.loads(proc.read(path, _LARGEST_JSON) or b"")
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def shards(index: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The files that an index names, sorted."""
    names = (index or {}).get("weight_map")
    return tuple(sorted({name for name in names.values() if isinstance(name, str)} if isinstance(names, dict) else ()))


def _in_directory(root: str, path: str, now: float) -> ModelFiles | None:
    index = read_json(os.path.join(root + path, INDEX))
    names = shards(index) or _weights(root + path)
    if not names:
        return None
    sizes = {name: _arrived(os.path.join(root + path, name)) for name in names}
    unfinished = glob.glob(f"{glob.escape(root + path)}/.cache/huggingface/download/*{_UNFINISHED}")
    here = sum(size or 0 for size in sizes.values()) + sum(_arrived(name) or 0 for name in unfinished)
    total = here if all(sizes.values()) and not unfinished else _promised(index)
    return ModelFiles(now, path, total, here if total is None else min(here, total), len(unfinished))


def _in_cache(root: str, name: str, revision: str | None, env: Mapping[str, str], now: float) -> ModelFiles | None:
    """Files appear in the snapshot, as links, when they are complete; until then they grow among the blobs."""
    path = snapshot(name, env, revision or "main", root)
    unfinished = glob.glob(f"{glob.escape(root + _repository(name, env))}/blobs/*{_UNFINISHED}")
    index = None if path is None else read_json(os.path.join(root + path, INDEX))
    names = shards(index) or (() if path is None else _weights(root + path))
    if not names and not unfinished:
        return None
    folder = "" if path is None else root + path
    sizes = [_arrived(os.path.join(folder, name)) for name in names]
    here = sum(size or 0 for size in sizes) + sum(_arrived(blob) or 0 for blob in unfinished)
    complete = bool(names) and all(sizes) and not unfinished
    total = here if complete else _promised(index)
    return ModelFiles(now, path, total, here if total is None else min(here, total), len(unfinished))


def _weights(folder: str) -> tuple[str, ...]:
    for pattern in _PATTERNS:
        found = [os.path.basename(path) for path in glob.glob(f"{glob.escape(folder)}/{pattern}")]
        loaded = [name for name in found if not name.startswith(_NOT_LOADED)]
        if loaded:
            return tuple(sorted(loaded))
    return ()


def _promised(index: Mapping[str, Any] | None) -> int | None:
    """Bytes of all tensors, as an index says: headers aside the size of the files."""
    metadata = (index or {}).get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    return size if isinstance(size, int) and size > 0 else None


def _arrived(path: str) -> int | None:
    """Bytes on the disk: a download may make a file as long as it will be, and fill it later. None: not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    on_disk = found.st_blocks * _BLOCK
    return min(found.st_size, on_disk) if path.endswith(_UNFINISHED) else found.st_size


def _repository(name: str, env: Mapping[str, str]) -> str:
    home = env.get("HOME") or os.path.expanduser("~")
    hub = env.get("HF_HOME") or os.path.join(env.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "huggingface")
    cache = env.get("HF_HUB_CACHE") or os.path.join(hub, "hub")
    return os.path.join(cache, "models--" + name.replace("/", "--"))
