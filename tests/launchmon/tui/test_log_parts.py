"""The parts of the log panel that need no screen: folds, places, the pager's command."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from launchmon.tui import log_pager
from launchmon.tui.log_buffer import Viewport
from launchmon.tui.log_fold import NEAR, Shown, folded
from launchmon.tui.log_pager import Document
from launchmon.tui.log_places import Next, Target, failures, next_of, phase_begins, target, tracebacks
from launchmon_agent.errors import Refused
from launchmon_agent.events import LogError, Mark
from tests.support.fake_session import FakeLine, FakeLog

# ---------------------------------------------------------------------------------------------------------------- folds


def lines(*texts: str) -> list[FakeLine]:
    """As the agent gives them: a line without a prefix belongs to the rank before."""
    found: list[FakeLine] = []
    for text in texts:
        log = FakeLog()
        log.write(text)
        (line,) = log.lines
        level = "error" if found and found[-1].level == "error" and not text.startswith("[") else line.level
        rank = line.rank or ("launcher" if text.startswith("[") else found[-1].rank if found else None)
        found.append(FakeLine(100 * len(found), None, text, rank, level=level))
    return found


def told(shown: list[Shown]) -> list[tuple[str, int]]:
    return [(one.line.text.partition("] ")[2] or one.line.text, one.times) for one in shown]


def said(rank: int, text: str) -> str:
    return f"[2025-11-29 18:00:0{rank} TP{rank}] {text}"


def test_ranks_that_say_the_same_fold_in_whatever_order() -> None:
    texts = [said(2, "a"), said(0, "a"), said(0, "b"), said(1, "a"), said(1, "b"), said(2, "c"), said(2, "b")]
    assert told(folded(lines(*texts))) == [("a", 3), ("b", 3), ("c", 1)]


def test_a_rank_that_says_it_again_begins_another_group() -> None:
    texts = [said(0, "beat"), said(1, "beat"), said(0, "beat"), said(1, "beat"), said(1, "beat")]
    assert told(folded(lines(*texts))) == [("beat", 2), ("beat", 2), ("beat", 1)]


def test_what_differs_is_not_near_or_is_the_launchers_stays() -> None:
    far = [said(0, "a"), *(said(0, f"other {number}") for number in range(NEAR)), said(1, "a")]
    assert all(times == 1 for _, times in told(folded(lines(*far))))
    own = ["[2025-11-29 18:00:00] the same", "[2025-11-29 18:00:01] the same", "", ""]
    assert [times for _, times in told(folded(lines(*own)))] == [1, 1, 1, 1]


def test_tracebacks_fold_as_a_whole_or_not_at_all() -> None:
    def trace(rank: int, end: str) -> list[str]:
        head = said(rank, "Scheduler hit an exception: Traceback (most recent call last):")
        return [head, '  File "x.py", line 1', f"ValueError: {end}"]

    same = folded(lines(*trace(0, "x"), *trace(1, "x")))
    assert [one.times for one in same] == [2, 2, 2]
    assert same[2].line.text == "ValueError: x"
    assert [one.times for one in folded(lines(*trace(0, "x"), *trace(1, "y")))] == [1] * 6


def test_warnings_without_a_prefix_fold_with_their_source_line() -> None:
    warning = ["/x.py:1: UserWarning: old", "  warnings.warn("]
    shown = folded(lines(said(0, "a"), *warning, said(1, "b"), *warning, *warning))
    assert told(shown) == [("a", 1), ("/x.py:1: UserWarning: old", 3), ("  warnings.warn(", 3), ("b", 1)]


def test_a_folded_line_holds_those_it_stands_for() -> None:
    (shown,) = folded(lines(said(0, "a"), said(1, "a")))
    assert shown.holds(0) and shown.holds(100)
    assert not shown.holds(200) and not shown.holds(None)


def test_a_folded_view_scrolls_by_what_is_shown_and_keeps_its_place() -> None:
    log = FakeLog()
    for step in range(20):
        for rank in range(4):
            log.write(said(rank, f"step {step}"))
    port = Viewport()
    port.resize(60, 5)
    port.buffer.replace(log.window(log.lines[40].offset, 0, 40))
    port.set_fold(True)
    port.follow = False
    port.show(log.lines[57].offset, above=0)
    assert [row.text.split("] ")[1] for row in port.rows()] == [f"×4 step {step}" for step in range(14, 19)]
    port.prepend(log.window(port.buffer.start, 30, 0))
    assert port.rows()[0].text.endswith("×4 step 14")
    assert port.scroll(-6) == 0
    assert port.rows()[0].text.endswith("×4 step 8")
    port.set_fold(False)
    assert port.rows()[0].text == log.lines[32].text


# --------------------------------------------------------------------------------------------------------------- places


@pytest.mark.parametrize(
    ("here", "forward", "found"),
    [
        (None, True, Next(10, 1, 3, False)),
        (None, False, Next(30, 3, 3, False)),
        (10, True, Next(20, 2, 3, False)),
        (15, False, Next(10, 1, 3, False)),
        (30, True, Next(10, 1, 3, True)),
        (10, False, Next(30, 3, 3, True)),
    ],
)
def test_the_next_place(here: int | None, forward: bool, found: Next) -> None:
    assert next_of([30, 10, 20, 10], here, forward) == found


def test_no_place_at_all() -> None:
    assert next_of([], 5, True) is None


def test_phases_begin_with_their_first_line() -> None:
    marks = [
        Mark(0, "w", "end", "weights", "TP0", 90),
        Mark(0, "w", "begin", "weights", "TP1", 50),
        Mark(0, "a", "end", "start", "launcher", 0),
        Mark(0, "i", "info", None, "TP0", 10),
    ]
    assert list(phase_begins(marks).items()) == [("start", 0), ("weights", 50)]


def error(offset: int, severity: str, text: str = "boom") -> LogError:
    return LogError(0, "TP0", offset, "x", severity, text)


def test_failures_are_more_than_warnings_where_there_are_any() -> None:
    assert failures([error(5, "warning"), error(9, "consequence"), error(7, "fatal")]) == [7, 9]
    assert failures([error(5, "warning")]) == [5]
    assert tracebacks([error(5, "error"), error(3, "fatal", "x: Traceback (most recent call last):")]) == [3]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("1234", Target(line=1234)),
        ("1,234", Target(line=1234)),
        (" 62% ", Target(share=0.62)),
        ("200%", Target(share=1.0)),
        ("18:00", Target(moment="18:00")),
        ("-5m", Target(moment="-5m")),
        ("weights", Target(offset=50, name="weights")),
        ("KV pool", Target(offset=90, name="kv-pool")),
        ("err", Target(offset=7, name="error")),
        ("error", Target(offset=7, name="error")),
    ],
)
def test_what_a_person_types(typed: str, found: Target) -> None:
    assert target(typed, {"weights": 50, "kv-pool": 90}, [error(7, "fatal")]) == found


@pytest.mark.parametrize("typed", ["", "nonsense", "5 m", "traceback"])
def test_what_is_no_place_is_refused_with_what_is(typed: str) -> None:
    with pytest.raises(Refused) as refused:
        target(typed, {"weights": 50}, [error(7, "fatal")])
    assert "weights" in refused.value.cause or "traceback" in refused.value.what


# ---------------------------------------------------------------------------------------------------------------- pager


def test_the_persons_own_pager_and_its_words() -> None:
    assert log_pager.pager({"PAGER": "most -w 'two words'"}) == ["most", "-w", "two words"]
    with pytest.raises(Refused, match=r"\$PAGER cannot be read"):
        log_pager.pager({"PAGER": "less 'open"})


def test_without_a_pager_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/more" if name == "more" else None)
    assert log_pager.pager({"PAGER": " "}) == ["more"]
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(Refused, match="there is no pager"):
        log_pager.pager({})


def test_less_goes_to_the_place_and_shows_control_sequences() -> None:
    document = Document("-odd name", 4711)
    assert log_pager.command(["/usr/bin/less", "-N"], document) == ["/usr/bin/less", "-N", "+4711P", "--", "-odd name"]
    assert log_pager.command(["most"], Document("/log", 4711)) == ["most", "/log"]
    assert log_pager.surroundings({"LESS": "-r"})["LESS"] == "-r -+r"
    assert log_pager.surroundings({})["LESS"] == "-+r"


def test_a_private_copy_is_for_this_user_only_and_is_gone_afterwards() -> None:
    with log_pager.private(["a", "ü", "c"], 2) as document:
        path = Path(document.path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert path.read_bytes()[document.offset :] == b"c\n"
    assert not path.parent.exists()


def test_a_pager_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refused, match="cannot be started"):
        log_pager.show(["/nonexistent/pager"], Document("/log", 0), {})


def test_an_interrupt_is_the_pagers_alone(tmp_path: Path) -> None:
    """The program under test interrupts itself and its pager, as a terminal does at ^C."""
    code = """
import os, signal, sys
from launchmon.tui import log_pager
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's "&" starts the tests with it ignored
interrupt = "import os, signal; [os.kill(pid, signal.SIGINT) for pid in (os.getppid(), os.getpid())]"
pager = [sys.executable, "-c", interrupt]
with log_pager.undisturbed():
    log_pager.show(pager, log_pager.Document("/log", 0), os.environ)
print("goes on", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=os.environ)
    assert done.stdout == "goes on True\n", done.stderr
