"""What is hidden in what a person shares: secrets always; names of users and machines unless they are to be kept.

A name is replaced by the same word everywhere (``host-1``, ``user-1``), so that who talks to whom can still be told.
What was hidden is counted by kind, for the report to say; values are kept nowhere but in memory.
"""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from launchmon_agent.sglang.secrets import HIDDEN, redact_argv, redact_text, redact_value

HIDDEN_BEFORE = "secret, hidden before it left its machine"
USER, HOST, ADDRESS = "user name", "host name", "network address"

_HOME = re.compile(r"(?P<before>/(?:home|Users|export/home|users)/)(?P<user>[^/\s:'\"\\,)\]]+)")
_AT_HOST = re.compile(r"(?<![\w.@/+-])(?P<user>[a-z_][\w.-]*)@(?P<host>[A-Za-z0-9][\w.-]*[A-Za-z0-9])(?![\w@])")
_INTERNAL = re.compile(
    r"\b(?:[a-z0-9-]+\.)+(?:local|internal|corp|lan|intranet|intra|svc|localdomain|home\.arpa)\b", re.IGNORECASE
)
_IPV4 = re.compile(r"(?<![\w.=-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])|(?<=[^=]=)(?:\d{1,3}\.){3}\d{1,3}(?=[:'\",)\s/]|$)")
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:.])")
_NAMES_HOST = re.compile(r"(?:^|[-_])(?:host|hostname|addr|address|nodename|nodelist)$", re.IGNORECASE)
"""Names of flags and variables whose value is a machine: ``--dist-init-addr``, ``MASTER_ADDR``, ``--host``."""
_HOST_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_ADDRESS_FLAGS = re.compile(
    r"(?:dist_init_addr|nccl_init_addr|master_addr|hostname)['\"]?\s*[=:]\s*['\"]?(?P<host>[\w.-]+)"
)

_EVERYBODY = frozenset(
    {"root", "user", "ubuntu", "admin", "nobody", "git", "runner", "jovyan", "app", "node", "ec2-user"}
)
_NO_HOST = frozenset(
    {
        "localhost",
        "none",
        "true",
        "false",
        "null",
        "file",
        "auto",
        "sglang",
        "python",
        "torch",
        "cuda",
        "server",
        "host",
    }
    | {"model", "models", "launch", "train", "inference", "worker", "node", "gpu", "main", "test", "demo"}
)
"""Words that name no one machine: to replace them would spoil the text."""


