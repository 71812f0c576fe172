"""A run as its command line and its ``server_args=`` line describe it. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from launchmon_agent.events import Mark, Run
from launchmon_agent.sglang.command import Command


def run_of_command(command: Command, at: float, **known: Any) -> Run:
    """A run event from a command; ``known`` are the fields that a command does not say."""
    return Run(
        at,
        argv=command.argv,
        model=command.model,
        tp=command.tp,
        pp=command.pp,
        dp=command.dp,
        attention_dp=command.attention_dp,
        ep=command.ep,
        attn_cp=command.attn_cp,
        moe_dp=command.moe_dp,
        nnodes=command.nnodes,
        node_rank=command.node_rank,
        host=command.host,
        port=command.port,
        simulated=command.simulated,
        **known,
    )


def run_from_args(run: Run, mark: Mark) -> Run:
    """The same run with what SGLang resolved its arguments to: the truth, also where a file or a default set them."""
    values = mark.values
    attention_dp = values.get("enable_dp_attention") == "True" or _number(values, "attn_dp_size", 1) > 1
    return replace(
        run,
        model=values.get("model_path", run.model),
        tp=_number(values, "tp_size", run.tp),
        pp=_number(values, "pp_size", run.pp),
        dp=max(_number(values, "dp_size", run.dp), _number(values, "attn_dp_size", 1)),
        attention_dp=attention_dp,
        ep=_number(values, "ep_size", run.ep),
        attn_cp=_number(values, "attn_cp_size", run.attn_cp),
        moe_dp=_number(values, "moe_dp_size", run.moe_dp),
        nnodes=_number(values, "nnodes", run.nnodes),
        node_rank=_number(values, "node_rank", run.node_rank),
        host=values.get("host", run.host),
        port=_number(values, "port", run.port or 0) or None,
    )


def _number(values: dict[str, str], name: str, default: int) -> int:
    try:
        return int(values[name])
    except (KeyError, ValueError):
        return default
