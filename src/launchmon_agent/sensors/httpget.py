"""One GET to a local server that may be anything: broken, hostile, hung, or no web server at all.

Written on sockets because nothing in the standard library bounds the whole of an answer: its timeouts are for each
read, so a peer that sends a byte a second holds a client for ever. Proxies are not used and redirects not followed.
"""

from __future__ import annotations

import re
import socket
import time
from dataclasses import dataclass

TIMEOUT_S = 1.0
_HEAD_LIMIT = 16 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r\n]")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)[ \t]*\r\n", re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    status: int | None  # 0: none within the time; None: something that is no HTTP
    body: bytes = b""  # as much as came, up to the limit


def get(
    address: str,
    port: int,
    path: str,
    *,
    api_key: str | None = None,
    limit: int = 64 * 1024,
    timeout: float = TIMEOUT_S,
) -> Answer:
    """``address`` is numeric: nothing is looked up. Returns within ``timeout``, and never raises."""
    deadline = time.monotonic() + timeout
    key = "" if api_key is None else f"Authorization: Bearer {_one_line(api_key)}\r\n"
    host = f"[{address}]" if ":" in address else address
    # HTTP/1.0: the answer ends with the connection, and is never sent in chunks
    request = f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\nUser-Agent: launchmon\r\nAccept: */*\r\n{key}\r\n"
    data = bytearray()
    try:
        with socket.create_connection((address, port), timeout=timeout) as peer:
            peer.settimeout(max(0.001, deadline - time.monotonic()))
            peer.sendall(request.encode("utf-8", "replace"))
            while not _whole(data, limit):
                peer.settimeout(max(0.001, deadline - time.monotonic()))
                part = peer.recv(64 * 1024)
                if not part or time.monotonic() >= deadline:
                    break
                data += part
    except OSError:  # timed out, refused, reset: what came until then may be a whole answer
        pass
    return _answer(bytes(data), limit)


def _whole(data: bytearray, limit: int) -> bool:
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return len(data) > _HEAD_LIMIT or (len(data) >= 16 and _STATUS.match(data) is None)
    length = _LENGTH.search(data, 0, end + 2)
    wanted = limit if length is None else min(limit, int(length[1]))
    return len(data) - end - 4 >= wanted


def _answer(data: bytes, limit: int) -> Answer:
    status = _STATUS.match(data)
    head, separator, body = data.partition(b"\r\n\r\n")
    if status and separator and len(head) <= _HEAD_LIMIT:
        return Answer(int(status[1]), body[:limit])
    return Answer(0 if not data or data.startswith(b"HTTP/") else None)


def _one_line(text: str) -> str:
    return text.replace("\r", "").replace("\n", "")
