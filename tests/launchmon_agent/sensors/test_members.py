"""Whose a pid is, when the kernel gives it to another process: on rows that are written down here."""

from __future__ import annotations

import pytest

from launchmon_agent.sensors import proc
from launchmon_agent.sensors.members import RESCAN_ALL_S, RESCAN_S, Members
from launchmon_agent.sensors.proc import Stat

LAUNCHER, PID = 100, 200


def row(pid: int, ppid: int, start_ticks: int) -> Stat:
    return Stat(pid, "x", "S", ppid, pid, pid, 0, 0, 0, 0, 0, 1, start_ticks, True, 0)


class Machine:
    """What /proc says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, newest: int | None) -> None:
        self.newest = newest
        self.rows = {LAUNCHER: row(LAUNCHER, 1, 10), PID: row(PID, 1, 20)}
        self.members = Members(LAUNCHER, None, None)
        monkeypatch.setattr(proc, "pids", lambda: list(self.rows))
        monkeypatch.setattr(proc, "stat", self.rows.get)
        monkeypatch.setattr(proc, "newest_pid", lambda: self.newest)
        monkeypatch.setattr("launchmon_agent.sensors.procfiles.ProcessFiles.stat", lambda files: self.rows[LAUNCHER])
        self.members.refresh(0.0)
        assert set(self.members.alive) == {LAUNCHER}

    def is_ours(self, now: float) -> bool:
        """Whether the pid is found to be ours, now that a child of the launcher has it."""
        self.rows[PID] = row(PID, LAUNCHER, 30)
        self.members.refresh(now)
        return PID in self.members.alive


@pytest.mark.parametrize("before, after", [(150, 250), (199, 200), (300, 200), (300, 250), (150, 20)])
def test_a_pid_that_was_given_out_since_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch, before: int, after: int
) -> None:
    machine = Machine(monkeypatch, before)
    machine.newest = after
    assert machine.is_ours(1.0)


@pytest.mark.parametrize("before, after", [(150, 150), (150, 199), (200, 250), (300, 199), (300, 400)])
def test_the_others_are_not_until_all_are(monkeypatch: pytest.MonkeyPatch, before: int, after: int) -> None:
    machine = Machine(monkeypatch, before)
    machine.newest = after
    assert not machine.is_ours(1.0)
    assert not machine.is_ours(RESCAN_S)
    assert machine.is_ours(RESCAN_ALL_S)


def test_all_are_looked_at_more_often_where_the_kernel_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, None)
    assert not machine.is_ours(1.0)
    assert machine.is_ours(RESCAN_S)
