"""Values that SGLang would refuse at once, and flags that do not go together."""

from __future__ import annotations

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.sglang.flags.check import Contradiction, check_values, contradictions, rows
from launchmon_agent.sglang.flags.model import MAYBE, Flag
from tests.support.flag_sources import NEW, OLD


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("--port", ("thirty",), "a whole number"),
        ("--mem-fraction-static", ("0,8",), "a number"),
        ("--json-model-override-args", ("{",), "a JSON value"),
        ("--attention-backend", ("tritn",), "no choice"),
        ("--port", (), "needs a value"),
        ("--attention-backend", (), "needs one of triton, flashinfer"),
        ("--disable-cuda-graph", ("true",), "takes no value"),
        ("--port", ("1", "2"), "takes one value"),
        ("--cuda-graph-bs", ("1", "x"), "a whole number"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(name: str, values: tuple[str, ...], words: str) -> None:
    flag = OLD.get(name)
    assert flag is not None
    with pytest.raises(Refused, match=words):
        check_values(name, flag, values)


def test_a_wrong_choice_is_refused_with_the_nearest() -> None:
    flag = OLD.get("--attention-backend")
    assert flag is not None
    with pytest.raises(Refused) as caught:
        check_values("--attention-backend", flag, ("tritn",))
    assert caught.value.try_ == "--add --attention-backend=triton"


@pytest.mark.parametrize(
    ("flag", "values"),
    [
        (Flag("--a", type="int"), ("-1",)),
        (Flag("--a", type="float"), ("1e-3",)),
        (Flag("--a", type="human_readable_int"), ("4k",)),
        (Flag("--a", takes=MAYBE), ()),
        (Flag("--a"), ("any thing",)),
    ],
)
def test_a_value_that_fits_is_taken(flag: Flag, values: tuple[str, ...]) -> None:
    check_values(flag.name, flag, values)


SERVER = ("python", "-m", "sglang.launch_server", "--model-path", "m")


def test_a_pair_that_does_not_go_together_is_named() -> None:
    (said,) = contradictions((*SERVER, "--disable-cuda-graph", "--cuda-graph-max-bs", "8"), OLD)
    assert said.startswith("--disable-cuda-graph and --cuda-graph-max-bs: ")
    assert contradictions((*SERVER, "--cuda-graph-max-bs", "8"), OLD) == ()


def test_a_repeated_flag_is_named_under_whatever_name() -> None:
    (said,) = contradictions((*SERVER, "--tp", "2", "--tensor-parallel-size", "4"), OLD)
    assert "2 times" in said


def test_a_pair_may_name_a_value() -> None:
    row = next(row for row in rows() if row.id == "decode-graphs-off-and-backend")
    assert dict(row.flags)["--cuda-graph-backend-decode"] == "full"
    argv = (*SERVER, "--disable-decode-cuda-graph", "--cuda-graph-backend-decode")
    assert len(contradictions((*argv, "full"), NEW)) == 1
    assert contradictions((*argv, "disabled"), NEW) == ()


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.id)
def test_every_contradiction_is_whole(row: Contradiction) -> None:
    assert len(row.flags) >= 2 and row.why
    assert len({name for name, _ in row.flags}) == len(row.flags)