class Redactor:
    """Rules for :func:`launchmon_agent.redaction.redacted`. What it hides adds up in :attr:`counts`."""

    def __init__(self, users: Iterable[str] = (), hosts: Iterable[str] = (), *, keep_names: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self._keep_names = keep_names
        self._users: dict[str, str] = {}
        self._hosts: dict[str, str] = {}
        self._known: re.Pattern[str] | None = None
        self._seen: dict[str, tuple[str, tuple[str, ...]]] = {}
        for user in users:
            self._learn_user(user)
        for host in hosts:
            self._learn_host(host)

    def learn(self, body: Mapping[str, Any]) -> None:
        """Take note of the machines that an event names, before anything is rewritten: a name may come up earlier."""
        if body.get("kind") == "run":
            argv = [str(word) for word in body.get("argv") or ()]
            for name, value in [*itertools.pairwise(argv), *(word.partition("=")[::2] for word in argv)]:
                if name.startswith("--"):
                    self._learn_value(name, value)
            for name, value in (body.get("variables") or {}).items():
                self._learn_value(name, str(value))
        if body.get("kind") == "mark" and body.get("id") == "args":
            for name, value in (body.get("values") or {}).items():
                self._learn_value(name, str(value))

    # ------------------------------------------------------------------------------------------------------- the rules

    def text(self, text: str) -> str:
        known = self._seen.get(text)
        if known is None:
            kinds: list[str] = []
            out = redact_text(text, kinds.append)
            kinds += [HIDDEN_BEFORE] * (out.count(HIDDEN) - len(kinds))
            known = (out if self._keep_names else self._without_names(out, kinds)), tuple(kinds)
            if len(text) < 400:  # the texts of samples come up again and again
                self._seen[text] = known
        self.counts.update(known[1])
        return known[0]

    def words(self, words: Sequence[str]) -> tuple[str, ...]:
        kinds: list[str] = []
        out = redact_argv(words, kinds.append)
        kinds += [HIDDEN_BEFORE] * ("".join(out).count(HIDDEN) - len(kinds))
        if not self._keep_names:
            out = tuple(self._without_names(word, kinds) for word in out)
        self.counts.update(kinds)
        return out

    def named(self, name: str, value: str) -> str:
        kinds: list[str] = []
        hidden = redact_value(name, value, kinds.append)
        if hidden == HIDDEN and kinds:
            self.counts.update(kinds)
            return hidden
        return self.text(value)

    # --------------------------------------------------------------------------------------------------------- names

    def _without_names(self, text: str, kinds: list[str]) -> str:
        if "/" in text:
            text = _HOME.sub(lambda found: found["before"] + self._user(found["user"], kinds), text)
        if "@" in text:
            text = _AT_HOST.sub(
                lambda found: f"{self._user(found['user'], kinds)}@{self._host(found['host'], kinds)}", text
            )
        if "addr" in text or "hostname" in text:
            for found in _ADDRESS_FLAGS.finditer(text):
                self._learn_host(found["host"])
        if self._known is not None:
            text = self._known.sub(lambda found: self._replaced(found[0], kinds), text)
        if "." in text:
            text = _INTERNAL.sub(lambda found: self._host(found[0], kinds), text)
            text = _IPV4.sub(lambda found: self._address(found[0], kinds), text)
        if text.count(":") > 1:
            text = _IPV6.sub(lambda found: self._address(found[0], kinds), text)
        return text

    def _replaced(self, word: str, kinds: list[str]) -> str:
        if word.lower() in self._hosts:
            return self._host(word, kinds)
        return self._user(word, kinds)

    def _user(self, name: str, kinds: list[str]) -> str:
        if name.lower() in _EVERYBODY or re.fullmatch(r"user-\d+", name):
            return name
        kinds.append(USER)
        return self._users.setdefault(name, f"user-{len(self._users) + 1}")

    def _host(self, name: str, kinds: list[str]) -> str:
        if name.lower() in _NO_HOST or re.fullmatch(r"host-\d+", name):
            return name
        kinds.append(HOST)
        return self._hosts.setdefault(name.lower(), f"host-{len(self._hosts) + 1}")

    def _address(self, text: str, kinds: list[str]) -> str:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return text
        if address.is_loopback or address.is_unspecified or address.is_multicast:
            return text
        kinds.append(ADDRESS)
        return self._hosts.setdefault(text.lower(), f"host-{len(self._hosts) + 1}")

    def _learn_value(self, name: str, value: str) -> None:
        host = value.rpartition(":")[0] if value.count(":") == 1 else value
        if _NAMES_HOST.search(name) and _HOST_NAME.fullmatch(host):
            self._learn_host(host)

    def _learn_user(self, name: str) -> None:
        if len(name) > 2 and name.lower() not in _EVERYBODY and name not in self._users:
            self._users[name] = f"user-{len(self._users) + 1}"
            self._remember()

    def _learn_host(self, name: str) -> None:
        """With the part before the first dot, by which a machine calls itself. Addresses are known by their shape."""
        for part in dict.fromkeys((name, name.partition(".")[0])):
            low = part.lower()
            if len(part) > 2 and re.search("[a-z]", low) and low not in _NO_HOST and low not in self._hosts:
                self._hosts[low] = self._hosts.get(name.lower(), f"host-{len(self._hosts) + 1}")
                self._remember()

    def _remember(self) -> None:
        words = sorted((*self._hosts, *self._users), key=len, reverse=True)
        self._known = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, words))})(?![\w-])", re.IGNORECASE)
        self._seen.clear()


def told(counts: Mapping[str, int]) -> list[str]:
    """``API key: in 3 places``, the most frequent first. Kinds and counts, never values."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [f"{kind}: in {count} place{'' if count == 1 else 's'}" for kind, count in ordered]
