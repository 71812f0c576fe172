"""The client's part of one SSH login: which keys are tried, and what a person is asked.

Keys are read when it is their turn, and a passphrase is asked for only once the server has said that it would take the
key. What a server wants to have asked is its own text, so it is cleaned before anybody sees it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import asyncssh

from launchmon.connect import Asker
from launchmon.connect.ssh.settings import Settings
from launchmon_agent.log.display import printable

TRIES = 3
"""How often a passphrase or password is asked for: OpenSSH's ``NumberOfPasswordPrompts``."""

MOST_PROMPTS = 8
"""Questions that one server may ask in one round. More are not meant for a person."""

LONGEST = 300
"""Characters of a server's text that are shown."""


class Questions:
    """An :class:`Asker` that asks one thing at a time, and knows whether somebody is being waited for."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._turn = asyncio.Lock()
        self.waiting = 0
        self.answered_at = 0.0
        """By the clock of the event loop."""

    async def ask(self, prompt: str, *, secret: bool) -> str | None:
        self.waiting += 1
        try:
            async with self._turn:
                return await self._asker.ask(prompt, secret=secret)
        finally:
            self._answered()

    async def confirm(self, question: str) -> bool:
        self.waiting += 1
        try:
            async with self._turn:
                return await self._asker.confirm(question)
        finally:
            self._answered()

    def _answered(self) -> None:
        self.waiting -= 1
        self.answered_at = asyncio.get_running_loop().time()


class Login(asyncssh.SSHClient):
    """What asyncssh asks of us while it logs in to one host."""

    def __init__(self, settings: Settings, questions: Questions) -> None:
        self.presented: asyncssh.SSHKey | None = None
        """The host's key, when it is not trusted."""
        self.banner = ""
        self.tried: list[str] = []
        """Each way that was tried, for people."""
        self.locked: str | None = None
        """A key that nobody unlocked."""
        self._who = f"{settings.user}@{settings.address.host}"
        self._keys = list(settings.keys)
        self._certificates = list(settings.certificates)
        self._questions = questions
        self._loop = asyncio.get_running_loop()
        self._passwords = 0
        self._rounds = 0

    # --------------------------------------------------------------------------------------------------- the host's key

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        """A key that is in no file: never trusted here. Whoever opens the connection asks, and opens another."""
        self.presented = key
        return False

    def auth_banner_received(self, msg: str, lang: str) -> None:  # noqa: ARG002
        self.banner = _clean(msg)

    # ------------------------------------------------------------------------------------------------------------- keys

    async def public_key_auth_requested(self) -> Sequence[asyncssh.SSHKeyPair] | None:
        """The key pairs of the next identity file that has some; None when there are no more."""
        while self._keys:
            path = self._keys.pop(0)
            try:
                pairs = await asyncio.to_thread(self._load, path)
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                self.tried.append(f"key {path} ({_clean(str(error))})")
                continue
            if pairs:
                self.tried.append(f"key {path}")
                return pairs
        return None

    def _load(self, path: str) -> Sequence[asyncssh.SSHKeyPair]:
        """In a thread of its own: it may wait for a person. Raises :class:`OSError` and :class:`ValueError`."""
        certificates = [certificate for certificate in self._certificates if _readable(certificate)]
        try:
            asyncssh.read_public_key(f"{path}.pub")
        except (OSError, ValueError):
            try:
                asyncssh.read_public_key(path)
            except ValueError:  # what it can sign for is a secret too, so it must be unlocked first
                return asyncssh.load_keypairs([path], self._passphrase_or_none(path), certificates)
        unlock = cast("str", self._passphrase)  # a function may stand for it, which the annotations do not tell
        return asyncssh.load_keypairs([path], unlock, certificates)

    def _passphrase_or_none(self, path: str) -> str | None:
        try:
            asyncssh.read_private_key(path)
        except asyncssh.KeyEncryptionError:
            return self._passphrase(path)
        except asyncssh.KeyImportError as error:
            if str(error).startswith("Passphrase"):  # the only thing that tells it from a file that is no key
                return self._passphrase(path)
            raise
        return None

    def _passphrase(self, path: str) -> str:
        """In a thread. Raises :class:`asyncssh.KeyEncryptionError` when nobody knows it; then the next key is tried."""
        return asyncio.run_coroutine_threadsafe(self._unlock(path), self._loop).result()

    async def _unlock(self, path: str) -> str:
        for attempt in range(TRIES):
            again = "" if attempt == 0 else "That was not it. "
            passphrase = await self._questions.ask(f"{again}Passphrase for the key {path}:", secret=True)
            if passphrase is None:
                break
            try:
                await asyncio.to_thread(asyncssh.read_private_key, path, passphrase)
            except (ValueError, OSError):
                continue
            return passphrase
        self.locked = path
        raise asyncssh.KeyEncryptionError("its passphrase is not known")

    # --------------------------------------------------------------------------------------------- passwords, questions

    async def password_auth_requested(self) -> str | None:
        self._passwords += 1
        if self._passwords > TRIES:
            return None
        again = "" if self._passwords == 1 else "That was not it. "
        password = await self._questions.ask(f"{again}Password for {self._who}:", secret=True)
        self._note("a password" if password is not None else "no password, since nobody gave one")
        return password

    async def kbdint_auth_requested(self) -> str | None:
        self._rounds += 1
        return "" if self._rounds <= TRIES else None

    async def kbdint_challenge_received(
        self,
        name: str,
        instructions: str,
        lang: str,  # noqa: ARG002
        prompts: Sequence[tuple[str, bool]],
    ) -> list[str] | None:
        if len(prompts) > MOST_PROMPTS:
            return None
        before = " ".join(part for part in (_clean(name), _clean(instructions)) if part)
        answers: list[str] = []
        for prompt, shown in prompts:
            question = f"{self._who}: {before + ' ' if before else ''}{_clean(prompt)}"
            answer = await self._questions.ask(question, secret=not shown)
            if answer is None:
                self._note("no answer to the server's questions, since nobody gave one")
                self._rounds = TRIES
                return None
            answers.append(answer)
        if prompts:
            self._note("answers to the server's questions")
        return answers

    def _note(self, what: str) -> None:
        if what not in self.tried:
            self.tried.append(what)


def _readable(path: str) -> bool:
    try:
        asyncssh.read_certificate(path)
    except (OSError, ValueError):
        return False
    return True


def _clean(text: str) -> str:
    return " ".join(printable(text[: 4 * LONGEST].replace("\r", " ").replace("\n", " ")).split())[:LONGEST]
