"""The warm-up: the server's own first request, over HTTP, and the line that says it is ready."""

from __future__ import annotations

import http.client
import json
import time

from launchmon.demo.engine.http_server import UP, HttpServer
from launchmon.demo.engine.log import Logger
from launchmon.demo.options import Options

PROMPT = "The capital city of France is"
ATTEMPTS = 120


def _execute_server_warmup(options: Options, server: HttpServer | None, log: Logger) -> None:
    """``server`` is None when the port could not be had.

    As in SGLang it is whoever answers on that port who is asked: with another server there, the ready line still comes.
    """
    time.sleep(options.scenario.seconds["warm-up"] / options.speed)
    for _ in range(ATTEMPTS):
        if _ask(options, "GET", "/model_info") == 200:
            break
        time.sleep(1.0 / options.speed)
    else:
        return
    body: dict[str, object] = {"text": PROMPT, "sampling_params": {"temperature": 0, "max_new_tokens": 8}}
    if _ask(options, "POST", "/generate", body) != 200:
        return
    _ask(options, "POST", "/freeze_gc")
    log.info("The server is fired up and ready to roll!")
    if server is not None:
        server.status = UP


def _ask(options: Options, method: str, path: str, body: dict[str, object] | None = None) -> int | None:
    """The HTTP status, or None when there was no answer."""
    connection = http.client.HTTPConnection(options.host, options.port, timeout=600)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
