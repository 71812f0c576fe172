"""Whatever a log holds, what is shown acts on no terminal."""

from __future__ import annotations

import random
import unicodedata

import pytest

from launchmon_agent.log.display import LIMIT, text_of


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain text", "plain text"),
        ("Capturing 33%|███▎ | 1/3 ✓ 模型".encode(), "Capturing 33%|███▎ | 1/3 ✓ 模型"),
        (b"\x1b[32mINFO\x1b[0m ok", "INFO ok"),
        (b"\x1b[38;5;12mblue\x1b[m", "blue"),
        (b"\x1b[38:2::1:2:3mrgb\x1b[m", "rgb"),
        (b"\x1b[2Jcleared", "␛[2Jcleared"),
        (b"\x1b]0;title\x07", "␛]0;title␇"),
        (b"a\x00b\x08c\x7f", "a␀b␈c␡"),
        (b"bad \xff\xfe utf", "bad \ufffd\ufffd utf"),
        (b"cut \xe2\x96", "cut \ufffd\ufffd"),
        ("c1 \x9b31m \x85".encode(), "c1 ⟨U+009B⟩31m ⟨U+0085⟩"),
        (b"raw c1 \x9b31m", "raw c1 \ufffd31m"),
        ("\u202egnp.exe\u2066x\u2069".encode(), "⟨U+202E⟩gnp.exe⟨U+2066⟩x⟨U+2069⟩"),
        ("zero\u200bwidth\ufeff\u2060".encode(), "zero⟨U+200B⟩width⟨U+FEFF⟩⟨U+2060⟩"),
        ("soft\u00adhyphen \u061c \u180e".encode(), "soft⟨U+00AD⟩hyphen ⟨U+061C⟩ ⟨U+180E⟩"),
        ("tag\U000e0041".encode(), "tag⟨U+E0041⟩"),
        ("lines\u2028\u2029".encode(), "lines⟨U+2028⟩⟨U+2029⟩"),
        ("filler\u3164\u115f\u034f".encode(), "filler⟨U+3164⟩⟨U+115F⟩⟨U+034F⟩"),
        ("no\u00a0break\u3000wide".encode(), "no break wide"),
        ("⚠\ufe0f careful".encode(), "⚠ careful"),
        (b"a\tb\t\tc", "a       b               c"),
        (b"\x1b\tx", "␛       x"),
        ("e\u0301 cafe\u0301".encode(), "e\u0301 cafe\u0301"),
        (("z" + "\u0301" * 30 + "!").encode(), "z⟨30 combining marks⟩!"),
        ("👍🏽 \u0915\u093f ㉈".encode(), "👍 \u0915⟨U+093F⟩ ⟨U+3248⟩"),
    ],
)
def test_what_would_act_is_shown(data: bytes, text: str) -> None:
    assert text_of(data) == (text, False)


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_and_characters_never_reach_the_terminal_raw(seed: int) -> None:
    chance = random.Random(seed)
    characters = "".join(chr(chance.randrange(0x110000)) for _ in range(3000))
    for data in (
        chance.randbytes(5000),
        characters.encode("utf-8", "replace"),
        chance.randbytes(300).replace(b"\n", b"\x1b["),
    ):
        text, _ = text_of(data)
        assert text.isprintable()
        assert not any(unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp", "Cs", "Cn") for one in text)


@pytest.mark.parametrize(
    ("data", "kept", "left"),
    [(b"x" * 100, "x" * 40, 60), ("é".encode() * 100, "é" * 40, 120), (b"\xff" * 41, "\ufffd" * 40, 1)],
)
def test_a_long_line_is_cut_and_says_by_how_much(data: bytes, kept: str, left: int) -> None:
    assert text_of(data, limit=40) == (f"{kept} … +{left} bytes", True)


def test_what_was_not_read_is_counted_too() -> None:
    assert text_of(b"head", missing=1000) == ("head … +1000 bytes", True)


@pytest.mark.parametrize(
    "data", [b"\x1b" * 100, "\u202e".encode() * 100, b"\t" * 100, b"ab\t" * 50, b"x" * 38 + b"\tyz"]
)
def test_what_is_made_visible_counts_towards_the_limit(data: bytes) -> None:
    text, cut = text_of(data, limit=40)
    body, _, note = text.partition(" … +")
    assert len(body) <= 40
    assert cut and int(note.split()[0]) > 0


def test_a_line_of_exactly_the_limit_is_whole() -> None:
    assert text_of(b"x" * LIMIT) == ("x" * LIMIT, False)
    assert text_of(b"x" * (LIMIT + 1)) == ("x" * LIMIT + " … +1 bytes", True)
