"""SGLang's ``utils/common.py``, as far as the ranks need it."""

from __future__ import annotations

import json

from launchmon.demo.engine.distributed_c10d import ProcessGroup, broadcast


def broadcast_pyobj(data: list[dict[str, object]], group: ProcessGroup) -> list[dict[str, object]]:
    """Rank 0's list, on every rank."""
    received: list[dict[str, object]] = json.loads(broadcast(json.dumps(data).encode(), group))
    return received
