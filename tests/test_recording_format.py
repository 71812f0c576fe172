"""docs/recording-format.md says what launchmon_agent/events says."""

from __future__ import annotations

import json
import re

import pytest

from launchmon_agent import codec, events
from launchmon_agent.runs import recording
from tests.support import recording_format

TEXT = recording_format.PAGE.read_text()
EXAMPLES = [line for block in re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]


def test_every_event_and_field_is_described_as_it_is() -> None:
    assert recording_format.page(TEXT) == TEXT, "python -m tests.support.recording_format writes it anew"


def test_every_kind_has_a_section() -> None:
    assert re.findall(r"^### `(\w+)`$", TEXT, re.MULTILINE) == list(events.KINDS)


def test_the_document_has_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_are_what_would_be_written(line: str) -> None:
    event = codec.decode(line)
    assert not isinstance(event, events.Other)
    assert json.loads(codec.encode(event)) == json.loads(line)


def test_the_kinds_called_samples_are_those_that_are_thinned() -> None:
    sentence = re.search(r"What describes a moment \((.*?)\)", TEXT, re.DOTALL)
    assert sentence is not None
    assert set(re.findall(r"`(\w+)`", sentence[1])) == recording.SAMPLES


def test_sizes_are_those_of_the_code() -> None:
    assert f"reaches {recording.PART_SIZE >> 20} MiB" in TEXT
    assert f"pass {recording.CAP >> 20} MiB" in TEXT
