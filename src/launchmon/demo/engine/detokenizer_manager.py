"""The detokenizer: turns the tokens of rank 0 into text for the launcher. Idle, it blocks in a ``recv``."""

from __future__ import annotations

import socket
import time

from launchmon.demo.engine import process
from launchmon.demo.engine.channel import Channel, Closed

WORDS = ("this", "answer", "is", "simulated")


def run_detokenizer_process(launcher: int, import_s: float, tokens: socket.socket, texts: socket.socket) -> None:
    """Ends when rank 0 has gone."""
    process.ignore_interrupts()
    time.sleep(import_s)
    process.become("sglang::detokenizer", launcher)
    scheduler, manager = Channel(tokens), Channel(texts)
    try:
        event_loop(scheduler, manager)
    except Closed:
        pass


def event_loop(scheduler: Channel, manager: Channel) -> None:
    """Raises :class:`Closed` when either side has gone."""
    while True:
        message = scheduler.receive()
        if message is None:
            continue
        ids = message["output_ids"]
        count = len(ids) if isinstance(ids, list) else 0
        text = " ".join(WORDS[index % len(WORDS)] for index in range(count))
        manager.send({"rid": message["rid"], "text": text, "completion_tokens": count})
