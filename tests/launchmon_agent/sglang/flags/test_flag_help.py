"""The flag list from the text of ``--help``."""

from __future__ import annotations

from launchmon_agent.sglang.flags import help_text
from launchmon_agent.sglang.flags.model import MAYBE, SWITCH, VALUE, VALUES, Flag

TEXT = """\
usage: launch_server.py [-h] --model-path MODEL_PATH [--port PORT]
                        [--kv-cache-dtype {auto,fp8_e5m2}]

options:
  -h, --help            show this help message and exit
  --model-path MODEL_PATH, --model MODEL_PATH
                        The path of the model weights. This can be a local folder --or not.
  --kv-cache-dtype {auto,fp8_e5m2}
                        Data type for kv cache storage.
  --disable-cuda-graph  Deprecated. Use another.
  --cuda-graph-bs CUDA_GRAPH_BS [CUDA_GRAPH_BS ...]
                        Set the list of batch sizes.
  --ratio [RATIO]       A share.
  --speculative-adaptive, --no-speculative-adaptive
                        Adapts.
"""


def test_each_option_of_the_text_is_a_flag() -> None:
    flags = {flag.name: flag for flag in help_text.parse(TEXT)}
    assert flags["--model-path"] == Flag(
        "--model-path",
        ("--model",),
        VALUE,
        help="The path of the model weights. This can be a local folder --or not.",
    )
    assert flags["--kv-cache-dtype"].choices == ("auto", "fp8_e5m2")
    assert (flags["--disable-cuda-graph"].takes, flags["--disable-cuda-graph"].deprecated) == (SWITCH, True)
    assert flags["--cuda-graph-bs"].takes == VALUES
    assert flags["--ratio"].takes == MAYBE
    assert flags["--speculative-adaptive"].negatable and flags["--speculative-adaptive"].is_switch
    assert len(flags) == 6


def test_a_text_that_is_no_help_gives_nothing() -> None:
    assert help_text.parse("Traceback (most recent call last):\n  File x\nImportError: no torch\n") == ()
