"""How requests reach every rank: rank 0 takes them from the launcher and broadcasts them, on every turn of the loop."""

from __future__ import annotations

import time

from launchmon.demo.engine.channel import Channel, Closed
from launchmon.demo.engine.common import broadcast_pyobj
from launchmon.demo.engine.distributed_c10d import ProcessGroup

IDLE_S = 0.5
"""How long rank 0 waits for a request before it sends an empty list round, as with ``--sleep-on-idle``."""

SHUTDOWN: dict[str, object] = {"kind": "shutdown"}


class SchedulerRequestReceiver:
    """``frontend`` is rank 0's connection to the launcher.

    ``traffic_s``: rank 0 makes up a request each so many seconds; 0: none.
    """

    def __init__(self, group: ProcessGroup, frontend: Channel | None, traffic_s: float) -> None:
        self._group = group
        self._frontend = frontend
        self._traffic_s = traffic_s
        self._last_traffic = time.monotonic()

    def recv_requests(self) -> list[dict[str, object]]:
        requests = [] if self._frontend is None else self._take(self._frontend)
        return self._broadcast_reqs_across_ranks(requests)

    def _broadcast_reqs_across_ranks(self, requests: list[dict[str, object]]) -> list[dict[str, object]]:
        return broadcast_pyobj(requests, self._group)

    def _take(self, frontend: Channel) -> list[dict[str, object]]:
        try:
            message = frontend.receive(IDLE_S)
        except Closed:
            return [SHUTDOWN]
        if message is not None:
            return [message]
        now = time.monotonic()
        if self._traffic_s and now - self._last_traffic >= self._traffic_s:
            self._last_traffic = now
            return [{"kind": "generate", "rid": None, "input_tokens": 512, "max_new_tokens": 120}]
        return []
