"""Small sources in the three styles in which SGLang has declared its flags, and the flag lists they give."""

from __future__ import annotations

from launchmon_agent.sglang.flags import source
from launchmon_agent.sglang.flags.model import FlagList

FILLERS = [f"filler_{number}" for number in range(source.FEWEST)]
"""A source with fewer flags than any release counts as not understood."""

CALLS = {
    source.MAIN: """
import argparse
import dataclasses
from typing import List, Optional

ATTENTION_BACKEND_CHOICES = [
    "triton",
    # NVIDIA specific
    "flashinfer",
]


@dataclasses.dataclass
class ServerArgs:
    model_path: str
    port: int = 30000
    mem_fraction_static: Optional[float] = None
    tp_size: int = 1
    lora_paths: Optional[List[str]] = None
    kv_cache_dtype: str = "auto"

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser):
        parser.add_argument("--model-path", "--model", type=str, help="The weights.", required=True)
        parser.add_argument("--port", type=int, default=ServerArgs.port, help="The port " "of the server.")
        parser.add_argument("--mem-fraction-static", type=float, default=ServerArgs.mem_fraction_static)
        parser.add_argument("--tensor-parallel-size", "--tp-size", type=int, default=ServerArgs.tp_size)
        parser.add_argument("--attention-backend", type=str, choices=ATTENTION_BACKEND_CHOICES)
        parser.add_argument("--kv-cache-dtype", default=ServerArgs.kv_cache_dtype, choices=["auto", "fp8_e5m2"])
        parser.add_argument("--disable-cuda-graph", action="store_true", help="Disable cuda graph.")
        parser.add_argument("--disable-cuda-graph-padding", action="store_true")
        parser.add_argument("--cuda-graph-max-bs", type=int)
        parser.add_argument("--cuda-graph-bs", type=int, nargs="+")
        parser.add_argument("--speculative-adaptive", action=argparse.BooleanOptionalAction, default=True)
        parser.add_argument("--tool-call-parser", type=str, choices=list(FunctionCallParser.Enum.keys()))
        parser.add_argument("--json-model-override-args", type=json.loads, default="{}")
        parser.add_argument("--api-key", type=str)
        parser.add_argument("--enable-symm-mem", action="store_true")
        parser.add_argument("--old-way", action=DeprecatedAction, help="NOTE: --old-way is deprecated.")
"""
    + "".join(f'        parser.add_argument("--{name.replace("_", "-")}", type=int)\n' for name in FILLERS)
}
"""Up to 0.5.13."""

FIELDS = {
    source.MAIN: '''
from sglang.srt.arg_groups.arg_utils import A, Arg

LOAD_FORMAT_CHOICES = ["auto", "dummy"]


@dataclasses.dataclass
class ServerArgs:
    """Fields: ``x: A[int, "help"] = 1``."""

    model_path: A[str, Arg(help="The weights.", aliases=["--model"])]
    port: A[int, "The port of the server."] = 30000
    load_format: A[str, Arg(help="Format.", choices=LOAD_FORMAT_CHOICES)] = "auto"
    tp_size: A[int, Arg(help="Size.", aliases=["--tensor-parallel-size"])] = 1
    enable_symm_mem: A[bool, "Symmetric memory."] = False
    sleep_on_idle: A[Optional[bool], "Sleep."] = None
    cuda_graph_bs_decode: A[Optional[List[int]], Arg(help="Sizes.")] = None
    cuda_graph_backend_decode: A[Optional[Literal["full", "disabled"]], Arg(help="How.", choices=Backend.ALL)] = None
    cuda_graph_max_bs_decode: A[int | None, "Largest."] = None
    cuda_graph_max_bs_prefill: A[int | None, "Largest."] = None
    crash_folder: A[Optional[str], Arg(help="Where.", cli_name="--crash-dump-folder")] = None
    lora_paths: A[List[str], Arg(help="Adapters.", action=LoRAPathAction, action_kwargs={"nargs": "*"})] = None
    tf32: A[Optional[bool], Arg(help="TF32.", action=argparse.BooleanOptionalAction)] = None
    hidden: A[Optional[str], Arg(help="Resolved later.", no_cli=True)] = None
    plain: int = 5
'''
    + "".join(f'    {name}: A[int, "Nothing."] = 0\n' for name in FILLERS)
    + """
    @staticmethod
    def add_cli_args(parser):
        add_cli_args_from_dataclass(parser, ServerArgs)
        parser.add_argument("--sampling-backend", type=str, choices=sampling_backend_choices)
        parser.add_argument("--config", type=str, help="Read CLI options from a config file.")
        parser.add_argument(
            "--disable-cuda-graph",
            action=DeprecatedStoreTrueAction,
            new_flag="--cuda-graph-backend-{decode,prefill}=disabled",
            help="Deprecated. Use another.",
        )
        parser.add_argument(
            "--monokernel-backend",
            action=DeprecatedStoreConstAction,
            nargs=None,
            choices=["amd"],
            default=False,
            new_flag="--enable-amd-monokernel",
        )
"""
}
"""0.5.14 to 0.5.19."""

STRUCTS = {
    source.MAIN: FIELDS[source.MAIN].split("@dataclasses.dataclass")[0]
    + "class ServerArgs:\n    @staticmethod"
    + FIELDS[source.MAIN].split("@staticmethod")[1],
    source.CONSTANTS[0]: 'LOAD_FORMAT_CHOICES = ["auto", "dummy"]\nQUICK = LOAD_FORMAT_CHOICES + ["quick"]\n',
    f"{source.FIELDS}/model.py": """
class ModelLoad(msgspec.Struct):
    _NS_PATH = "model.load"
    model_path: A[str, Arg(help="The weights.", aliases=["--model"])]
    load_format: A[str, Arg(help="Format.", choices=QUICK, resolvable=True)] = "auto"
    tokens: A[int, "So many."] = 4 * 1024
    rank: A[int, Derived("set at run time")] = 0
""",
    f"{source.FIELDS}/parallel.py": """
class Parallel(msgspec.Struct):
    tp_size: A[int, Arg(help="Size.", aliases=["--tensor-parallel-size"])] = 1
"""
    + "".join(f'    {name}: A[int, "Nothing."] = 0\n' for name in FILLERS),
}
"""From 0.5.20."""


def flags_of(sources: dict[str, str], version: str) -> FlagList:
    return FlagList(source.parse(sources), version=version)


OLD = flags_of(CALLS, "0.5.8")
NEW = flags_of(FIELDS, "0.5.20")
