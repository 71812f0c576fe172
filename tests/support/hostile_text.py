"""Texts that a log, a file or a person's mistake can hold, and what of them may reach a terminal.

Strategies for hypothesis, a fast generator of whole logs, and an independent measure of width: the C library's.
"""

from __future__ import annotations

import ctypes
import functools
import os
import random
import re

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXPLORED = int(os.environ.get("LAUNCHMON_TEST_EXPLORE", "0"))
BOUNDED = settings(
    deadline=None,
    max_examples=EXPLORED or 150,
    derandomize=not EXPLORED,
    suppress_health_check=list(HealthCheck),
    database=None,
)
"""For all property tests: enough to find what is wrong in a grammar of a few dozen pieces, in about a second each.

The same examples each time, since a test that fails once in twenty runs blames a change that did no harm: the same as
long as the same modules are loaded, whose constants hypothesis mixes in. With ``LAUNCHMON_TEST_EXPLORE=5000`` so many
new ones."""

OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Characters that a terminal obeys, that change the order or hide what stands beside them, or that are no text."""

ESCAPES = (
    "\x1b[2J", "\x1b[1;1H", "\x1b]0;owned\x07", "\x1b]52;c;cm0gLXJm\x07", "\x1b]8;;http://x\x1b\\", "\x1bP$q\"p\x1b\\",
    "\x1b[31m", "\x1b[0m", "\x1b[38:2::1:2:3m", "\x1b[?1049h", "\x1b[6n", "\x1bc", "\x1b(0", "\x1b_Gi=1;AAAA\x1b\\",
    "\x9b31m", "\x9d0;c1\x9c", "\x1b", "\x0e", "\x08\x08\x08", "\x7f", "\x00", "\x00\x00\x00", "\x05", "\x0c", "\x0b",
)  # fmt: skip
INVISIBLE = (
    "\u202e", "\u202d", "\u2066", "\u2067", "\u2069", "\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u061c",
    "\u034f", "\u3164", "\ufe0f", "\u2028", "\u2029", "\x85", "\u00a0", "\u3000", "\U000e0041", "\U000e0100", "\ufff9",
)  # fmt: skip
WIDE = (
    "模型", "가나", "ﬃ", "Ｗｉｄｅ", "🙂", "👩‍👩‍👧", "👍🏽", "🇩🇪", "☺️", "e\u0301", "z" + "\u0301" * 40, "क्षि", "ไม้",
    "שלום", "مرحبا", "█▉▊", "⠋⠙", "\u1100\u1161\u11a8", "\ufdfd", "\U0001f1e6", "\u20dd", "\ue000", "\U0010ffff",
)  # fmt: skip
WORDS = (
    "[2026-11-29 16:10:00 TP0] ", "[2026-11-29 16:10:00 DP1 TP3] ", "[2026-11-29 16:10:00] ", "[16:10:02] ",
    "[gpu=0] ", "[rank3]: ", "server-1  | ", "INFO:     ", "ERROR ", "Load weight begin. avail mem=90.00 GB",
    "Load weight end. elapsed=11.00 s, type=X", "Init torch distributed begin.", "Traceback (most recent call last):",
    "  File \"a.py\", line 3, in f", "RuntimeError: CUDA error", "The server is fired up and ready to roll!",
    "server_args=ServerArgs(model_path='/m\\x1b[2J', tp_size=8)",
    "Loading safetensors checkpoint shards:  33% Completed | 1/3 [00:01<00:02,  1.50it/s]",
    "api_key=", "'hf_token': '", "Bearer ", "http://a:b@c/", "hf_abcdefghijklmnopqrst", "\\\\\\\\\\\\", "\"", "'", "=",
    ": ", "--api-key ", "None", "12345", "-", "\t", "  ", "x", "9" * 30, "Capture cuda graph begin.",
)  # fmt: skip
BROKEN = (b"\xff\xfe", b"\xe2\x96", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\x80", b"\xf0\x9f\x99")
"""Bytes that are no UTF-8: a cut character, an overlong form, a surrogate, beyond the last, a lone continuation."""

PIECES: tuple[bytes, ...] = (
    *(piece.encode("utf-8", "surrogatepass") for pool in (ESCAPES, INVISIBLE, WIDE, WORDS) for piece in pool),
    *BROKEN,
    b"\r",
    b"\r\r",
)

LINE = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=6)), max_size=12).map(b"".join)
"""One line of a log, or bytes that were meant to be one; it may hold newlines."""

TEXT = st.lists(
    st.one_of(st.sampled_from((*ESCAPES, *INVISIBLE, *WIDE, *WORDS)), st.text(st.characters(), max_size=4)), max_size=10
).map("".join)
"""Text with any characters, surrogates included."""


def log(chance: random.Random, lines: int, overlong: int = 0) -> bytes:
    """So many lines, of two pieces each in the mean; the last three are ``overlong`` bytes long, if any."""
    newline = b"\n"
    pieces = (*PIECES, *(newline,) * (len(PIECES) // 2))
    made: list[bytes] = []
    while len(made) < lines:
        made += b"".join(chance.choices(pieces, k=3 * lines)).split(newline)
    del made[lines:]
    if overlong:
        made[-3:] = (b"".join(chance.choices(PIECES, k=overlong // 6)) for _ in range(3))
    return newline.join(made) + newline


_libc = ctypes.CDLL(None)
_libc.wcwidth.argtypes = [ctypes.c_uint32]


@functools.cache
def cells(character: str) -> int:
    """Cells that the C library gives a character: what most terminals do. -1: it would act, and is no text."""
    return int(_libc.wcwidth(ord(character)))
