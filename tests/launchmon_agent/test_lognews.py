"""Waiting for what is new in a log: what ends it, and what is found."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from launchmon_agent import lognews
from launchmon_agent.events import Event, Log, Notice
from launchmon_agent.lognews import PAUSES, LogNews

NEWS = Notice(1.0, source="log", text="new")


class Scripted:
    """A log of which each poll finds the next of these."""

    def __init__(self, *polls: list[Event], behind: int = 0) -> None:
        self._polls = list(polls)
        self._behind = behind
        self.polled = 0
        self.asked = threading.Event()

    @property
    def behind(self) -> bool:
        return self.polled < self._behind

    def poll(self, now: float) -> list[Event]:
        self.polled += 1
        self.asked.set()
        return self._polls.pop(0) if self._polls else []

    def window(self, *args: Any, **kwargs: Any) -> Any: ...
    def search(self, *args: Any, **kwargs: Any) -> Any: ...
    def count(self, *args: Any, **kwargs: Any) -> Any: ...
    def place(self, *args: Any, **kwargs: Any) -> Any: ...
    def close(self) -> None: ...


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing pauses."""
    monkeypatch.setattr(lognews, "PAUSES", ((0.0, 0.0),))


def clock() -> float:
    return 1000.0


def in_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


@pytest.mark.usefixtures("at_once")
def test_looks_that_find_nothing_are_kept_to_itself() -> None:
    log = Scripted([], [], [NEWS], [])
    assert LogNews(log, clock).wait() == [NEWS]
    assert log.polled == 3


def test_a_log_that_has_more_is_read_on_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lognews, "PAUSES", ((0.0, 3600.0),))
    log = Scripted([], [NEWS], behind=2)
    news = LogNews(log, clock)
    assert news.wait() == [], "what else waits on the event loop comes in between"
    assert news.wait() == [NEWS]


@pytest.mark.usefixtures("at_once")
def test_a_waiting_in_vain_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lognews, "LONGEST_S", 0.0)
    assert LogNews(Scripted(), clock).wait() == []


def test_who_needs_the_thread_has_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lognews, "PAUSES", ((0.0, 3600.0),))
    log = Scripted([Log(999.0, grown_at=999.0)], behind=1)
    news = LogNews(log, clock)
    news.wait()
    waiting = in_thread(news.wait)
    news.disturb()
    waiting.join(20)
    assert not waiting.is_alive()
    assert log.polled == 1


def test_a_log_that_has_been_silent_for_longer_is_looked_at_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def at_once(_event: threading.Event, timeout: float) -> bool:
        pauses.append(timeout)
        return True

    for quiet_s in (0.0, 10.0, 100.0):
        log = Scripted([Log(1000.0, grown_at=1000.0 - quiet_s)], behind=1)
        news = LogNews(log, clock)
        news.wait()
        monkeypatch.setattr(threading.Event, "wait", at_once)
        news.wait()
        monkeypatch.undo()
    assert pauses == sorted(pause for _, pause in PAUSES)
