"""What a server's command line says: entry, model, parallelism, port. Pure.

SGLang parses its flags with argparse, so a flag may be written in full, with ``=``, or shortened to any unambiguous
prefix (``--tp 8``). Which prefixes are unambiguous differs between releases; ``_SPELLINGS`` holds, for each flag read
here, the shortest prefix that means this flag in at least one of the 37 releases surveyed and another in none of them.
Parsing never fails: unknown flags are left as they are, and a value that makes no sense leaves the default.

``--config FILE`` (0.5.3+) can set flags that the command line does not show; the ``server_args=`` line of the log is
the truth once it is there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 30000

SERVER_MODULES = frozenset({"sglang.launch_server"})
SIMULATED_MODULES = frozenset({"launchmon.demo.launch_server"})

_PYTHON = re.compile(r"^(python|pypy)\d*(\.\d+)*t?$")

_SPELLINGS: dict[str, tuple[tuple[str, str], ...]] = {
    # flag → (shortest accepted prefix, full name) of each of its names
    "model": (("--model", "--model"), ("--model-p", "--model-path")),
    "tp": (("--tp", "--tp-size"), ("--te", "--tensor-parallel-size")),
    "pp": (("--pp", "--pp-size"), ("--pi", "--pipeline-parallel-size")),
    "dp": (("--dp", "--dp-size"), ("--da", "--data-parallel-size")),
    "attn_dp": (("--attn-d", "--attn-dp-size"), ("--attention-d", "--attention-data-parallel-size")),  # 0.5.22+
    "ep": (("--ep", "--ep-size"), ("--expert-p", "--expert-parallel-size")),
    "attn_cp": (("--attn-c", "--attn-cp-size"), ("--attention-c", "--attention-context-parallel-size")),  # 0.5.9+
    "moe_dp": (("--moe-dp", "--moe-dp-size"), ("--moe-da", "--moe-data-parallel-size")),  # 0.5.9+
    "attention_dp": (("--enable-dp", "--enable-dp-attention"),),
    "nnodes": (("--nn", "--nnodes"),),
    "node_rank": (("--no", "--node-rank"),),
    "dist_init_addr": (("--dist-i", "--dist-init-addr"), ("--nccl-i", "--nccl-init-addr")),
    "host": (("--ho", "--host"),),
    "port": (("--po", "--port"),),
}
_SWITCHES = frozenset({"attention_dp"})
_OTHER_FLAGS = frozenset({"--enable-dp-lm-head"})  # full names that begin with an accepted prefix of another flag


@dataclass(frozen=True)
class Command:
    """A server's command. Values are SGLang's defaults where the command says nothing."""

    argv: tuple[str, ...]
    entry: str | None = None  # module | serve | script: how the server is named here; None: not an SGLang command
    module: str | None = None  # entry "module": its dotted name
    wrapper: tuple[str, ...] = ()  # the words before the server's own command: ("numactl", "-N", "0"), ("env", "A=1")
    interpreter: str | None = None  # the Python word as written; None for a console script and for no Python at all
    simulated: bool = False  # launchmon's own simulated SGLang
    model: str | None = None
    tp: int = 1
    pp: int = 1
    dp: int = 1
    attention_dp: bool = False
    ep: int = 1
    attn_cp: int = 1
    moe_dp: int = 1
    nnodes: int = 1
    node_rank: int = 0
    dist_init_addr: str | None = None
    host: str = DEFAULT_HOST
    port: int | None = None  # None: not an SGLang command, and it names no port
    flags: tuple[str, ...] = ()  # the words after the entry, unchanged

    @property
    def is_sglang(self) -> bool:
        return self.entry is not None

    @property
    def is_server_process(self) -> bool:
        """As the argv of a live process: the server itself, not a wrapper that waits for it (``timeout``, ``sudo``)."""
        return self.entry is not None and not self.wrapper


def parse(argv: Sequence[str]) -> Command:
    """Reads any command line; the result of a command that is no SGLang server has ``entry`` None."""
    words = tuple(argv)
    entry, module, begin, after, interpreter = _find_entry(words)
    given = dict(_known_flags(words[after:]))
    model = given.get("model")
    if model is None and entry == "serve":
        model = _positional_model(words[after:])
    attn_dp = _number(given, "attn_dp", 1)
    port = _number(given, "port", DEFAULT_PORT if entry else 0)
    return Command(
        argv=words,
        entry=entry,
        module=module,
        wrapper=words[:begin] if entry else (),
        interpreter=interpreter,
        simulated=module in SIMULATED_MODULES,
        model=model,
        tp=_number(given, "tp", 1),
        pp=_number(given, "pp", 1),
        dp=attn_dp if attn_dp > 1 else _number(given, "dp", 1),
        attention_dp=attn_dp > 1 or "attention_dp" in given,
        ep=_number(given, "ep", 1),
        attn_cp=_number(given, "attn_cp", 1),
        moe_dp=_number(given, "moe_dp", 1),
        nnodes=_number(given, "nnodes", 1),
        node_rank=_number(given, "node_rank", 0, least=0),
        dist_init_addr=given.get("dist_init_addr"),
        host=given.get("host") or DEFAULT_HOST,
        port=port or None,
        flags=words[after:],
    )


def value_of(words: Sequence[str], name: str) -> str | None:
    """The value of a flag that is written in full, as argparse takes it: of several the last. None: it is not given."""
    for place in range(len(words) - 1, -1, -1):
        flag, equals, value = words[place].partition("=")
        if flag == name and (equals or place + 1 < len(words)):
            return value if equals else words[place + 1]
    return None


def is_python(word: str) -> bool:
    """Whether a word names a Python interpreter: ``python``, ``/venv/bin/python3.11``."""
    return bool(_PYTHON.match(os.path.basename(word)))


def _find_entry(words: tuple[str, ...]) -> tuple[str | None, str | None, int, int, str | None]:
    """(entry, module, index where the server's command begins, index after the entry, interpreter word)."""
    python: int | None = None
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else None
        if word == "-m" and python is not None:
            if following in SERVER_MODULES | SIMULATED_MODULES:
                return "module", following, python, index + 2, words[python]
            python = None  # this Python runs another module; its arguments are no server
        elif os.path.basename(word) == "sglang" and following == "serve":
            begin = index if python is None else python
            return "serve", None, begin, index + 2, None if python is None else words[python]
        elif word.endswith("sglang/launch_server.py") and python is not None:
            return "script", None, python, index + 1, words[python]
        elif is_python(word):
            python = index
        elif not word.startswith("-") and python is not None and not _is_option_value(words[index - 1]):
            python = None  # this Python runs a script of its own
    interpreter = next((word for word in words if is_python(word)), None)
    return None, None, 0, min(1, len(words)), interpreter


def _is_option_value(before: str) -> bool:
    """Whether a Python option takes the next word as its value: ``-X dev``, ``-W ignore``."""
    return before in ("-X", "-W")


def _known_flags(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for index, word in enumerate(words):
        written, equals, value = word.partition("=")
        flag = _flag(written)
        if flag is None:
            continue
        if flag in _SWITCHES:
            yield flag, ""
        elif equals:
            yield flag, value
        elif index + 1 < len(words):
            yield flag, words[index + 1]


def _flag(written: str) -> str | None:
    if not written.startswith("--") or written in _OTHER_FLAGS:
        return None
    for flag, spellings in _SPELLINGS.items():
        for shortest, full in spellings:
            if full.startswith(written) and written.startswith(shortest):
                return flag
    return None


def _positional_model(words: Sequence[str]) -> str | None:
    """``sglang serve MODEL [flags]``: only directly after ``serve`` is a bare word surely no flag's value."""
    return words[0] if words and not words[0].startswith("-") else None


def _number(given: dict[str, str], flag: str, default: int, least: int = 1) -> int:
    try:
        number = int(given[flag])
    except (KeyError, ValueError):
        return default
    return number if number >= least else default
