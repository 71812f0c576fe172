"""The scenarios of the demo: ``scenarios.toml`` as checked, typed rows, and the command that plays one."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import secrets
import socket
import sys
import sysconfig
import tempfile
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchmon.demo.gpus import DIRECTORY_PREFIX, VARIABLE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PATH = Path(__file__).with_name("scenarios.toml")

PHASES = ("start", "spawn", "dist-init", "weights", "kv-pool", "graphs", "warm-up")
"""The phases that take time of their own, in launch order (names of DESIGN phases)."""

FAILURES = {"dead-lock": ("kv-pool",)}
"""Kind of failure → the phases in which the simulated engine knows how to do it."""


class InvalidScenario(ValueError):
    """The data file has a row that cannot be played. The message names the row and the field."""


@dataclass(frozen=True)
class GpuModel:
    """One kind of GPU. Sizes are in GB of 2**30 bytes."""

    name: str
    memory_gb: float
    context_gb: float
    power_limit_w: float
    idle_w: float
    idle_c: float
    hot_c: float
    idle_mhz: float
    busy_mhz: float
    nvlink: bool


@dataclass(frozen=True)
class Model:
    path: str
    architecture: str
    quantization: str
    checkpoint_gb: float  # 10**9 bytes
    shards: int
    replicated_gb: float
    context_len: int
    kv_bytes_per_token: int

    def rank_weights_gb(self, tp: int) -> float:
        """What one of ``tp`` ranks holds, in GB of 2**30 bytes."""
        return self.checkpoint_gb * 1e9 / tp / 2**30 + self.replicated_gb


@dataclass(frozen=True)
class Slow:
    """One rank that takes ``factor`` times as long over ``phase`` as the others."""

    rank: int
    phase: str
    factor: float


@dataclass(frozen=True)
class Failure:
    """What goes wrong, in which phase, and the flags under which it does not."""

    kind: str
    phase: str
    unless: tuple[str, ...]


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    shows: str
    model: Model
    gpu: GpuModel
    gpus: int
    tp: int
    kv_gb: float
    traffic_s: float
    seconds: dict[str, float]
    slow: Slow | None = None
    failure: Failure | None = None

    def failure_under(self, flags: frozenset[str], tp: int) -> Failure | None:
        """What will go wrong with these ``--flags`` on ``tp`` ranks. A single rank has nobody to wait for."""
        if self.failure is None or tp < 2 or flags & set(self.failure.unless):
            return None
        return self.failure


@functools.cache
def scenarios() -> tuple[Scenario, ...]:
    """All scenarios, in the order of the file. Raises :class:`InvalidScenario`."""
    return parse(PATH.read_text(encoding="utf-8"))


def scenario(name: str) -> Scenario:
    """Raises :class:`KeyError` with the known names when there is none of that name."""
    known = {row.name: row for row in scenarios()}
    if name not in known:
        raise KeyError(f"no scenario {name!r}; there are: {', '.join(known)}")
    return known[name]


def demo_command(
    name: str, port: int, python: str = sys.executable, speed: float = 1.0
) -> tuple[list[str], dict[str, str]]:
    """``(argv, environment changes)`` of a launch of scenario ``name``.

    The environment names the file in which the simulated GPUs appear, in a private directory of its own for each call;
    the demo makes it, and removes it when it ends. Raises :class:`KeyError` for an unknown scenario.
    """
    row = scenario(name)
    argv = [python, "-m", "launchmon.demo.launch_server"]
    argv += ["--model-path", row.model.path, "--tp", str(row.tp), "--port", str(port), "--scenario", row.name]
    if speed != 1.0:
        argv += ["--speed", f"{speed:g}"]
    # Not made here, so that a command which is never started leaves nothing.
    directory = Path(tempfile.gettempdir()) / f"{DIRECTORY_PREFIX}{secrets.token_hex(8)}"
    changes = {VARIABLE: str(directory / "gpus.json")}
    path = _python_path()
    if path is not None:
        changes["PYTHONPATH"] = path
    return argv, changes


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port that nobody listens on now. Somebody else may take it before the demo does; then the demo says so.

    It comes from below the range out of which the system gives ports to connections and to whoever asks for any (32768
    on, ip(7)), where that is possible: one of those may be given away again before the demo listens.
    """
    for _ in range(20):
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            chosen = 20_000 + secrets.randbelow(10_000)
            probe.bind((host, chosen))
            return chosen
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def _python_path() -> str | None:
    """The PYTHONPATH that a fresh interpreter needs to import this package, or None where it is installed."""
    root = str(Path(__file__).resolve().parents[2])
    if root in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        return None
    parts = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part and part != root]
    return os.pathsep.join([root, *parts])


