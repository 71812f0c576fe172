from __future__ import annotations

import pytest

from launchmon.tui.launch.form import Installed, build, completion, items, taken
from launchmon.tui.relaunch.draft import Draft
from launchmon_agent.errors import Refused
from tests.support.fake_launcher import FLAGS, PYTHON

HERE = Installed(PYTHON, FLAGS)


def test_a_command_without_a_model_is_none_yet_but_shown() -> None:
    built = build(HERE, Draft(["--tp-size=8"]))
    assert built.refusal is not None
    assert built.shown == f"{PYTHON} -m sglang.launch_server --tp-size 8"


def test_the_command_has_flags_in_the_order_in_which_they_were_filled_in() -> None:
    built = build(HERE, Draft(["--model-path=/m m", "--trust-remote-code", "A=1 2"]))
    assert built.refusal is None and built.env == {"A": "1 2"}
    assert built.argv[-3:] == ("--model-path", "/m m", "--trust-remote-code")
    assert built.shown == f"A='1 2' {PYTHON} -m sglang.launch_server --model-path '/m m' --trust-remote-code"


def test_a_flag_has_one_row_however_it_is_spelt() -> None:
    draft = taken(taken(Draft(), "--tp-size=2", HERE), "--tensor-parallel-size 4", HERE)
    assert draft.words == ("--tp-size=4",)
    assert next(item for item in items(HERE, draft) if item.label == "tp").value == "4"


@pytest.mark.parametrize("text", ["--tp-size=x", "--no-such-flag", "--trust-remote-code=1", "drop --tp-size", "words"])
def test_what_the_server_would_not_take_is_refused_and_changes_nothing(text: str) -> None:
    draft = Draft(["--tp-size=2"])
    with pytest.raises(Refused):
        taken(draft, text, HERE)
    assert draft.words == ("--tp-size=2",)


def test_what_was_added_beyond_the_common_flags_has_rows_of_its_own() -> None:
    more = [item for item in items(HERE, Draft(["--enable-metrics", "A=1", "--port=1"])) if item.section == "more"]
    assert [(item.name, item.value, item.is_switch) for item in more] == [
        ("--enable-metrics", "", True),
        ("A", "1", False),
    ]


@pytest.mark.parametrize(
    ("text", "paths", "models", "longer"),
    [
        ("/m/k", ("/m/kimi-a", "/m/kimi-b"), (), "/m/kimi-"),
        ("/m/kimi-", ("/m/kimi-a", "/m/kimi-b"), (), ""),
        ("/m/k", ("/m/kimi",), (), "/m/kimi/"),
        ("/m/k", ("/m/kimi",), ("/m/kimi",), "/m/kimi"),
        ("/m/kimi", ("/m/kimi",), ("/m/kimi",), ""),
        ("/m/x", (), (), ""),
    ],
)
def test_completion(text: str, paths: tuple[str, ...], models: tuple[str, ...], longer: str) -> None:
    assert completion(text, {"directories": [{"path": path, "model": path in models} for path in paths]}) == longer
