"""No event that leaves a watch, and no recording that is given away, holds a secret."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import random
import string
import typing
import zlib
from pathlib import Path
from typing import Any

import pytest

from launchmon_agent import events, observe
from launchmon_agent.codec import encode
from launchmon_agent.errors import Refused
from launchmon_agent.events import Event, Log, Mark, Notice, Other, Processes, Run
from launchmon_agent.redaction import redacted, redacted_refusal
from launchmon_agent.runs.directory import RunDirectory
from launchmon_agent.runs.recording import shareable_lines
from launchmon_agent.sglang.secrets import HIDDEN, redact_argv, redact_text
from launchmon_agent.sharing import Sharing
from launchmon_agent.watch import Watch

ALPHABET = string.ascii_letters + string.digits


def word(rng: random.Random, length: int) -> str:
    return "".join(rng.choice(ALPHABET) for _ in range(length))


def planted(rng: random.Random) -> list[tuple[str, str]]:
    """(secret, text that holds it): every way in which a secret is known, with a value that nobody has seen."""
    key = word(rng, 24)
    hf, aws = f"hf_{word(rng, 34)}", "AKIA" + word(rng, 16).upper()
    return [
        (key, f"--api-key {key} --tp 8"),
        (key, f"--admin-api-key={key}"),
        (key, f"export WANDB_API_KEY={key}"),
        (key, f"INFO Authorization: Bearer {key}"),
        (key, f"curl -H 'authorization: bearer {key}' http://127.0.0.1:30000/v1"),
        (key, f"{{'Authorization': 'Bearer {key}'}}"),
        (key, f"x-api-key: {key}"),
        (key, f"postgresql://me:{key}@db.example/x failed"),
        (key, f"git clone https://{key}@example.org/r.git"),
        (key, f"server_args=ServerArgs(model_path='/m', api_key='{key}', tp_size=8)"),
        (key, f'{{"api_key": "{key}", "tp": 8}}'),
        (key, f"AWS_SECRET_ACCESS_KEY={key} AWS_REGION=eu"),
        (key, f"GET https://bucket.example/m?X-Amz-Signature={key}"),
        (hf, f"401 for token {hf} at huggingface.co"),
        (aws, f"credentials {aws} were not accepted"),
        (f"sk-{key}", f"key sk-{key}, sorry"),
    ]


SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_planted_secret_is_hidden_wherever_it_stands(seed: int) -> None:
    rng = random.Random(seed)
    for secret, text in planted(rng):
        before, after = (" ".join(word(rng, rng.randint(1, 9)) for _ in range(rng.randint(0, 5))) for _ in range(2))
        whole = " ".join(part for part in (before, text, after) if part)
        kinds: list[str] = []
        hidden = redact_text(whole, kinds.append)
        assert secret not in hidden
        assert HIDDEN in hidden
        assert kinds
        assert redact_text(hidden) == hidden, "hiding twice changes nothing"


@pytest.mark.parametrize("seed", SEEDS)
def test_text_without_secrets_stays_as_it_is(seed: int) -> None:
    rng = random.Random(seed)
    words = [word(rng, rng.randint(1, 14)) for _ in range(30)]
    text = " ".join(rng.choice(("{}", "{}=3", "#{}: 12", "--{}", "[{}]")).format(one) for one in words)
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "Prefill batch. #new-seq: 1, #new-token: 512, #cached-token: 0, token usage: 0.00, #queue-req: 0",
        "Decode batch. #running-req: 1, #token: 123, token usage: 0.00, cuda graph: True",
        "max_new_tokens=16, stop_token=None, api_key=None, admin_api_key=None",
        "KeyError: 'q_proj.weight'; ValueError: Invalid token: expected",
        "bearer authentication is required",
        "http://127.0.0.1:30000/v1/models?limit=3",
        "--speculative-token-map /models/map --tokenizer-path /models/t",
    ],
)
def test_what_an_engine_prints_every_day_stays(text: str) -> None:
    assert redact_text(text) == text


def test_kinds_are_told_without_values() -> None:
    kinds: list[str] = []
    redact_argv(("--api-key", "abc", "--ssl-keyfile-pass", "x", "--hf-token=y", "redis://:pw@h"), kinds.append)
    assert kinds == ["API key", "password", "token", "password in a URL"]


def filled(cls: Any, secret: str) -> Any:
    """An object of this class with the secret in every text that it can hold, however deep."""
    values = {}
    for spec, hint in zip(dataclasses.fields(cls), _hints(cls), strict=True):
        value = _value(hint, secret, spec.name)
        if value is not None:
            values[spec.name] = value
    return cls(**values)


def _hints(cls: Any) -> list[Any]:
    hints = typing.get_type_hints(cls)
    return [hints[spec.name] for spec in dataclasses.fields(cls)]


def _value(hint: Any, secret: str, name: str) -> Any:
    arguments = [part for part in typing.get_args(hint) if part is not type(None)]
    origin = typing.get_origin(hint)
    if origin is tuple:
        return ("python", "--api-key", secret) if name == "argv" else (_value(arguments[0], secret, name),)
    if origin is dict:
        return {"API_KEY": secret, "x": f"Bearer {secret}"} if arguments[1] is str else {f"a_token={secret}": 1}
    if arguments:
        return _value(arguments[0], secret, name)
    if dataclasses.is_dataclass(hint):
        return filled(hint, secret)
    return {str: f"hf_{secret} and --api-key {secret}", float: 1.0, int: 1, bool: True}[hint]


@pytest.mark.parametrize("cls", events.KINDS.values(), ids=lambda cls: cls.kind)
def test_no_kind_of_event_has_a_text_that_is_passed_over(cls: type[Event]) -> None:
    secret = "S3cretS3cretS3cretS3cret"
    event = filled(cls, secret)
    assert secret not in encode(redacted(event)).decode()


def test_an_event_of_an_unknown_kind_is_covered_too() -> None:
    event = Other(at=1.0, original={"kind": "new", "at": 1.0, "say": {"api_key": "abc"}, "list": ["HF_TOKEN=abc"]})
    assert b"abc" not in encode(redacted(event))


def test_what_holds_no_secret_is_not_made_anew() -> None:
    event = Processes(1.0, (events.Process(1, 2.0, "scheduler", title="sglang::scheduler_TP0"),))
    assert redacted(event) is event


def test_a_refusal_quotes_no_secret() -> None:
    hidden = redacted_refusal(
        Refused("--api-key abcdef is no flag", "HF_TOKEN=abcdef", "launchmon launch --api-key abcdef")
    )
    assert "abcdef" not in json.dumps(hidden.as_json())
    assert hidden.what == "--api-key ••• is no flag"


def test_a_watch_knows_no_secret() -> None:
    async def heard() -> list[bytes]:
        watch = Watch(Run(1.0, id="r", argv=("x", "--api-key", "abcdef")), None, None)
        lines: list[bytes] = []
        watch.listen(lambda _event, line: lines.append(line))
        watch.emit(Mark(2.0, "args", "begin", None, text="api_key='abcdef'", values={"api_key": "abcdef"}))
        watch.emit(Log(3.0, last=(events.LastLine("TP0", 3.0, "Bearer abcdef"),)))
        return lines

    lines = asyncio.run(heard())
    assert len(lines) == 3
    assert all(b"abcdef" not in line for line in lines)


def test_the_sensor_of_the_port_has_the_key_that_no_event_tells() -> None:
    started = Run(1.0, id="r", pid=1, start_time=1.0, argv=("x", "--api-key", "abcdef"))
    sensor = observe._http_sensor(started)(redacted(started), lambda _pid: True)
    assert sensor._api_key == "abcdef"


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    """Recorded by a version that kept the command as it was given."""
    directory = RunDirectory(str(tmp_path))
    run = Run(1.0, id="r", argv=("x", "--api-key", "abcdef"))
    notices = [Notice(float(number), source="log", text="n" * 100) for number in range(20_000)]
    with open(directory.events, "wb") as file:
        file.writelines(encode(event) for event in (run, *notices))
        file.write(b'no event\n{"kind":"notice","at":9,"text":"torn')
    return directory


def test_an_old_recording_is_given_without_its_secrets(directory: RunDirectory) -> None:
    lines = list(shareable_lines(directory))
    assert len(lines) == 20_001
    assert b"abcdef" not in lines[0]
    assert b"--api-key" in lines[0]


def test_a_recording_is_given_in_parts_of_bounded_size(directory: RunDirectory) -> None:
    sharing, start, got, parts = Sharing(directory), 0, b"", 0
    while start is not None:
        part = sharing.part(start)
        data = zlib.decompress(base64.b64decode(part["data"]))
        assert len(data) < 1.1 * (1 << 20)
        got, parts, start = got + data, parts + 1, part["next"]
    assert got == b"".join(shareable_lines(directory))
    assert parts > 2


def test_a_part_may_be_asked_for_again(directory: RunDirectory) -> None:
    sharing = Sharing(directory)
    second = sharing.part(sharing.part(0)["next"])
    assert sharing.part(sharing.part(0)["next"]) == second
    with pytest.raises(Refused):
        sharing.part(-1)
