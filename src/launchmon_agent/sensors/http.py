"""The server's port: who listens there, and what the cheap endpoints say.

Nothing listens until all ranks are ready, in every release. What then answers may be another server that had the port
first, so the owner is looked up before anything is believed or even asked.

Every request writes a line into the server's log, and ``/health`` from 0.4.10 on also makes it generate a token. So
``/health`` is never asked, and the others rarely: every 2 s until ready, then every 30 s, since a log that grows by our
own doing would hide the silence of a server that hangs. Releases as of the 37 surveyed, 0.2.15 to 0.5.23.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable

from launchmon_agent.events import Http
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.httpget import Answer, get

ASK_S = 2.0
"""Between requests until the server is ready."""
ASK_READY_S = 30.0
"""Between requests after it has once been ready."""
LOOK_S = 1.0
"""Between looks at who listens until it is ready."""
LOOK_READY_S = 5.0
"""Between looks at who listens after it has once been ready."""
SEARCH_S = 30.0
"""Between searches for the owner of a socket that nobody seems to own: they read all processes' descriptors."""

_METRICS_LIMIT = 4 * 1024 * 1024
_METRIC = re.compile(rb"^sglang:(num_running_reqs|num_queue_reqs)(\{[^}\n]*\})? ([0-9.eE+]+)", re.MULTILINE)
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where to ask a server that listens everywhere


class HttpSensor:
    """One server's port. :meth:`sample` may block for 3 s: call it from a thread of its own."""

    def __init__(
        self,
        launcher_pid: int,
        port: int | None,
        host: str | None,
        version: str | None,
        api_key: str | None,
        is_ours: Callable[[int], bool | None],
        *,
        metrics: bool = False,
    ) -> None:
        """``host``: as given to the server; it chooses among several addresses with this port. Without ``port``
        nothing is known.

        ``version``: of SGLang; None or a development one: endpoints are found out by asking, once. ``is_ours``: whether
        a pid belongs to the run. ``metrics``: the server runs with ``--enable-metrics``.
        """
        self._launcher_pid = launcher_pid
        self._port = port
        self._host = host
        self._api_key = api_key
        self._is_ours = is_ours
        self._metrics = metrics
        number = version_number(version)
        self._info_paths = info_paths(number)
        self._asks_ready = number is None or number >= (0, 5, 20)
        own = proc.namespace("self", "net")
        self._same_network = proc.namespace(launcher_pid, "net") in (own, None)
        self._inodes: frozenset[int] = frozenset()
        self._owner: int | None = None
        self._searched_at: float | None = None
        self._asked_at: float | None = None
        self._was_ready = False
        self._said = Http(0.0)  # what the endpoints said last

    @property
    def pause_s(self) -> float:
        """Seconds after which it is worth looking again."""
        return LOOK_READY_S if self._was_ready else LOOK_S

    def sample(self, now: float) -> Http:
        """Look who listens, and ask where a question is due; what the answers said last stands until the next."""
        if self._port is None:
            return Http(now)
        found = self._listeners(self._port)
        if found is None:
            return Http(now, port=self._port, error="which process listens on the port cannot be read")
        if frozenset(found) != self._inodes:
            self._inodes, self._owner = frozenset(found), None
            self._searched_at, self._asked_at = None, None
            self._said, self._was_ready = Http(now), False
        if not found:
            return Http(now, port=self._port, listening=False)
        self._find_owner(now)
        ours = None if self._owner is None else self._is_ours(self._owner)
        if ours is False:
            error: str | None = f"port {self._port} belongs to process {self._owner}, which is not of this run"
        elif not self._same_network:
            error = "the server is in another network namespace: who listens can be seen, its endpoints not reached"
        else:
            error = self._ask(self._address(found), self._port, now)
        return dataclasses.replace(
            self._said, at=now, port=self._port, owner_pid=self._owner, ours=ours, listening=True, error=error
        )

    def _listeners(self, port: int) -> dict[int, str] | None:
        """In the launcher's network; after its end in ours, where that was the same."""
        found = proc.listeners(self._launcher_pid, port)
        return proc.listeners("self", port) if found is None and self._same_network else found

    def _find_owner(self, now: float) -> None:
        """Once for each socket; again when its owner has let go of it, and now and then while it has none."""
        links = {f"socket:[{inode}]" for inode in self._inodes}
        if self._owner is not None and proc.holds(self._owner, links):
            return
        if self._owner is None and self._searched_at is not None and 0 <= now - self._searched_at < SEARCH_S:
            return
        self._searched_at = now
        self._owner = proc.socket_owner(set(self._inodes), likely=(self._launcher_pid,))

    def _address(self, found: dict[int, str]) -> str:
        """Where to ask. Nothing is looked up by name: that could take longer than the question."""
        addresses = sorted(found.values())
        address = self._host if self._host in addresses else addresses[0]
        return _EVERYWHERE.get(address, address)

    def _ask(self, address: str, port: int, now: float) -> str | None:
        """Ask what is due. Returns what is wrong with the answers."""
        pause = ASK_READY_S if self._was_ready else ASK_S
        if self._asked_at is not None and 0 <= now - self._asked_at < pause:
            return self._said.error
        self._asked_at = now
        ready = self._said.ready
        if self._asks_ready:
            ready = self._get(address, port, "/ready").status
            if ready == 404:  # a release without it, found out by asking
                self._asks_ready, ready = False, None
        if self._said.model_info != 200 or self._was_ready:
            self._ask_info(address, port)
        if self._metrics and self._said.model_info:
            self._ask_metrics(address, port)
        answers = bool(self._said.model_info)
        self._was_ready = self._was_ready or ready == 200 or (answers and not self._asks_ready)
        garbled = self._said.model_info is None or (self._asks_ready and ready is None)
        error = f"what listens on port {port} does not speak HTTP" if garbled else None
        self._said = dataclasses.replace(self._said, ready=ready, error=error)
        return error

    def _ask_info(self, address: str, port: int) -> None:
        answer = self._get(address, port, self._info_paths[0])
        if answer.status == 404 and len(self._info_paths) > 1:
            self._info_paths = self._info_paths[1:]
            answer = self._get(address, port, self._info_paths[0])
        path = _model_path(answer.body) if answer.status == 200 else self._said.model_path
        self._said = dataclasses.replace(self._said, model_info=answer.status, model_path=path)

    def _ask_metrics(self, address: str, port: int) -> None:
        answer = self._get(address, port, "/metrics", _METRICS_LIMIT)
        counts = parse_metrics(answer.body) if answer.status == 200 else {}
        self._said = dataclasses.replace(
            self._said, running=counts.get("num_running_reqs"), queued=counts.get("num_queue_reqs")
        )

    def _get(self, address: str, port: int, path: str, limit: int = 64 * 1024) -> Answer:
        return get(address, port, path, api_key=self._api_key, limit=limit)


