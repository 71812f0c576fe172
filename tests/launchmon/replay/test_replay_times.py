"""Moments as people write them."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from launchmon.replay.times import moment
from launchmon_agent.errors import Refused

BEGIN = datetime(2026, 11, 29, 23, 50).astimezone().timestamp()
END = BEGIN + 1200


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("start", 0),
        ("end", 1200),
        ("90", 90),
        ("+90s", 90),
        ("1m30s", 90),
        ("1.5", 1.5),
        ("-30s", 1170),
        ("-1m", 1140),
        ("99h", 1200),
        ("-99h", 0),
        (f"{10**400}h", 1200),
        ("23:55", 300),
        ("23:55:10", 310),
        ("0:05", 900),  # of the next day
        (" END ", 1200),
    ],
)
def test_a_moment(text: str, after: float) -> None:
    assert moment(text, BEGIN, END) == BEGIN + after


def test_a_date_with_a_zone() -> None:
    at = datetime.fromtimestamp(BEGIN + 60, timezone.utc)
    assert moment(at.isoformat().replace("+00:00", "Z"), BEGIN, END) == BEGIN + 60


@pytest.mark.parametrize("text", ["", "soon", "25:00", "12:61", "1x", "--", "+", "1m2h"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(Refused, match="no time of a recording"):
        moment(text, BEGIN, END)
