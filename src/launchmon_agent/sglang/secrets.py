"""Hides secrets in command lines, environments and text before they are shown, sent or exported. Pure.

A secret is known by the name it is given under (``--api-key``, ``HF_TOKEN``), or by its own shape (``hf_…``, a URL
with a password, a JSON value under a secret name). Whoever wants to tell what was hidden passes ``note``, which is
called with the kind of each secret, never with its value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

HIDDEN = "•••"

Note = Callable[[str], None]

_SECRET_WORDS = frozenset(
    {"apikey", "token", "pat", "password", "passwd", "passphrase", "secret", "secrets", "credential", "credentials"}
    | {"authorization", "signature"}
)
_SECRET_KEYS = frozenset(
    {"api", "access", "private", "secret", "auth", "encryption", "account", "master", "openai", "anthropic", "hf"}
)
_NOT_SECRET = frozenset({("first", "token"), ("per", "token"), ("pad", "token"), ("eos", "token"), ("bos", "token")})
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ABBREVIATIONS = {"--api-key": "--ap", "--admin-api-key": "--ad", "--ssl-keyfile-password": "--ssl-keyfile-"}
"""Flags of SGLang that carry a secret → the shortest prefix by which argparse accepts them."""

_KINDS = {"token": "token", "pat": "token", "password": "password", "passwd": "password", "passphrase": "password"}
_KINDS |= {"apikey": "API key", "key": "API key", "authorization": "authorization header"}
"""Last word of a secret's name → kind; ``secret`` for the others."""

_SHAPES: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (kind, hints, re.compile(shape))
    for kind, hints, shape in (
        (
            "private key",
            ("PRIVATE KEY",),
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        ),
        ("Hugging Face token", ("hf_",), r"\bhf_[A-Za-z0-9]{16,}"),
        (
            "API key",
            ("sk-", "nvapi-", "AIza"),
            r"\bsk-[A-Za-z0-9_-]{16,}|\bnvapi-[A-Za-z0-9_-]{16,}|\bAIza[A-Za-z0-9_-]{35}",
        ),
        (
            "GitHub token",
            ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
            r"\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}",
        ),
        ("AWS key", ("AKIA", "ASIA"), r"\bA(?:KI|SI)A[A-Z0-9]{16}\b"),
        ("Slack token", ("xox",), r"\bxox[a-z]-[A-Za-z0-9-]{10,}"),
        ("JSON web token", ("eyJ", "eyK"), r"\bey[JK][A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"),
    )
)
"""Secrets that need no name: kind, texts of which each contains one (quick to look for), and what they look like. The
prefixes are those that their issuers document."""

_HEADER = re.compile(
    r"""(?P<before>\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|digest|token)\s+)?)"""
    r"""(?!bearer\b|basic\b|digest\b)[^\s"',]+""",
    re.IGNORECASE,
)
_BEARER = re.compile(
    r"""(?P<before>\bbearer\s+)(?!(?:auth\w*|tokens?|header|scheme|credentials?)\b)[A-Za-z0-9._~+/•-]{3,}=*""",
    re.IGNORECASE,
)

# A text is hostile, and up to 4096 characters long: none of these may begin inside a run that it has looked through
# already, nor match a backslash in two ways.
_URL_PASSWORD = re.compile(r"(?P<before>[A-Za-z0-9+.-]://[^/\s:@]*:)[^/\s@]+(?=@)")
_URL_USER = re.compile(r"(?P<before>[A-Za-z0-9+.-]://)[^/\s:@]{16,}(?=@)")
_QUOTED = re.compile(
    r"""(?P<before>(?P<q>["'])(?P<name>[\w-]+)(?P=q)\s*:\s*)(?P<v>["'])"""
    r"""(?P<value>(?:\\.|(?!(?P=v))[^\\\n])*\\?)(?:(?P=v)|(?=\n|\Z))"""
)
_ASSIGNED = re.compile(r"(?<![\w-])(?P<name>[\w-]+)=(?P<value>\S+?)(?=[,)]?(?:\s|$))")
_COLON = re.compile(r"(?<![\w-])(?P<name>[\w-]+):\s+(?P<value>[^\s\"'{}\[\]]{6,}|•••)")
_FLAG = re.compile(r"(?P<name>(?<!\S)--[a-z][a-z0-9-]*)\s+(?P<value>(?!--)\S+)")
_NO_SECRET = re.compile(r"(?:None|True|False|null|true|false|['\"]{2}|-?\d{1,9}(?:\.\d+)?%?)[,;)\]}`]*")
"""Values that are none, whatever they are called: ``max_new_token=512``, ``api_key=None``."""

_SHORTEST_SHAPE = 15
"""Characters of the shortest secret that is known without a name."""


def _suspect() -> re.Pattern[bytes]:
    """In every text that holds a secret, as lower-case UTF-8: all of the above in one look, but less exact.

    It tells nearly every line of a log to hold none, ``#token: 12345, token usage: 0.42`` included. Ordered by first
    letters, since that is what makes it fast: the other places of a text are not even tried.
    """
    shapes = (
        rb"-----begin | ://[^/\s@]+@| --[a-z]| authorization| bearer[\s\x1c-\x1f\x80-\xff]| hf_[a-z0-9]{16}"
        rb"| sk-[a-z0-9_-]{16}| nvapi-| aiza| gh[pousr]_| github_pat_| akia| asia| xox[a-z]-| ey[jk][a-z0-9_-]{8}"
    ).split(b"| ")
    word_end = rb"[_\x80-\xff-]*"  # what else a name may end with, or have between its words
    value = rb"""["']?[\s\x1c-\x1f\x80-\xff]*[:=](?!\s*-?\d{1,9}(?:\.\d+)?%?[,;)]*(?:\s|\Z))"""  # any but a number
    names = [word.encode() for word in _SECRET_WORDS]
    names += [word.encode() + word_end + b"key" for word in _SECRET_KEYS]
    by_letter: dict[bytes, list[bytes]] = {}
    for one in (*shapes, *(name + word_end + value for name in names)):
        by_letter.setdefault(one[:1], []).append(one[1:])
    return re.compile(b"|".join(b"%s(?:%s)" % (letter, b"|".join(rest)) for letter, rest in by_letter.items()))


