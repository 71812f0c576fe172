"""MessagePack: each form of the specification, and damage."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest

from launchmon_agent.sensors.msgpack import unpack


@pytest.mark.parametrize(
    "data, value",
    [
        ("00", 0),
        ("7f", 127),
        ("ff", -1),
        ("e0", -32),
        ("c0", None),
        ("c2", False),
        ("c3", True),
        ("ccff", 255),
        ("cd0100", 256),
        ("ce00010000", 65536),
        ("cf0000000100000000", 1 << 32),
        ("d080", -128),
        ("d1ff00", -256),
        ("d2ffff0000", -65536),
        ("d3ffffffff00000000", -(1 << 32)),
        ("ca3fc00000", 1.5),
        ("cb3ff8000000000000", 1.5),
        ("a3616263", "abc"),
        ("a0", ""),
        ("d903616263", "abc"),
        ("da0003616263", "abc"),
        ("db00000003616263", "abc"),
        ("c4020102", b"\x01\x02"),
        ("c500020102", b"\x01\x02"),
        ("c6000000020102", b"\x01\x02"),
        ("930102a161", [1, 2, "a"]),
        ("dc00020102", [1, 2]),
        ("dd000000020102", [1, 2]),
        ("81a16101", {"a": 1}),
        ("de0001a16101", {"a": 1}),
        ("df00000001a16101", {"a": 1}),
        ("82a161c0a16290", {"a": None, "b": []}),
        ("d40507", b"\x07"),
        ("c7020501ff", b"\x01\xff"),
        ("d8" + "05" + "00" * 16, b"\0" * 16),
    ],
)
def test_each_form(data: str, value: Any) -> None:
    found = unpack(bytes.fromhex(data))
    assert found == value and type(found) is type(value)


def test_a_long_text_and_a_long_list() -> None:
    assert unpack(b"\xda\x01\x00" + b"x" * 256) == "x" * 256
    assert unpack(b"\xdc\x01\x00" + b"\x05" * 256) == [5] * 256


def test_a_time_keeps_its_precision() -> None:
    at = 1764439200.123456
    assert unpack(b"\xcb" + struct.pack(">d", at)) == at
    assert math.isnan(unpack(b"\xcb" + struct.pack(">d", math.nan)))


@pytest.mark.parametrize(
    "data, why",
    [
        ("", "cut"),
        ("cd01", "cut"),
        ("a361", "cut"),
        ("81a161", "cut"),
        ("dd7fffffff01", "cut"),
        ("c1", "0xc1"),
        ("0000", "after"),
        ("81c001", "key"),
        ("8190c0", "key"),
        ("a2fffe", "utf-8"),
        ("91" * 40 + "c0", "deep"),
    ],
)
def test_damage_is_refused(data: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        unpack(bytes.fromhex(data))


def test_every_cut_of_a_value_is_noticed() -> None:
    whole = bytes.fromhex("83a26162cb3ff8000000000000a26364930102a3786d6ca16581a166c4020102")
    assert unpack(whole) == {"ab": 1.5, "cd": [1, 2, "xml"], "e": {"f": b"\x01\x02"}}
    for length in range(len(whole)):
        with pytest.raises(ValueError):
            unpack(whole[:length])
