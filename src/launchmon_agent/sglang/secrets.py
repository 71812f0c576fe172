"""Hides secrets in command lines and environments before they are shown, sent or exported. Pure.

A secret is known by the name it is given under (``--api-key``, ``HF_TOKEN``), or by its own shape (``hf_…``, a URL
with a password, a JSON value under a secret name).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

HIDDEN = "•••"

_SECRET_WORDS = frozenset(
    {"apikey", "token", "pat", "password", "passwd", "passphrase", "secret", "secrets", "credential", "credentials"}
    | {"authorization"}
)
_SECRET_KEYS = frozenset(
    {"api", "access", "private", "secret", "auth", "encryption", "account", "master", "openai", "anthropic", "hf"}
)
_NOT_SECRET = frozenset({("first", "token"), ("per", "token"), ("pad", "token"), ("eos", "token"), ("bos", "token")})
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ABBREVIATIONS = {"--api-key": "--ap", "--admin-api-key": "--ad", "--ssl-keyfile-password": "--ssl-keyfile-"}
"""Flags of SGLang that carry a secret → the shortest prefix by which argparse accepts them."""

_SHAPES = re.compile(
    r"\bhf_[A-Za-z0-9]{16,}|\bsk-[A-Za-z0-9_-]{16,}|\bnvapi-[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}"
    r"|\bgithub_pat_[A-Za-z0-9_]{20,}|\bAKIA[A-Z0-9]{16}\b|\bxox[a-z]-[A-Za-z0-9-]{10,}"
    r"|\bey[JK][A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"
)
_URL_PASSWORD = re.compile(r"(?P<before>[A-Za-z][A-Za-z0-9+.-]*://[^/\s:@]*:)[^/\s@]+(?=@)")
_QUOTED = re.compile(
    r"""(?P<before>(?P<q>["'])(?P<name>[\w-]+)(?P=q)\s*:\s*)(?P<v>["'])(?P<value>(?:\\.|(?!(?P=v)).)*)(?P=v)"""
)
_ASSIGNED = re.compile(r"(?P<name>[A-Za-z_][\w-]*)=(?P<value>\S+?)(?=[,)]?(?:\s|$))")


def is_secret_name(name: str) -> bool:
    """Whether a flag, variable or JSON key of this name holds a secret: ``--api-key``, ``HF_TOKEN``, ``dbPassword``."""
    if any(full.startswith(name) and name.startswith(short) for full, short in _ABBREVIATIONS.items()):
        return True
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or tuple(words[-2:]) in _NOT_SECRET:
        return False
    return words[-1] in _SECRET_WORDS or (words[-1] == "key" and words[-2:-1] != [] and words[-2] in _SECRET_KEYS)


def redact_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """The same words with every secret value replaced by :data:`HIDDEN`; as many words as before."""
    out: list[str] = []
    hide_next = False
    for word in argv:
        flag, equals, _ = word.partition("=")
        if hide_next and not word.startswith("--"):
            out.append(HIDDEN)
            hide_next = False
        elif equals and is_secret_name(flag):
            out.append(f"{flag}={HIDDEN}")
        else:
            hide_next = word.startswith("--") and is_secret_name(word)
            out.append(redact_text(word))
    return tuple(out)


def redact_env(env: Mapping[str, str | None]) -> dict[str, str | None]:
    """The same variables with secret values hidden; None (a variable to be removed) stays None."""
    return {
        name: None if value is None else HIDDEN if is_secret_name(name) else redact_text(value)
        for name, value in env.items()
    }


def redact_text(text: str) -> str:
    """Free text with secrets of a known shape hidden: tokens, passwords in URLs, JSON values and assignments."""
    text = _SHAPES.sub(HIDDEN, text)
    text = _URL_PASSWORD.sub(rf"\g<before>{HIDDEN}", text)
    text = _QUOTED.sub(_hide_quoted, text)
    return _ASSIGNED.sub(_hide_assigned, text)


def _hide_quoted(found: re.Match[str]) -> str:
    if not is_secret_name(found["name"]):
        return found[0]
    return f"{found['before']}{found['v']}{HIDDEN}{found['v']}"


def _hide_assigned(found: re.Match[str]) -> str:
    return f"{found['name']}={HIDDEN}" if is_secret_name(found["name"]) else found[0]