_SUSPECT = _suspect()


def is_secret_name(name: str) -> bool:
    """Whether a flag, variable or JSON key of this name holds a secret: ``--api-key``, ``HF_TOKEN``, ``dbPassword``."""
    if any(full.startswith(name) and name.startswith(short) for full, short in _ABBREVIATIONS.items()):
        return True
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or tuple(words[-2:]) in _NOT_SECRET:
        return False
    return words[-1] in _SECRET_WORDS or (words[-1] == "key" and words[-2:-1] != [] and words[-2] in _SECRET_KEYS)


def kind_of(name: str) -> str:
    """What a secret of this name is, in words: ``API key``, ``token``, ``password``, else ``secret``."""
    full = next((flag for flag, short in _ABBREVIATIONS.items() if flag.startswith(name) and name >= short), name)
    words = [word.lower() for word in _WORDS.findall(full)]
    return _KINDS.get(words[-1], "secret") if words else "secret"


def redact_argv(argv: Sequence[str], note: Note | None = None) -> tuple[str, ...]:
    """The same words with every secret value replaced by :data:`HIDDEN`; as many words as before."""
    out: list[str] = []
    hidden_by = ""
    for word in argv:
        flag, equals, _ = word.partition("=")
        if hidden_by and not word.startswith("--"):
            out.append(_hide(note, kind_of(hidden_by)))
            hidden_by = ""
        elif equals and is_secret_name(flag):
            out.append(f"{redact_text(flag, note)}={_hide(note, kind_of(flag))}")  # it may be a whole sentence
        else:
            hidden_by = word if word.startswith("--") and is_secret_name(word) else ""
            out.append(redact_text(word, note))
    return tuple(out)


def redact_env(env: Mapping[str, str | None], note: Note | None = None) -> dict[str, str | None]:
    """The same variables with secret values hidden; None (a variable to be removed) stays None."""
    return {name: None if value is None else redact_value(name, value, note) for name, value in env.items()}


def redact_value(name: str, value: str, note: Note | None = None) -> str:
    """The value of a variable of this name, or what may be shown of it."""
    return _hide(note, kind_of(name)) if is_secret_name(name) else redact_text(value, note)


def redact_text(text: str, note: Note | None = None) -> str:
    """Free text with secrets of a known shape hidden: tokens, passwords in URLs, headers, flags, values with names."""
    if _SUSPECT.search(text.encode("utf-8", "surrogatepass").lower()) is None:
        return text
    return _redact_suspect(text, note)


def _redact_suspect(text: str, note: Note | None) -> str:
    """The same for a text that may well hold a secret."""
    for kind, hints, shape in _SHAPES:
        if any(hint in text for hint in hints):
            text = shape.sub(lambda _, kind=kind: _hide(note, kind), text)  # type: ignore[misc]
    if "://" in text:
        text = _URL_PASSWORD.sub(lambda found: found["before"] + _hide(note, "password in a URL"), text)
        text = _URL_USER.sub(lambda found: found["before"] + _hide(note, "token in a URL"), text)
    lower = text.lower()
    if "authorization" in lower:
        text = _HEADER.sub(lambda found: found["before"] + _hide(note, "authorization header"), text)
    if "bearer" in lower:
        text = _BEARER.sub(lambda found: _hide_bearer(found, note), text)
    if ":" in text:
        text = _QUOTED.sub(lambda found: _hide_quoted(found, note), text)
        text = _COLON.sub(lambda found: _hide_told(found, note), text)
    if "--" in text:
        text = _FLAG.sub(lambda found: _hide_named(found, " ", note), text)
    if "=" in text:
        text = _ASSIGNED.sub(lambda found: _hide_named(found, "=", note), text)
    return text


def _hide(note: Note | None, kind: str) -> str:
    if note is not None:
        note(kind)
    return HIDDEN


def _hide_bearer(found: re.Match[str], note: Note | None) -> str:
    """As a header it was counted before."""
    return found[0] if HIDDEN in found[0] else found["before"] + _hide(note, "bearer token")


def _hide_quoted(found: re.Match[str], note: Note | None) -> str:
    if not is_secret_name(found["name"]) or not found["value"]:
        return found[0]
    if HIDDEN in found["value"] and found["value"] != HIDDEN:
        return found[0]  # what is secret in it was found before
    return f"{found['before']}{found['v']}{_hide(note, kind_of(found['name']))}{found['v']}"


def _hide_told(found: re.Match[str], note: Note | None) -> str:
    """``x-api-key: …``. Sentences have colons too: after "invalid token:" comes a secret only if it looks like one."""
    value = found["value"]
    prose = kind_of(found["name"]) != "API key" and value != HIDDEN
    if prose and (value.isalpha() or (len(value) < _SHORTEST_SHAPE and value.isdecimal())):
        return found[0]
    return _hide_named(found, ": ", note)


def _hide_named(found: re.Match[str], between: str, note: Note | None) -> str:
    if not is_secret_name(found["name"]) or _NO_SECRET.fullmatch(found["value"]):
        return found[0]
    if found["name"].lower().endswith("authorization"):
        return found[0]  # its words were looked at one by one
    return f"{found['name']}{between}{_hide(note, kind_of(found['name']))}"
