"""Reads the ``server_args=`` line: what SGLang resolved every argument to. Pure.

0.2.15 to 0.5.18 print a dataclass, ``ServerArgs(model_path='…', tp_size=8, …)``; 0.5.19 and later a dict. Values may be
objects that are no Python literals (``<Backend.X: 1>``), so the line is split with its brackets and quotes in mind
rather than evaluated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from launchmon_agent.sglang.secrets import HIDDEN, is_secret_name

_BEGIN = re.compile(r"server_args=(?:ServerArgs\(|\{)")
_KEY = re.compile(r"""\s*(?:(?P<quote>['"])(?P<quoted>\w+)(?P=quote)\s*:|(?P<name>\w+)\s*=)\s*""")
_PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}

SHOWN = (
    *("model_path", "tp_size", "pp_size", "dp_size", "ep_size", "enable_dp_attention", "attn_dp_size"),
    *("attn_cp_size", "moe_dp_size"),
    *("nnodes", "node_rank", "host", "port", "device", "load_format", "attention_backend", "quantization"),
    *("disable_cuda_graph", "speculative_algorithm", "disaggregation_mode", "startup_weight_load_mode"),
    *("skip_server_warmup", "tokenizer_worker_num", "dist_init_addr", "watchdog_timeout", "dist_timeout"),
    "mem_fraction_static",
)
"""Arguments that travel with the mark, as text. The rest stays in the log."""


def parse_server_args(message: str) -> dict[str, Any] | None:
    """All arguments of a line, secrets hidden; None when the line has none.

    Values that are no Python literals come as their text. A line that was cut gives what is whole in it.
    """
    begin = _BEGIN.search(message)
    if begin is None:
        return None
    found: dict[str, Any] = {}
    for item in _items(message, begin.end()):
        key = _KEY.match(item)
        if key is None:
            continue
        name = key["quoted"] or key["name"]
        value = _value(item[key.end() :].strip())
        found[name] = HIDDEN if value and is_secret_name(name) else value
    return found


def shown_args(message: str) -> dict[str, str]:
    """The arguments of :data:`SHOWN` that are set to something, as text."""
    args = parse_server_args(message) or {}
    return {name: str(args[name]) for name in SHOWN if args.get(name) is not None}


def _items(text: str, at: int) -> Iterator[str]:
    """The comma-separated items from ``at`` up to the bracket that closes the whole."""
    closers: list[str] = []
    quote = ""
    begin = at
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in _PAIRS:
            closers.append(_PAIRS[char])
        elif closers and char == closers[-1]:
            closers.pop()
        elif not closers and char in ")}":
            yield text[begin:at]
            return
        elif not closers and char == ",":
            yield text[begin:at]
            begin = at + 1
        at += 1


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # TypeError: {[]: 1}
        return text
