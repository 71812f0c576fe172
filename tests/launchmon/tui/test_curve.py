from __future__ import annotations

import pytest

from launchmon.tui.widgets.curve import curve


@pytest.mark.parametrize(
    ("values", "width", "top", "marks", "tone"),
    [
        ([0.0, 50.0, 100.0], 3, 100.0, "▁▄▇", "curve"),
        ([0.0, 0.0], 3, 100.0, " ▁▁", "muted"),
        ([None, 100.0, None], 3, 100.0, " ▇ ", "curve"),
        ([100.0, 0.0], 1, 100.0, "▁", "muted"),
        ([200.0, 400.0], 2, 100.0, "▄▇", "curve"),
        ([200.0, 400.0], 2, None, "▄▇", "curve"),
        ([0.0, 0.0], 2, None, "  ", "muted"),
        ([None, None], 2, 100.0, "  ", "muted"),
        ([], 2, 100.0, "  ", "muted"),
        ([1.0], 0, 100.0, "", "muted"),
    ],
)
def test_curves(values: list[float | None], width: int, top: float | None, marks: str, tone: str) -> None:
    assert curve(values, width, top) == (marks, tone)
