"""The quick look for secrets misses none that the slow one finds, and no text takes it long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchmon_agent.sglang import secrets
from launchmon_agent.sglang.secrets import HIDDEN, redact_text
from tests.support.hostile_text import BOUNDED, TEXT

NAMES = (  # noqa: SIM905  (a list would take a line for each)
    "token api_key apiKey Access-Key dbPassword HF_TOKEN pat passphrase secrets key sort-key authorization x-api-key "
    "Proxy-Authorization --api-k --admin --ssl-keyfile-p max_new_token tokenizer first_token token_ tokené token\u212a "
    "token\u0130 1token _ credential hf\u0660key"
).split(" ")
BETWEEN = ("=", ": ", ":", " ", "\u00a0", "\x1c", '": "', "': '", "' : \"", "= ", ":\u2003", " = ", '":', "\\")
VALUES = (  # noqa: SIM905
    'None True 512 512, 12345678 123456789012 -1.5% 1.5) s3cretvalue abcdef x ••• é5 \\ \\" \n http://user:pw@host/ '
    "http://abcdefghijklmnopq@host hf_abcdefghijklmnop sk-abcdefghijklmnop AKIAABCDEFGHIJKLMNOP nvapi-abcdefghijklmnop "
    "eyJabcdefgh.abcdefgh.abc ghp_abcdefghijklmnopqrst xoxb-1234567890 github_pat_abcdefghijklmnopqrst "
    "AIzaabcdefghijklmnopqrstabcdefghijklmnopqrs -----BEGIN|PRIVATE|KEY----- Bearer|abc"
).split(" ")
NAMED = st.tuples(
    st.sampled_from(["", " ", "'", '"', "(", "\n", "-"]), *(st.sampled_from(one) for one in (NAMES, BETWEEN, VALUES))
)
SENTENCE = st.lists(NAMED.map("".join), max_size=4).map("".join).map(lambda text: text.replace("|", " "))


@given(SENTENCE)
@BOUNDED
def test_the_quick_look_changes_nothing_about_named_secrets(text: str) -> None:
    told: list[str] = []
    slowly: list[str] = []
    assert redact_text(text, told.append) == secrets._redact_suspect(text, slowly.append)
    assert told == slowly


@given(st.tuples(TEXT, SENTENCE, TEXT).map("".join))
@BOUNDED
def test_nor_about_any_other_text(text: str) -> None:
    assert redact_text(text) == secrets._redact_suspect(text, None)


@pytest.mark.parametrize(
    "line",
    [
        "[2026-11-29 16:10:00 TP0] Decode batch, #token: 123456, token usage: 0.42, gen throughput (token/s): 1234.56",
        '[2026-11-29 16:10:00] INFO:     127.0.0.1:33338 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        "[2026-11-29 16:10:00 TP0] Load weight begin. avail mem=90.00 GB",
        "Loading safetensors checkpoint shards:  33% Completed | 1/3 [00:01<00:02,  1.50it/s]",
        "[2026-11-29 16:10:00] Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)",
    ],
)
def test_usual_lines_are_no_suspects(line: str) -> None:
    assert secrets._SUSPECT.search(line.lower().encode()) is None


@pytest.mark.parametrize(
    "text",
    [
        "'api_key': \"" + "\\" * 4000,  # matched in two ways each, this would take for ever
        "a" * 4000 + " token= ://",
        "a-" * 2000 + ": --x",
        "'token': \"a" * 400,
        "--a" * 1300 + " token",
    ],
)
def test_no_text_takes_long(text: str) -> None:
    assert len(redact_text(text)) <= len(text)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ('{"api_key": "abc', f'{{"api_key": "{HIDDEN}"'),
        ('{"api_key": "ab\\"c\nnext "line"', f'{{"api_key": "{HIDDEN}"\nnext "line"'),
        ("it says --api-k=s3cret here", f"it says --api-k={HIDDEN} here"),
    ],
)
def test_a_value_that_is_cut_or_abbreviated_is_hidden_too(text: str, hidden: str) -> None:
    assert redact_text(text) == hidden
