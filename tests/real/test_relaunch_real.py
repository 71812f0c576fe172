"""Flags and relaunch on the genuine SGLang: its list against its own ``--help``, a change, and a misspelt flag."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.runs.flaglist import flag_list
from launchmon_agent.sglang.flags import help_text
from launchmon_agent.sglang.flags.check import check_values
from launchmon_agent.sglang.toggles import toggles
from tests.real.rig import Rig
from tests.support.client import agent, eventually, verdict

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

READY_S = 240.0
HIDDEN = {"--forward-pass-metrics-ipc-name", "--forward-pass-metrics-worker-id"}
"""Declared with argparse.SUPPRESS as their help."""


def test_the_source_and_the_program_name_the_same_flags(rig: Rig) -> None:
    argv, env = rig.command()
    flags = flag_list(argv, str(rig.python), str(rig.workdir), env)
    assert (flags.source, flags.version, flags.complete) == ("source", "0.5.23", True)
    shown = subprocess.run(
        [*argv[:3], "--help"], env={**env, "COLUMNS": "400"}, capture_output=True, text=True, check=True
    )
    helped = help_text.parse(shown.stdout)
    assert {name for flag in helped for name in flag.spellings} == set(flags.names) - HIDDEN
    for flag in helped:
        known = flags.get(flag.name)
        assert known is not None and known.takes == flag.takes, flag.name
        assert not known.choices or set(known.choices) == set(flag.choices), flag.name


def test_every_toggle_that_is_offered_would_be_taken(rig: Rig) -> None:
    argv, env = rig.command()
    flags = flag_list(argv, str(rig.python), str(rig.workdir), env)
    offered = [one for one in toggles(argv, {}, flags) if one.name.startswith("--")]
    assert len(offered) > 40
    for toggle in offered:
        flag = flags.get(toggle.name)
        _, equals, value = toggle.change.partition("=")
        assert flag is not None
        check_values(toggle.name, flag, (value,) if equals else ())


def test_a_source_that_cannot_be_read_is_asked_for_help(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(_folder: str) -> dict[str, str]:
        raise OSError

    monkeypatch.setattr("launchmon_agent.runs.flaglist.read_sources", unreadable)
    argv, env = rig.command()
    flags = flag_list(argv, str(rig.python), str(rig.workdir), env)
    assert (flags.source, flags.complete) == ("help", True)
    assert flags.full_name("--tp") == "--tp-size"


async def test_a_server_is_relaunched_with_other_flags_and_a_misspelt_one_is_refused(rig: Rig) -> None:
    argv, _ = rig.command()
    async with agent() as session:
        first = await session.launch(argv=list(argv), env=rig.changes(), cwd=str(rig.workdir))
        assert first.pid is not None
        rig.watch(first.pid)
        await eventually(lambda: verdict(session) in ("ready", "crashed"), READY_S)
        assert verdict(session) == "ready", session.model.verdict
        with pytest.raises(Refused, match=r"SGLang 0\.5\.23 has no flag --max-total-tokns") as caught:
            await session.relaunch(add=["--max-total-tokns=2048"])
        assert caught.value.try_ == "--add --max-total-tokens"
        assert psutil.pid_exists(first.pid)

        second = await session.relaunch(add=["--log-level=debug", "--max-total-tokens=2048"])
        assert second.pid is not None
        rig.watch(second.pid)
        assert not psutil.pid_exists(first.pid)
        await eventually(lambda: verdict(session) in ("ready", "crashed"), READY_S)
        assert verdict(session) == "ready", session.model.verdict
        ledger = await session.ledger()
        assert ledger["attempts"][1]["change"] == ["~ --max-total-tokens 4096 → 2048", "+ --log-level debug"]
        log = Path(second.log or "").read_text()
        assert "max_total_tokens=2048" in log or "'max_total_tokens': 2048" in log
        await session.kill()
