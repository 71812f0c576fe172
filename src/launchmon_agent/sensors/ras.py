"""Asks NCCL itself how far each rank has come: its RAS, a text port in every NCCL process since 2.24. No ptrace.

One question to any process of a job answers for all ranks on all nodes. Facts from ``src/ras/client_support.cc`` and
``collectives.cc`` of NCCL 2.24 to 2.31:

* Commands are lines. ``timeout N`` and ``set format json`` (2.28.7+) are each answered by ``OK`` or ``ERROR: …``;
  after ``verbose status`` comes the answer, and the connection is closed.
* NCCL waits ``timeout`` seconds for processes that show delays, and then 5 s more for those of which others may know:
  so a job with a stopped process, the one that matters, is the one that answers late.
* Processes of one machine share the port (SO_REUSEPORT), those of other jobs and users too: a launched run has an
  address of its own, and each pid in an answer is compared with the run's.
* The port is closed until the first communicator exists.

Counts are of launches, not of completions: an idle server has equal counts that stand still. So it is asked only while
something is outstanding, and what the counts mean is for :mod:`launchmon_agent.judge.collectives`.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import socket
import time
from collections.abc import Callable, Sequence

from launchmon_agent.events import CollectiveRank, Process, Ras
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.addresses import local_addresses
from launchmon_agent.sensors.ras_answer import Unreadable, parse
from launchmon_agent.sglang.titles import SCHEDULER

DEFAULT_ADDRESS = "localhost:28028"
POLL_S = 5.0
"""Between two questions; NCCL's own monitors do not ask more often either."""
CONNECT_S = 2.0
REPLY_S = 2.0
"""For ``OK``, which NCCL says at once."""
COLLECT_S = 1
"""NCCL's own patience with a process that shows delays, whole seconds."""
ANSWER_S = COLLECT_S + 5 + 1.0
"""For the answer: see above."""
_LIMIT = 16 * 1024 * 1024


class RasSensor:
    """One run's NCCL. :meth:`sample` may block for a dozen seconds: call it from a thread of its own."""

    def __init__(
        self,
        launcher_pid: int | None,
        environ: Callable[[int], dict[str, str] | None] = proc.environ,
        addresses: Callable[[], frozenset[str]] | None = None,
    ) -> None:
        """``environ``: of a process; ``addresses``: of this machine."""
        self._launcher_pid = launcher_pid
        self._environ = environ
        self._addresses = addresses or local_addresses
        self._asked_at: float | None = None
        self._last: Ras | None = None

    def sample(self, now: float, processes: Sequence[Process], *, outstanding: bool) -> Ras | None:
        """The newest answer, or the trouble with it; None while nothing was asked yet.

        ``outstanding``: a launch goes on, or a request waits for its answer; else nothing is asked.
        """
        due = self._asked_at is None or not 0 <= now - self._asked_at < POLL_S
        ranks = [one for one in processes if one.role == SCHEDULER and one.pid > 0 and one.state != "Z"]
        if due and outstanding and ranks:
            self._asked_at = now
            self._last = self._ask(now, ranks)
        return self._last

    def _ask(self, now: float, ranks: Sequence[Process]) -> Ras:
        variables = self._variables(ranks)
        address = variables.get("NCCL_RAS_ADDR") or DEFAULT_ADDRESS
        if variables.get("NCCL_RAS_ENABLE") == "0":
            return Ras(now, address=address, error="NCCL's RAS is turned off: NCCL_RAS_ENABLE=0")
        if proc.namespace(ranks[0].pid, "net") not in (proc.namespace("self", "net"), None):
            return Ras(
                now, address=address, error="the server is in another network namespace, where it is not reached"
            )
        try:
            text = ask(address)
        except (OSError, ValueError) as error:
            return Ras(now, address=address, error=_words(error))
        known = {_own_pid(rank.pid) for rank in ranks}
        here = self._addresses()

        def is_ours(host: str | None, pid: int | None) -> bool | None:
            if host is None or pid is None or not (host in here or _is_loopback(host)):
                return None
            return pid in known

        try:
            said = parse(text, now, address, is_ours)
        except Unreadable as error:
            return Ras(now, address=address, error=str(error))
        return only_ours(said)

    def _variables(self, ranks: Sequence[Process]) -> dict[str, str]:
        """Of the first process that shows its environment: a title may have taken its place in a rank's."""
        for pid in (*(rank.pid for rank in ranks), self._launcher_pid):
            found = None if pid is None else self._environ(pid)
            if found:
                return found
        return {}


def ask(address: str) -> str:
    """The status, in JSON where NCCL knows that. Raises OSError (TimeoutError included), ValueError for no address."""
    host, port = split_address(address)
    with socket.create_connection((host, port), timeout=CONNECT_S) as connection:
        for command in (f"timeout {COLLECT_S}", "set format json"):
            connection.settimeout(REPLY_S)
            connection.sendall(command.encode() + b"\n")
            _line(connection)
        connection.sendall(b"verbose status\n")
        return _rest(connection, time.monotonic() + ANSWER_S)


def split_address(address: str) -> tuple[str, int]:
    """``host:port``, ``[::1]:port``. Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or not 0 < int(port) < 65536 or not host:
        raise ValueError(f"NCCL_RAS_ADDR={address} is no host:port")
    return host.strip("[]"), int(port)


def only_ours(said: Ras) -> Ras:
    """Without the communicators of other jobs, which may answer at the same port. Pure."""
    kept = tuple(one for one in said.communicators if not _is_foreign(one.ranks))
    error = None
    if said.communicators and not kept:
        error = "another job answers at this port: none of its processes is of this run"
    return dataclasses.replace(said, communicators=kept, error=error)


def _is_foreign(ranks: Sequence[CollectiveRank]) -> bool:
    """Some of its ranks run here, and none of them is ours."""
    here = [rank.ours for rank in ranks if rank.ours is not None]
    return bool(here) and not any(here)


def _own_pid(pid: int) -> int:
    """As the process itself sees it, in its own pid namespace."""
    memory = proc.memory(pid)
    return memory.nspid[-1] if memory is not None and memory.nspid else pid


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _line(connection: socket.socket) -> str:
    data = b""
    while not data.endswith(b"\n"):
        part = connection.recv(1)
        if not part or len(data) > 4096:
            raise ConnectionError("what listens there does not speak NCCL's RAS")
        data += part
    text = data.decode("utf-8", "replace").strip()
    if text != "OK" and not text.startswith("ERROR"):
        raise ConnectionError("what listens there does not speak NCCL's RAS")
    return text


def _rest(connection: socket.socket, deadline: float) -> str:
    parts: list[bytes] = []
    size = 0
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or size > _LIMIT:
            raise TimeoutError
        connection.settimeout(left)
        part = connection.recv(65536)
        if not part:
            return b"".join(parts).decode("utf-8", "replace")
        parts.append(part)
        size += len(part)


def _words(error: OSError | ValueError) -> str:
    match error:
        case ConnectionRefusedError():
            return "nobody listens: no communicator exists yet, or NCCL is older than 2.24"
        case TimeoutError():
            return "no answer in time"
        case OSError():
            return error.strerror or str(error) or type(error).__name__
    return str(error)
