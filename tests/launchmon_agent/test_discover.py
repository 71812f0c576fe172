"""Choosing one of several servers."""

from __future__ import annotations

import pytest

from launchmon_agent.discover import Found, select
from launchmon_agent.errors import Refused
from launchmon_agent.output import Output
from launchmon_agent.runs.outlets import Pane

PANE = Pane(id="%3", name="main:1.0", tty="/dev/pts/4", socket="/tmp/tmux-0/default")


def found(pid: int, port: int, tmux: Pane | None = None, run_id: str | None = None, key: str = "") -> Found:
    argv = ("python", "-m", "sglang.launch_server", "--model-path", f"org/m{pid}", "--port", str(port), "--tp", "8")
    return Found(
        pid=pid,
        start_time=1.0,
        argv=(*argv, "--api-key", key) if key else argv,
        cwd="/",
        user="me",
        ranks=8,
        pids=(pid, pid + 1, pid + 2),
        output=Output("none"),
        tmux=tmux,
        run_id=run_id,
    )


FIRST = found(9_000_100, 1, key="s3cret")
SECOND = found(9_000_200, 2, tmux=PANE)
THIRD = found(9_000_300, 3, run_id="20261129-175800-kimi")
ALL = [FIRST, SECOND, THIRD]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"pid": 9_000_100}, FIRST),
        ({"pid": 9_000_202}, SECOND),
        ({"port": 2}, SECOND),
        ({"tmux": "%3"}, SECOND),
        ({"tmux": "main:1.0"}, SECOND),
        ({"tmux": "main:1"}, SECOND),
        ({"tmux": "main"}, SECOND),
        ({"run": "20261129-175800-kimi"}, THIRD),
        ({"run": "kimi"}, THIRD),
        ({"run": "pid-9000100"}, FIRST),
        ({"port": 3, "pid": 9_000_301}, THIRD),
    ],
)
def test_each_selector(selector: dict[str, object], expected: Found) -> None:
    assert select(ALL, **selector) is expected  # type: ignore[arg-type]


def test_the_only_one_needs_no_selector() -> None:
    assert select([SECOND]) is SECOND


def test_none_at_all() -> None:
    with pytest.raises(Refused, match="No SGLang server is running here"):
        select([])


def test_several_are_listed_without_secrets() -> None:
    with pytest.raises(Refused) as refused:
        select(ALL)
    assert refused.value.what == (
        "Several servers are running here: pid 9000100, port 1, org/m9000100, tp 8; "
        "pid 9000200, port 2, org/m9000200, tp 8; pid 9000300, port 3, org/m9000300, tp 8"
    )
    assert refused.value.try_ == "launchmon attach --pid 9000100"
    assert "s3cret" not in refused.value.what


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ({"pid": 1}, "No server here has process 1"),
        ({"port": 4}, "No server here has port 4"),
        ({"tmux": "%9"}, "No server here has tmux pane %9"),
        ({"run": "glm"}, "No server here has id glm"),
        ({"port": 1, "tmux": "%3"}, "No server here has port 1 and tmux pane %3"),
    ],
)
def test_what_is_not_there(selector: dict[str, object], said: str) -> None:
    with pytest.raises(Refused, match=said):
        select(ALL, **selector)  # type: ignore[arg-type]
    with pytest.raises(Refused, match=f"{said}: no SGLang server is running here"):
        select([], **selector)  # type: ignore[arg-type]


def test_two_servers_of_one_port_are_told_apart_by_who_listens_there() -> None:
    with pytest.raises(Refused, match="Several servers are meant by port 1"):
        select([FIRST, found(9_000_400, 1)], port=1)


@pytest.mark.parametrize("text", ["%4", "main:2", "mai", "", "main:1.1", "other"])
def test_names_of_other_panes(text: str) -> None:
    assert not PANE.is_named(text)
