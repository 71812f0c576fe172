"""A launch form's machine without an agent: a small flag list, some directories, and answers that a test sets."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from launchmon_agent.errors import Refused
from launchmon_agent.sglang.common import rows
from launchmon_agent.sglang.flags.model import SWITCH, Flag, FlagList
from tests.support import fake_session as fake
from tests.support.fake_session import FakeSession

PYTHON = "/opt/sglang/bin/python"
OTHER = "/opt/old/bin/python"
SWITCHES = ("--trust-remote-code",)
DEFAULTS = {"--tp-size": "1", "--port": "30000", "--host": "'127.0.0.1'"}
ALIASES = {"--tp-size": ("--tensor-parallel-size",), "--model-path": ("--model",)}

FLAGS = FlagList(
    (
        *(
            Flag(
                row.flag,
                ALIASES.get(row.flag, ()),
                takes=SWITCH if row.flag in SWITCHES else "value",
                type={"--tp-size": "int", "--port": "int", "--mem-fraction-static": "float"}.get(row.flag, "str"),
                default=DEFAULTS.get(row.flag),
                help=f"About {row.flag[2:]}.",
            )
            for row in rows()
        ),
        Flag("--api-key", type="str", help="The key that clients have to send."),
        Flag("--enable-metrics", takes=SWITCH, help="Serves /metrics."),
        Flag("--device", type="str", choices=("cuda", "cpu"), help="Where it computes."),
    ),
    version="0.5.23",
)

TREE = {"/models": ("kimi-k2.5", "kimi-linear", "llama"), "/models/llama": ("8b",)}
MODELS = ("/models/kimi-k2.5", "/models/kimi-linear", "/models/llama/8b")


class FakeLauncher:
    def __init__(self, target: str = "this machine") -> None:
        self.target = target
        self.flags = {PYTHON: FLAGS, OTHER: FlagList(FLAGS.flags[:5], version="0.3.6")}
        self.asked: list[tuple[tuple[str, ...], dict[str, str | None]]] = []
        self.launched: list[tuple[tuple[str, ...], dict[str, str | None], bool]] = []
        self.refused: Refused | None = None  # by the target, of every command
        self.findings: list[dict[str, str]] = []
        self.launch_refusal: Refused | None = None
        self.closed = False
        self.session: FakeSession = fake.seed()

    async def options(self, python: str | None) -> dict[str, Any]:
        flags = self.flags.get(python or PYTHON)
        if flags is None:
            raise Refused(f"The command {python} was not found", "it is in no directory of PATH", "give its full path")
        return {
            "python": python or PYTHON,
            "pythons": [{"path": path, "version": one.version} for path, one in self.flags.items()],
            "version": flags.version,
            "flags_complete": True,
            "flags": json.loads(json.dumps([dataclasses.asdict(flag) for flag in flags.flags])),
            "cwd": "/srv",
        }

    async def plan(self, argv: Sequence[str], env: Mapping[str, str | None]) -> dict[str, Any]:
        self.asked.append((tuple(argv), dict(env)))
        if self.refused is not None:
            return {"refused": self.refused.as_json(), "findings": [], "preparations": []}
        return {"refused": None, "findings": self.findings, "preparations": ["PYTHONUNBUFFERED=1: lines come at once"]}

    async def directories(self, text: str) -> dict[str, Any]:
        folder, _, begin = text.rpartition("/")
        paths = [f"{folder}/{name}" for name in TREE.get(folder, ()) if name.startswith(begin)]
        listed = [{"path": path, "model": path in MODELS} for path in paths]
        return {"directories": listed, "more": False, "late": False}

    async def launch(self, argv: Sequence[str], env: Mapping[str, str | None], *, anyway: bool) -> FakeSession:
        if self.launch_refusal is not None:
            raise self.launch_refusal
        self.launched.append((tuple(argv), dict(env), anyway))
        return self.session

    async def close(self) -> None:
        self.closed = True
