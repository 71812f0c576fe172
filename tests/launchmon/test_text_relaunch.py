"""What ``relaunch --dry-run`` and ``runs --series`` print for people."""

from __future__ import annotations

from typing import Any

from launchmon.text import ledger_text, relaunch_plan_text


def attempt(number: int, **known: Any) -> dict[str, Any]:
    row = {
        "id": f"run-{number}",
        "attempt": number,
        "phase": "kv-pool",
        "seconds": {"weights": 22.0, "kv-pool": 300.0},
        "ready_s": None,
        "verdict": "deadlock-silent",
        "change": [],
        "alive": False,
        "ended_by": "launchmon",
        "exit_code": -15,
        "best": False,
    }
    return {**row, **known}


def test_attempts_stand_beside_each_other() -> None:
    second = attempt(
        2,
        phase="ready",
        seconds={"weights": 21.0, "kv-pool": 2.0, "http": 1.0},
        ready_s=75.0,
        verdict="ready",
        change=["+ --disable-cuda-graph"],
        alive=True,
        best=True,
    )
    third = attempt(3, ended_by="itself", exit_code=2, change=["- --disable-cuda-graph"], seconds={}, phase=None)
    found = {
        "attempts": [attempt(1), second, third],
        "worked": "run-2",
        "since_it_worked": ["- --disable-cuda-graph"],
    }
    assert ledger_text(found).splitlines() == [
        "  #  GOT TO   weights  kv-pool  http  READY IN  VERDICT          EXIT    ID",
        "  1  kv-pool  22s      5m00s    -     -         deadlock-silent  killed  run-1",
        "* 2  ready    21s      2s       1s    1m15s     ready            lives   run-2",
        "  3  -        -        -        -     -         deadlock-silent  2       run-3",
        "",
        "* the best so far",
        "  2: + --disable-cuda-graph",
        "  3: - --disable-cuda-graph",
        "",
        "changed since it last worked (run-2):",
        "  - --disable-cuda-graph",
    ]


def test_a_plan_is_its_difference_then_its_command() -> None:
    plan = {
        "attempt": 2,
        "environment": "that of the running server, process 7",
        "difference": ["+ --x"],
        "warnings": ["--x is deprecated"],
        "output": ["shown in tmux pane main:1.0 again"],
        "command": "cd / && python --x",
    }
    assert relaunch_plan_text(plan).splitlines() == [
        "attempt 2, environment: that of the running server, process 7",
        "  + --x",
        "  warning: --x is deprecated",
        "  output: shown in tmux pane main:1.0 again",
        "",
        "cd / && python --x",
    ]
    assert "  nothing changes" in relaunch_plan_text({**plan, "difference": []})
