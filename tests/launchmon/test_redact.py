"""Names of users and machines, and the counting of what is hidden."""

from __future__ import annotations

import json
import random
import string

import pytest

from launchmon.redact import HIDDEN_BEFORE, Redactor, told
from launchmon_agent.redaction import redacted_object
from launchmon_agent.sglang.secrets import HIDDEN


def word(rng: random.Random) -> str:
    return rng.choice(string.ascii_lowercase) + "".join(rng.choice(string.ascii_lowercase) for _ in range(7))


@pytest.mark.parametrize("seed", range(30))
def test_a_known_name_appears_nowhere_whatever_surrounds_it(seed: int) -> None:
    rng = random.Random(seed)
    user, host, domain = word(rng), f"{word(rng)}{rng.randint(1, 99)}", f"{word(rng)}.example"
    address = f"10.{rng.randint(0, 255)}.{rng.randint(0, 255)}.{rng.randint(1, 254)}"
    redactor = Redactor([user], [f"{host}.{domain}"])
    texts = [
        f"/home/{user}/models/x.safetensors",
        f"/Users/{user}",
        f"{user}@{host}:~$ python",
        f"Connection to {host} closed",
        f"http://{host}.{domain}:30000/v1",
        f"[{address}]:5000 and tcp://{address}:29500",
        f"dist_init_addr='{address}:5000'",
        f'File "/home/{user}/sglang/run.py", line 3, in {word(rng)}',
    ]
    for text in texts:
        hidden = redactor.text(text)
        for name in (user, host, address):
            assert name not in hidden
        assert redactor.text(hidden) == hidden, "hiding twice changes nothing"
    assert redactor.counts["user name"] >= 4
    assert redactor.counts["network address"] >= 3


def test_the_same_name_is_the_same_word_everywhere() -> None:
    redactor = Redactor()
    assert redactor.text("/home/ann/a") == "/home/user-1/a"
    assert redactor.text("/home/bob/b and /home/ann") == "/home/user-2/b and /home/user-1"
    assert redactor.text("10.1.2.3 10.1.2.4 10.1.2.3") == "host-1 host-2 host-1"


@pytest.mark.parametrize(
    "text",
    [
        "listening on 127.0.0.1:30000 and 0.0.0.0 and ::1 and localhost",
        "cudnn==9.1.0.70 at 18:00:02, pci 00000000:01:00.0",
        "/root/models, /home/ubuntu/x, root@localhost",
        "Load weight end. elapsed=12.04 s, avail mem=26.72 GB",
        "sgl-project/sglang model_runner.py:512",
    ],
)
def test_what_names_nobody_stays(text: str) -> None:
    assert Redactor().text(text) == text


def test_names_are_kept_on_request_and_secrets_are_not() -> None:
    redactor = Redactor(["ann"], ["gpu7"], keep_names=True)
    assert redactor.text("/home/ann on gpu7 10.1.2.3 --api-key abc") == f"/home/ann on gpu7 10.1.2.3 --api-key {HIDDEN}"


def test_a_machine_that_the_command_names_is_known_in_every_text() -> None:
    redactor = Redactor()
    run = {"kind": "run", "argv": ["x", "--dist-init-addr", "gamma3:5000", "--nnodes", "2"], "variables": {}}
    redactor.learn(run)
    redactor.learn({"kind": "run", "argv": [], "variables": {"MASTER_ADDR": "delta4"}})
    assert redactor.text("waiting for gamma3 and delta4") == "waiting for host-1 and host-2"
    assert redactor.words(run["argv"])[2] == "host-1:5000"  # type: ignore[arg-type]


def test_fields_of_events_keep_their_names_whatever_a_machine_is_called() -> None:
    redactor = Redactor(["text"], ["rank"])
    body = {"kind": "error", "at": 1.0, "rank": "TP0", "text": "failed on rank"}
    assert redacted_object(body, redactor) == {"kind": "error", "at": 1.0, "rank": "TP0", "text": "failed on host-1"}


def test_kinds_are_counted_and_no_value_is_told() -> None:
    redactor = Redactor()
    redactor.text("--api-key abc Bearer defdefdef")
    redactor.text(f"--api-key {HIDDEN} and {HIDDEN}")
    redactor.words(("x", "--hf-token", "ghighighi"))
    redactor.named("AWS_SECRET_ACCESS_KEY", "jkljkljkl")
    assert redactor.counts == {"API key": 3, "bearer token": 1, HIDDEN_BEFORE: 1, "token": 1}
    lines = told(redactor.counts)
    assert lines[0] == "API key: in 3 places"
    assert not any(value in json.dumps(lines) for value in ("abc", "def", "ghi", "jkl"))


def test_a_text_that_comes_again_is_counted_again() -> None:
    redactor = Redactor()
    for _ in range(3):
        redactor.text("HF_TOKEN=abc")
    assert redactor.counts == {"token": 3}
