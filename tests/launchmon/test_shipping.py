"""What a target has for the agent, and sending it what it has not."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import pytest

from launchmon import shipping
from launchmon.pyspy_program import Program
from launchmon.shipping import Tools, equip, remarks
from launchmon_agent.errors import Refused
from launchmon_agent.wire import Hello

PROGRAM = Program("0.4.1", "aarch64", bytes(range(256)) * 4096)
HELLO = Hello(1, "0.1", 1, "box", "ada", "3.12.1", "/opt/venv/bin/python3.12")


class Agent:
    """Answers as one does; ``forgets``: so often it has been replaced by another one in the middle."""

    def __init__(self, pyspy: str | None = None, refused: dict[str, str] | None = None, forgets: int = 0) -> None:
        self.state = {"pyspy": pyspy, "machine": "aarch64", "refused": refused}
        self.parts: list[bytes] = []
        self.name: str | None = None
        self._forgets = forgets

    async def request(self, do: str, **args: Any) -> Any:
        if do == "tools":
            return self.state
        if args["number"] == 2 and self._forgets:
            self._forgets -= 1
            self.parts = []
        if args["number"] == 0:
            self.parts = []
        if args["number"] != len(self.parts):
            return {"path": None, "again": True}
        self.parts.append(base64.b64decode(args["data"]))
        self.name = args["name"]
        return {"path": None if self.name is None else f"/c/{self.name}", "again": False}


def program(machine: str) -> Program:
    assert machine == "aarch64"
    return PROGRAM


def never(machine: str) -> Program:
    raise AssertionError(machine)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "PART", 300)


async def test_nothing_is_sent_where_there_is_one() -> None:
    assert await equip(Agent("/usr/bin/py-spy").request, never) == Tools("/usr/bin/py-spy", "aarch64")


async def test_nothing_is_sent_where_none_could_read_the_server() -> None:
    assert await equip(Agent(refused={"what": "no"}).request, never) == Tools(None, "aarch64")


@pytest.mark.parametrize("forgets", [0, 2])
async def test_it_is_sent_in_parts_and_again_when_the_link_was_lost(forgets: int) -> None:
    agent = Agent(forgets=forgets)
    assert await equip(agent.request, program) == Tools(f"/c/{PROGRAM.name}", "aarch64", sent=True)
    assert len(agent.parts) > 3 and max(map(len, agent.parts)) <= 300
    assert zlib.decompress(b"".join(agent.parts)) == PROGRAM.data


async def test_it_is_not_sent_for_ever() -> None:
    with pytest.raises(Refused, match="could not be sent"):
        await equip(Agent(forgets=99).request, program)


def test_what_is_as_it_should_be_needs_no_remark() -> None:
    assert list(remarks(HELLO, Tools("/usr/bin/py-spy", "aarch64"))) == []


def test_what_is_not_is_remarked() -> None:
    hello = Hello(**{**HELLO.__dict__, "found": "server 4711", "missing": ("pynvml",)})
    said = list(remarks(hello, Refused("no py-spy for riscv64", "there is none")))
    assert "server with pid 4711" in said[0] and HELLO.interpreter in said[0]
    assert "GPUs" in said[1]
    assert "no py-spy for riscv64; there is none" in said[2]
    assert "/c/py-spy" in next(remarks(None, Tools("/c/py-spy", "aarch64", sent=True)))
