"""Secrets in command lines, environments and text."""

from __future__ import annotations

import pytest

from launchmon_agent.sglang.secrets import HIDDEN, is_secret_name, redact_argv, redact_env, redact_text


@pytest.mark.parametrize(
    "name",
    [
        "--api-key",
        "--api",
        "--admin-api-key",
        "--admin",
        "--ssl-keyfile-password",
        "--hf-token",
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "OPENAI_API_KEY",
        "DB_PASSWORD",
        "dbPassword",
        "apiKey",
        "WANDB_API_KEY",
    ],
)
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "--max-total-tokens",
        "--tokenizer-path",
        "--speculative-num-draft-tokens",
        "--bucket-time-to-first-token",
        "--ssl-keyfile",
        "--speculative-token-map",
        "--sort-key",
        "TOKENIZERS_PARALLELISM",
        "AWS_ACCESS_KEY_ID",
        "PATH",
        "--port",
        "",
    ],
)
def test_names_that_hold_no_secret(name: str) -> None:
    assert not is_secret_name(name)


def test_argv_keeps_its_words_and_loses_its_secrets() -> None:
    argv = ["python", "-m", "sglang.launch_server", "--api-key", "s3cret", "--admin-api-key=other", "--port", "1"]
    hidden = redact_argv(argv)
    assert hidden == (*argv[:4], HIDDEN, f"--admin-api-key={HIDDEN}", "--port", "1")


def test_a_secret_that_begins_with_a_dash_is_hidden_and_a_following_flag_is_not() -> None:
    assert redact_argv(["--api-key", "-abc"]) == ("--api-key", HIDDEN)
    assert redact_argv(["--api-key", "--port", "1"]) == ("--api-key", "--port", "1")


def test_environment() -> None:
    env = {"HF_TOKEN": "x", "PATH": "/bin", "GONE_TOKEN": None, "http_proxy": "http://me:pw@proxy:3128"}
    assert redact_env(env) == {
        "HF_TOKEN": HIDDEN,
        "PATH": "/bin",
        "GONE_TOKEN": None,
        "http_proxy": f"http://me:{HIDDEN}@proxy:3128",
    }


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("token hf_abcdefghijklmnopqrstuvwx used", f"token {HIDDEN} used"),
        ("redis://:pw@host:6379", f"redis://:{HIDDEN}@host:6379"),
        ('{"api_key": "abc", "threads": "8"}', f'{{"api_key": "{HIDDEN}", "threads": "8"}}'),
        ("{'hf_token': 'it\\'s'}", f"{{'hf_token': '{HIDDEN}'}}"),
        ("HF_TOKEN=abc sglang", f"HF_TOKEN={HIDDEN} sglang"),
        ("ServerArgs(api_key='abc', tp_size=8)", f"ServerArgs(api_key={HIDDEN}, tp_size=8)"),
        ("nothing here: http://host:1/x?a=b", "nothing here: http://host:1/x?a=b"),
    ],
)
def test_text(text: str, hidden: str) -> None:
    assert redact_text(text) == hidden


def test_a_word_that_is_a_sentence_is_hidden_in_all_its_parts() -> None:
    (word,) = redact_argv(["Authorization: Bearer abcdefgh https://me:word@example.org api_key=k3y"])
    assert word == f"Authorization: Bearer {HIDDEN} https://me:{HIDDEN}@example.org api_key={HIDDEN}"
