"""Requests as the launcher sees them: sent to rank 0, answered through the detokenizer."""

from __future__ import annotations

import socket
import threading
import uuid

from launchmon.demo.engine.channel import Channel, Closed


class TokenizerManager:
    """``rid_to_state`` has the requests in flight; a shutdown waits for them without limit, as SGLang's does."""

    def __init__(self, scheduler: socket.socket, detokenizer: socket.socket) -> None:
        self._scheduler = Channel(scheduler)
        self._detokenizer = Channel(detokenizer)
        self._sending = threading.Lock()
        self.rid_to_state: dict[str, _Waiter] = {}
        threading.Thread(target=self.handle_loop, name="handle_loop", daemon=True).start()

    def generate(self, text: str, max_new_tokens: int, timeout_s: float | None = None) -> dict[str, object] | None:
        """The answer, or None when there was none in time."""
        rid = uuid.uuid4().hex
        waiter = self.rid_to_state[rid] = _Waiter()
        message: dict[str, object] = {
            "kind": "generate",
            "rid": rid,
            "input_tokens": max(1, len(text.split())),
            "max_new_tokens": max_new_tokens,
        }
        try:
            self._dispatch_to_scheduler(message)
            waiter.done.wait(timeout_s)
        finally:
            self.rid_to_state.pop(rid, None)
        return waiter.answer

    def shut_down(self) -> None:
        """Asks all ranks to end."""
        self._dispatch_to_scheduler({"kind": "shutdown"})

    def handle_loop(self) -> None:
        while True:
            try:
                message = self._detokenizer.receive()
            except Closed:
                return
            waiter = self.rid_to_state.get(str(message["rid"])) if message else None
            if waiter is not None:
                waiter.answer = message
                waiter.done.set()

    def _dispatch_to_scheduler(self, message: dict[str, object]) -> None:
        with self._sending:
            try:
                self._scheduler.send(message)
            except Closed:
                pass  # the watchdog says what has happened to the ranks


class _Waiter:
    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer: dict[str, object] | None = None