def version_number(version: str | None) -> tuple[int, ...] | None:
    """``"0.5.6.post1"`` → ``(0, 5, 6)``. None for no release: a checkout calls itself 0.0.0 or so."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version or "")
    number = tuple(int(part) for part in match.groups()) if match else None
    return number if number and number >= (0, 2, 0) else None


def info_paths(number: tuple[int, ...] | None) -> tuple[str, ...]:
    """Paths to try in turn. The old name works on, and logs a deprecation on each call from 0.5.6."""
    if number is None:
        return "/model_info", "/get_model_info"
    return ("/model_info",) if number >= (0, 5, 6) else ("/get_model_info",)


def parse_metrics(body: bytes) -> dict[str, int]:
    """Requests running and queued: summed over data-parallel ranks, without the parts by priority of newer releases."""
    counts: dict[str, float] = {}
    for name, labels, value in _METRIC.findall(body):
        if re.search(rb'priority="[^"]', labels):
            continue
        try:
            counts[name.decode()] = counts.get(name.decode(), 0.0) + float(value)
        except ValueError:
            continue
    return {name: int(count) for name, count in counts.items() if count < 1 << 60}


def _model_path(body: bytes) -> str | None:
    try:
        path = json.loads(body).get("model_path")
    except (ValueError, AttributeError, RecursionError):
        return None
    return path if isinstance(path, str) else None
