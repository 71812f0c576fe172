"""The toggles of a relaunch: every row of the table, and the spelling that the installed SGLang has."""

from __future__ import annotations

import pytest

from launchmon_agent.sglang.flags.change import Change
from launchmon_agent.sglang.flags.model import FlagList
from launchmon_agent.sglang.toggles import CONCERNS, Toggle, ToggleRow, flags_of_tables, rows, toggles
from tests.support.flag_sources import NEW, OLD

SERVER = ("python", "-m", "sglang.launch_server", "--model-path", "m")


def of(flags: FlagList, *argv: str, **environ: str) -> dict[str, Toggle]:
    return {one.id: one for one in toggles((*SERVER, *argv), environ, flags)}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.id)
def test_every_row_is_a_change_with_a_reason(row: ToggleRow) -> None:
    change = Change.of_words(row.changes)
    assert bool(change.set) == row.is_variable and not change.drop and not change.unset
    assert row.why and row.source


def test_every_concern_has_rows_in_the_order_in_which_they_are_shown() -> None:
    assert tuple(dict.fromkeys(row.concern for row in rows())) == CONCERNS
    assert len({row.id for row in rows()}) == len(rows())


def test_a_toggle_is_spelled_as_the_installed_version_spells_it() -> None:
    assert of(OLD)["graphs-smaller"].change == "--cuda-graph-max-bs=32"
    assert of(NEW)["graphs-smaller"].change == "--cuda-graph-max-bs-decode=32"
    assert "graphs-debug" not in of(OLD)  # which has no such flag
    assert "deepgemm-off-before" not in of(NEW)


def test_a_toggle_says_whether_it_is_on() -> None:
    found = of(OLD, "--disable-cuda-graph", "--attention-backend", "triton", NCCL_DEBUG="WARN")
    assert found["graphs-off"].on and found["graphs-off"].value is None
    assert (found["attention-backend"].value, found["attention-backend"].choices) == (
        "triton",
        ("triton", "flashinfer"),
    )
    assert found["nccl-debug"].on and found["nccl-debug"].value == "WARN"
    assert not found["nccl-p2p-off"].on and not found["symmetric-memory"].on


def test_without_a_list_the_table_is_what_is_known() -> None:
    known = flags_of_tables("0.5.8")
    assert not known.complete
    assert known.full_name("--disable-cuda-graph") and known.full_name("--debug-cuda-graph") is None
    assert of(flags_of_tables(None))["graphs-debug"].change == "--debug-cuda-graph"
