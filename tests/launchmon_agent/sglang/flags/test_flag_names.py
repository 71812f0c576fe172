"""Names as argparse takes them: in full, shortened, ambiguous, misspelt, gone."""

from __future__ import annotations

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.sglang.flags.model import Flag, FlagList, merged
from launchmon_agent.sglang.flags.renames import refuse_removed, rows, successor
from tests.support.flag_sources import NEW, OLD


@pytest.mark.parametrize(
    ("written", "full"),
    [
        ("--tp-size", "--tp-size"),
        ("--tp", "--tp-size"),
        ("--tensor", "--tensor-parallel-size"),
        ("--model", "--model"),  # an alias in full, though a prefix of --model-path
        ("--disable-cuda-graph", "--disable-cuda-graph"),  # though a prefix of …-padding
        ("--no-spec", "--no-speculative-adaptive"),
        ("--cuda-graph", None),
        ("--", None),
        ("--nothing-of-this", None),
    ],
)
def test_a_name_stands_for_one_flag_or_none(written: str, full: str | None) -> None:
    assert OLD.full_name(written) == full
    assert OLD.has(written) is (full is not None)


def test_aliases_of_one_flag_are_not_ambiguous() -> None:
    flags = FlagList((Flag("--same-thing", ("--same-other",)),))
    assert flags.find("--same") == flags.flags[0]


def test_an_ambiguous_name_is_refused_with_what_it_could_be() -> None:
    with pytest.raises(Refused, match=r"ambiguous.*--cuda-graph-max-bs-decode, --cuda-graph-max-bs-prefill") as caught:
        NEW.resolve("--cuda-graph-max-bs")
    assert caught.value.try_ == "--add --cuda-graph-max-bs-decode"


@pytest.mark.parametrize(
    ("written", "nearest"),
    [
        ("--disable-cuda-grpah", "--disable-cuda-graph"),
        ("--atention-backend", "--attention-backend"),
        ("--memory-fraction-static", "--mem-fraction-static"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(written: str, nearest: str) -> None:
    with pytest.raises(Refused, match=f"SGLang 0.5.8 has no flag {written}") as caught:
        OLD.resolve(written)
    assert caught.value.try_ == f"--add {nearest}"


def test_a_word_without_dashes_is_no_flag() -> None:
    with pytest.raises(Refused, match="is no flag"):
        OLD.resolve("tp-size")


def test_an_incomplete_list_takes_unknown_names_but_no_misspelt_ones() -> None:
    partly = FlagList(OLD.flags, complete=False)
    assert partly.has("--of-a-plugin") is None
    assert partly.resolve("--of-a-plugin") == "--of-a-plugin"
    with pytest.raises(Refused, match="not a known flag"):
        partly.resolve("--disable-cuda-grpah")


def test_the_first_declaration_of_a_flag_counts() -> None:
    assert merged([Flag("--a", help="1"), Flag("--b", ("--a",)), Flag("--a", help="2")]) == (Flag("--a", help="1"),)


# ------------------------------------------------------------------------------------------------------------- renames


def test_a_flag_that_is_gone_is_refused_with_its_successor_and_keeps_its_value() -> None:
    with pytest.raises(Refused, match=r"no flag --cuda-graph-max-bs .*0\.3\.6-0\.5\.19") as caught:
        refuse_removed("--cuda-graph-max-bs", "64", NEW)
    assert caught.value.try_ == "--add --cuda-graph-max-bs-decode=64"
    refuse_removed("--cuda-graph-max-bs", "64", OLD)  # which has it
    assert successor("--cuda-graph-max-bs", OLD) is None


def test_a_flag_that_nothing_replaces_is_to_be_left_out() -> None:
    with pytest.raises(Refused) as caught:
        refuse_removed("--enable-nan-detection", "", NEW)
    assert caught.value.try_ == "leave it out"
    assert "no flag replaces it" in caught.value.cause


@pytest.mark.parametrize("row", rows().values(), ids=lambda row: row.old)
def test_every_rename_is_whole(row: object) -> None:
    from launchmon_agent.sglang.flags.renames import Rename

    assert isinstance(row, Rename)
    assert row.held.since is not None and row.held.until is not None
    assert row.old not in row.new
    assert row.why or row.new
