"""The wire format: every kind survives a round trip, and reading is tolerant where versions meet."""

from __future__ import annotations

import dataclasses
import json
import random
import types
import typing
from typing import Any

import pytest

from launchmon_agent import codec, events
from launchmon_agent.codec import Malformed
from launchmon_agent.events import Event, Gpu, Gpus, Other, Process, Processes, Run


def sample_of(hint: Any, random_: random.Random) -> Any:
    """A value of the annotated type, drawn at random."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        part = random_.choice(typing.get_args(hint))
        return None if part is type(None) else sample_of(part, random_)
    if origin is tuple:
        return tuple(sample_of(typing.get_args(hint)[0], random_) for _ in range(random_.randrange(3)))
    if origin is dict:
        return {f"k{n}": sample_of(typing.get_args(hint)[1], random_) for n in range(random_.randrange(3))}
    if dataclasses.is_dataclass(hint):
        return make(hint, random_)
    return {
        int: lambda: random_.randrange(-(2**40), 2**40),
        float: lambda: random_.randrange(-(10**6), 10**6) / 8,
        str: lambda: random_.choice(["", "TP0", "é\u202e\n\x00", "a" * 50]),
        bool: lambda: random_.random() < 0.5,
        Any: lambda: None,
    }[hint]()


def make(cls: Any, random_: random.Random) -> Any:
    hints = typing.get_type_hints(cls)
    return cls(**{spec.name: sample_of(hints[spec.name], random_) for spec in dataclasses.fields(cls)})


@pytest.mark.parametrize("kind", sorted(events.KINDS))
@pytest.mark.parametrize("seed", range(20))
def test_every_kind_survives_a_round_trip(kind: str, seed: int) -> None:
    event = make(events.KINDS[kind], random.Random(f"{kind}{seed}"))
    line = codec.encode(event)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert codec.decode(line) == event


def test_fields_at_their_default_are_not_sent() -> None:
    assert json.loads(codec.encode(Gpus(1.0))) == {"kind": "gpus", "at": 1.0}


def test_unknown_fields_are_dropped_and_missing_ones_take_their_default() -> None:
    event = codec.decode(b'{"kind":"gpus","at":2,"colour":"red","gpus":[{"index":3,"glow":1}]}')
    assert event == Gpus(2.0, gpus=(Gpu(index=3),))


def test_an_unknown_kind_is_kept_whole() -> None:
    line = b'{"kind":"weather","at":2.5,"rain":[1,2]}\n'
    event = codec.decode(line)
    assert isinstance(event, Other)
    assert json.loads(codec.encode(event)) == json.loads(line)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b'"gpus"',
        b"\xff\xfe",
        b'{"kind":"gpus"}',
        b'{"kind":"gpus","at":"now"}',
        b'{"kind":"gpus","at":true}',
        b'{"kind":"gpus","at":1,"gpus":{}}',
        b'{"kind":"gpus","at":1,"gpus":[7]}',
        b'{"kind":"gpus","at":1,"gpus":[{}]}',
        b'{"kind":"run","at":1}',
        b'{"kind":"run","at":1,"id":7}',
        b'{"kind":"run","at":1,"id":"x","tp":true}',
        b"[" * 100_000,
    ],
)
def test_damage_is_malformed_and_nothing_else(line: bytes) -> None:
    with pytest.raises(Malformed):
        codec.decode(line)


def test_random_damage_never_raises_anything_else() -> None:
    random_ = random.Random(7)
    line = codec.encode(Processes(1.0, processes=(Process(1, 2.0, "scheduler", rank="TP0", children={"nvcc": 2}),)))
    for _ in range(3000):
        damaged = bytearray(line)
        for _ in range(random_.randrange(1, 6)):
            damaged[random_.randrange(len(damaged))] = random_.randrange(256)
        try:
            assert isinstance(codec.decode(bytes(damaged)), Event)
        except Malformed:
            pass


def test_infinities_and_nans_become_unknown() -> None:
    event = Gpus(1.0, gpus=(Gpu(0, power_w=float("nan"), util_percent=float("inf")),))
    assert codec.decode(codec.encode(event)) == Gpus(1.0, gpus=(Gpu(0),))


@pytest.mark.parametrize(
    ("sizes", "ranks"),
    [
        ({"tp": 8}, 8),
        ({"tp": 4, "dp": 2}, 8),
        ({"tp": 8, "dp": 8, "attention_dp": True}, 8),
        ({"tp": 8, "pp": 2, "nnodes": 2}, 8),
        ({}, 1),
    ],
)
def test_ranks_of_a_node(sizes: dict[str, Any], ranks: int) -> None:
    assert Run(0.0, id="x", **sizes).ranks_here == ranks
