"""The HTTP side of the launcher: the cheap endpoints, ``/generate``, and uvicorn's lines in the log."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from launchmon.demo.engine.log import OUT, Logger
from launchmon.demo.engine.tokenizer_manager import TokenizerManager
from launchmon.demo.options import Options

HEALTH_CHECK_TIMEOUT_S = 20.0

STARTING, UP, UNHEALTHY = "starting", "up", "unhealthy"


class HttpServer(ThreadingHTTPServer):
    """Binds the port when it is made: raises :class:`OSError` when that is not possible."""

    daemon_threads = True

    def __init__(self, options: Options, manager: TokenizerManager, log: Logger) -> None:
        self.options = options
        self.manager = manager
        self.log = log
        self.status = STARTING
        self.shutting_down = False
        super().__init__((options.host, options.port), Handler)

    def server_bind(self) -> None:
        # HTTPServer's own looks up the name of the host, which can take seconds where there is no name service.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.options.host, self.options.port

    def serve(self) -> None:
        """Answers from a thread of its own."""
        threading.Thread(target=self.serve_forever, name="http", daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is not worth a traceback in the log."""


class Handler(BaseHTTPRequestHandler):
    server: HttpServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        status = self.server.status
        if path in ("/health", "/health_generate"):
            self._answer(self._health())
        elif path == "/ready":
            self._answer(HTTPStatus.OK if status == UP else HTTPStatus.SERVICE_UNAVAILABLE)
        elif path == "/ping":
            self._answer(HTTPStatus.OK)
        elif path in ("/model_info", "/get_model_info"):
            self._answer(HTTPStatus.OK, self._model_info())
        elif path == "/v1/models":
            self._answer(HTTPStatus.OK, self._models())
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"detail": "Not Found"})

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path == "/generate":
            self._generate(raw)
        elif path == "/freeze_gc":
            self._answer(HTTPStatus.OK)
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"detail": "Not Found"})

    def _health(self) -> HTTPStatus:
        """From 0.4.10 on each check generates a token, takes a second, and leaves its lines in the log."""
        server = self.server
        if server.shutting_down:
            server.log.info("Health check request received during shutdown. Returning 503.")
            return HTTPStatus.SERVICE_UNAVAILABLE
        if server.status == STARTING:
            return HTTPStatus.SERVICE_UNAVAILABLE
        began = time.strftime("%H:%M:%S")
        speed = server.options.speed
        time.sleep(1.0 / speed)
        if server.manager.generate("health", 1, HEALTH_CHECK_TIMEOUT_S / speed) is None:
            server.log.info(
                "Health check failed. Server couldn't get a response from detokenizer for last "
                f"{HEALTH_CHECK_TIMEOUT_S:.0f} seconds. tic start time: {began}."
            )
            server.status = UNHEALTHY
            return HTTPStatus.SERVICE_UNAVAILABLE
        server.status = UP
        return HTTPStatus.OK

    def _generate(self, raw: bytes) -> None:
        try:
            body = json.loads(raw)
            text = str(body.get("text", ""))
            new_tokens = min(2048, max(1, int((body.get("sampling_params") or {}).get("max_new_tokens", 128))))
        except (ValueError, TypeError, AttributeError):
            self._answer(HTTPStatus.BAD_REQUEST, {"error": {"message": "the body is not a request"}})
            return
        answer = self.server.manager.generate(text, new_tokens)
        if answer is None:
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR)
            return
        self._answer(
            HTTPStatus.OK,
            {
                "text": answer["text"],
                "meta_info": {
                    "id": answer["rid"],
                    "finish_reason": {"type": "length", "length": new_tokens},
                    "completion_tokens": answer["completion_tokens"],
                },
            },
        )

    def _model_info(self) -> dict[str, Any]:
        path = self.server.options.model_path
        return {
            "model_path": path,
            "served_model_name": path,
            "tokenizer_path": path,
            "is_generation": True,
            "weight_version": "default",
            "load_format": "auto",
        }

    def _models(self) -> dict[str, Any]:
        path = self.server.options.model_path
        length = self.server.options.scenario.model.context_len
        return {
            "object": "list",
            "data": [{"id": path, "object": "model", "owned_by": "sglang", "max_model_len": length}],
        }

    def _answer(self, status: HTTPStatus, body: dict[str, Any] | None = None) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if body is not None:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_request(self, code: Any = "-", size: Any = "-") -> None:  # noqa: ARG002
        client = f"{self.client_address[0]}:{self.client_address[1]}"
        status = HTTPStatus(int(code))
        text = f'INFO:     {client} - "{self.command} {self.path} HTTP/1.1" {status.value} {status.phrase}'
        self.server.log.info(text, to=OUT)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Only access lines go into the log."""
