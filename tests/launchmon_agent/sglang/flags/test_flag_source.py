"""The flags of a source, in each style in which SGLang has declared them."""

from __future__ import annotations

import pytest

from launchmon_agent.sglang.flags import source
from launchmon_agent.sglang.flags.model import MAYBE, SWITCH, VALUE, VALUES, Flag
from tests.support.flag_sources import CALLS, FIELDS, FILLERS, STRUCTS


def named(sources: dict[str, str]) -> dict[str, Flag]:
    return {flag.name: flag for flag in source.parse(sources)}


def test_calls_of_add_argument() -> None:
    flags = named(CALLS)
    assert flags["--model-path"] == Flag("--model-path", ("--model",), VALUE, "str", "None", (), "The weights.")
    assert flags["--port"] == Flag("--port", (), VALUE, "int", "30000", (), "The port of the server.")
    assert flags["--tensor-parallel-size"].aliases == ("--tp-size",)
    assert flags["--attention-backend"].choices == ("triton", "flashinfer")
    assert (flags["--kv-cache-dtype"].choices, flags["--kv-cache-dtype"].default) == (("auto", "fp8_e5m2"), "'auto'")
    assert (flags["--disable-cuda-graph"].takes, flags["--disable-cuda-graph"].default) == (SWITCH, "False")
    assert (flags["--cuda-graph-bs"].takes, flags["--cuda-graph-bs"].type) == (VALUES, "int")
    assert flags["--speculative-adaptive"].spellings == ("--speculative-adaptive", "--no-speculative-adaptive")
    assert flags["--speculative-adaptive"].is_switch
    assert flags["--tool-call-parser"].choices == ()  # computed at the start
    assert flags["--json-model-override-args"].type == "json"
    assert flags["--old-way"].deprecated and flags["--old-way"].is_switch


def test_annotated_fields() -> None:
    flags = named(FIELDS)
    assert flags["--model-path"] == Flag("--model-path", ("--model",), VALUE, "str", None, (), "The weights.")
    assert flags["--port"] == Flag("--port", (), VALUE, "int", "30000", (), "The port of the server.")
    assert flags["--load-format"].choices == ("auto", "dummy")
    assert flags["--enable-symm-mem"].is_switch and flags["--sleep-on-idle"].is_switch
    assert (flags["--cuda-graph-bs-decode"].takes, flags["--cuda-graph-bs-decode"].type) == (VALUES, "int")
    assert flags["--cuda-graph-backend-decode"].choices == ("full", "disabled")
    assert flags["--cuda-graph-max-bs-decode"].type == "int"
    assert flags["--tf32"].negatable and flags["--tf32"].is_switch
    assert flags["--lora-paths"].takes == VALUES
    assert "--crash-dump-folder" in flags
    assert not {"--hidden", "--plain", "--crash-folder"} & set(flags)


def test_calls_beside_the_fields() -> None:
    flags = named(FIELDS)
    graphs = flags["--disable-cuda-graph"]
    assert (graphs.takes, graphs.deprecated) == (SWITCH, True)
    assert graphs.instead == "--cuda-graph-backend-{decode,prefill}=disabled"
    kernel = flags["--monokernel-backend"]
    assert (kernel.takes, kernel.choices, kernel.instead) == (VALUE, ("amd",), "--enable-amd-monokernel")
    assert "--config" in flags


def test_classes_in_files_of_their_own() -> None:
    flags = named(STRUCTS)
    assert flags["--load-format"].choices == ("auto", "dummy", "quick")
    assert flags["--tokens"].default == "4096"
    assert flags["--tp-size"].aliases == ("--tensor-parallel-size",)
    assert flags["--disable-cuda-graph"].deprecated
    assert "--rank" not in flags
    assert len(flags) == 4 + len(FILLERS) + 4


def test_a_flag_that_may_stand_alone() -> None:
    text = CALLS[source.MAIN] + '        parser.add_argument("--ratio", nargs="?", const=0.5, type=float)\n'
    assert named({source.MAIN: text})["--ratio"].takes == MAYBE


@pytest.mark.parametrize("text", ["", "def broken(:", "class ServerArgs:\n    port: int = 1\n", "x" * 10 + "("])
def test_what_is_not_understood_is_said(text: str) -> None:
    with pytest.raises(source.NotUnderstood):
        source.parse({source.MAIN: text})
