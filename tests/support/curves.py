"""What the screen draws as curves, as plain numbers."""

from __future__ import annotations

from collections.abc import Sequence

from launchmon.session_like import ModelLike


def utilisation(model: ModelLike, index: int, node: int | None = None) -> Sequence[float | None]:
    """Of one GPU over the last samples, oldest first, percent; None: nobody looked."""
    return tuple(None if sample is None else sample.util_percent for sample in model.samples.of_gpu(index, node))