def parse(text: str) -> tuple[Scenario, ...]:
    """Raises :class:`InvalidScenario`."""
    try:
        body = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidScenario(f"not TOML: {error}") from None
    unknown = set(body) - {"gpus", "models", "scenarios"}
    if unknown:
        raise InvalidScenario(f"unknown tables: {', '.join(sorted(unknown))}")
    gpus = {name: _row(GpuModel, row, f"gpus.{name}") for name, row in body.get("gpus", {}).items()}
    models = {name: _row(Model, row, f"models.{name}") for name, row in body.get("models", {}).items()}
    rows = tuple(_scenario(row, gpus, models) for row in body.get("scenarios", []))
    if not rows:
        raise InvalidScenario("no scenarios")
    if len({row.name for row in rows}) != len(rows):
        raise InvalidScenario("two scenarios have one name")
    return rows


def _scenario(row: dict[str, Any], gpus: dict[str, GpuModel], models: dict[str, Model]) -> Scenario:
    where = f"scenario {row.get('name', '?')}"
    row = dict(row)
    row["gpu"] = _named(gpus, row.get("gpu"), f"{where}: gpu")
    row["model"] = _named(models, row.get("model"), f"{where}: model")
    if "slow" in row:
        row["slow"] = _row(Slow, row["slow"], f"{where}: slow")
    if "failure" in row:
        failure = dict(row["failure"])
        failure["unless"] = tuple(failure.get("unless", ()))
        row["failure"] = _row(Failure, failure, f"{where}: failure")
    made: Scenario = _row(Scenario, row, where)
    _check(made, where)
    return made


def _check(row: Scenario, where: str) -> None:
    if set(row.seconds) != set(PHASES):
        raise InvalidScenario(f"{where}: seconds names exactly {', '.join(PHASES)}")
    if any(
        isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0 for value in row.seconds.values()
    ):
        raise InvalidScenario(f"{where}: seconds are numbers, 0 or more")
    if not 1 <= row.tp <= row.gpus:
        raise InvalidScenario(f"{where}: tp is between 1 and gpus")
    if row.slow is not None and (row.slow.phase != "weights" or not 0 <= row.slow.rank < row.tp or row.slow.factor < 1):
        raise InvalidScenario(f"{where}: slow is a rank below tp, in phase weights, by a factor of 1 or more")
    if row.failure is not None:
        if row.failure.phase not in FAILURES.get(row.failure.kind, ()):
            raise InvalidScenario(f"{where}: no failure {row.failure.kind!r} in phase {row.failure.phase!r}")
        if not all(isinstance(flag, str) and flag.startswith("--") for flag in row.failure.unless):
            raise InvalidScenario(f"{where}: unless is a list of --flags")
    full = row.gpu.context_gb + row.model.rank_weights_gb(row.tp) + row.kv_gb
    if full > row.gpu.memory_gb:
        raise InvalidScenario(f"{where}: {full:.1f} GB do not fit into a GPU of {row.gpu.memory_gb} GB")


def _named(table: dict[str, Any], name: Any, where: str) -> Any:
    if not isinstance(name, str) or name not in table:
        raise InvalidScenario(f"{where} is one of: {', '.join(table)}")
    return table[name]


def _row(cls: Any, row: Any, where: str) -> Any:
    """A dataclass from a table: no field missing, none unknown, each of its type (an int will do for a float)."""
    if not isinstance(row, dict):
        raise InvalidScenario(f"{where} is a table")
    fields = {field.name: field for field in dataclasses.fields(cls)}
    unknown = set(row) - set(fields)
    missing = {name for name, field in fields.items() if field.default is dataclasses.MISSING} - set(row)
    if unknown or missing:
        raise InvalidScenario(f"{where}: unknown {sorted(unknown)}, missing {sorted(missing)}")
    hints = typing.get_type_hints(cls)
    values = {}
    for name, value in row.items():
        wanted = hints[name]
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if wanted in (str, int, float, bool) and type(value) is not wanted:
            raise InvalidScenario(f"{where}: {name} is a {wanted.__name__}")
        values[name] = value
    return cls(**values)
