from __future__ import annotations

from pathlib import Path

import pytest

from launchmon_agent.sglang.secrets import HIDDEN
from launchmon_agent.sglang.server_args import parse_server_args, shown_args

LOGS = Path(__file__).parents[2] / "recordings" / "logs"


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda path: path.stem)
def test_the_lines_of_real_runs(path: Path) -> None:
    for line in path.read_text().splitlines():
        args = parse_server_args(line)
        if args is not None:
            assert len(args) > 500
            assert args["model_path"].startswith("/models/")
            assert isinstance(args["port"], int)
            assert args["api_key"] is None


def test_both_forms_give_the_same() -> None:
    expected = {
        "model_path": "a, b='c'",
        "tp_size": 8,
        "nested": {"x": [1, (2, 3)]},
        "backend": "<Backend.X: {1}>",
        "api_key": HIDDEN,
        "admin_api_key": None,
        "flag": True,
    }
    values = {**expected, "backend": Odd(), "api_key": "s3cret"}
    fields = ", ".join(f"{name}={value!r}" for name, value in values.items())
    assert parse_server_args(f"server_args=ServerArgs({fields}) and more") == expected
    assert parse_server_args(f"server_args={values!r}") == expected


class Odd:
    def __repr__(self) -> str:
        return "<Backend.X: {1}>"


@pytest.mark.parametrize(
    ("line", "args"),
    [
        ("no arguments here", None),
        ("server_args={}", {}),
        ("server_args=ServerArgs(a=1, b='cut in the mid", {"a": 1}),
        ("server_args={'a': 1, 'b': [1, 2", {"a": 1}),
        ("server_args={'a': }, ", {"a": ""}),
        ("server_args={((((((", {}),
    ],
)
def test_lines_that_are_cut_or_odd(line: str, args: dict[str, object] | None) -> None:
    assert parse_server_args(line) == args


def test_what_travels_with_the_mark_is_text_and_leaves_out_what_is_not_set() -> None:
    line = "server_args=ServerArgs(model_path='/m', tp_size=8, speculative_algorithm=None, api_key='s3cret')"
    assert shown_args(line) == {"model_path": "/m", "tp_size": "8"}
