"""What the installed SGLang takes: suggestions that it lacks are not made, and what was meant is said."""

from __future__ import annotations

import pytest

from launchmon_agent.events import LAUNCHER, Installed, Next, Verdict
from launchmon_agent.judge.supported import correction, feasible, installed, refused_flags, suggested, supports
from launchmon_agent.sglang.flags.model import SWITCH, Flag, FlagList
from tests.support.story import T0, Story

SERVER = ("python", "-m", "sglang.launch_server", "--model-path", "/m", "--tp", "8")
FLAGS = FlagList(
    (
        Flag("--model-path"),
        Flag("--tp-size", aliases=("--tensor-parallel-size",)),
        Flag("--mem-fraction-static", type="float"),
        Flag("--disable-cuda-graph", takes=SWITCH),
        Flag("--disable-radix-cache", takes=SWITCH),
        Flag("--api-key"),
    ),
    version="0.5.23",
)
HUNG = """
all_reduce (torch/distributed/distributed_c10d.py:2100)
init_memory_pool (sglang/srt/model_executor/model_runner.py:900)
"""


def refused(*flags: str, known: bool = True) -> Verdict:
    """A launch with these flags, which argparse did not take."""
    argv = (*SERVER, *flags)
    told = Story(tp=8, argv=argv).up_to("start")
    if known:
        told.event(installed(argv, FLAGS, T0 + 1))
    told.bare(5, f"launch_server.py: error: unrecognized arguments: {' '.join(flags)}")
    return told.dies(5, LAUNCHER, 2).play(20).last


def test_a_misspelt_flag_is_held_against_the_real_ones() -> None:
    verdict = refused("--mem-fraction-statc", "0.8")
    assert verdict.verdict == "crashed"
    assert verdict.summary.endswith("SGLang 0.5.23 has no --mem-fraction-statc; nearest is --mem-fraction-static.")
    assert verdict.next[0].do == "relaunch"
    assert verdict.next[0].change == ("drop --mem-fraction-statc", "--mem-fraction-static=0.8")


def test_a_flag_that_is_like_none_is_to_be_dropped() -> None:
    verdict = refused("--xyzzy")
    assert "SGLang 0.5.23 has no --xyzzy." in verdict.summary
    assert verdict.next[0].change == ("drop --xyzzy",)


def test_of_another_engine_s_flag_no_likeness_is_made_up() -> None:
    assert installed((*SERVER, "--gpu-memory-utilization", "0.9"), FLAGS, 0.0).unknown == {
        "--gpu-memory-utilization": ()
    }


def test_several_flags_are_each_told() -> None:
    verdict = refused("--xyzzy", "--disable-cuda-grph")
    assert "has no --xyzzy." in verdict.summary
    assert "has no --disable-cuda-grph; nearest is --disable-cuda-graph." in verdict.summary


def test_a_shortened_flag_that_could_mean_several_names_them() -> None:
    argv = (*SERVER, "--disable")
    known = installed(argv, FLAGS, 0.0)
    assert known.unknown == {"--disable": ("--disable-cuda-graph", "--disable-radix-cache")}
    told = Story(tp=8, argv=argv).up_to("start").event(installed(argv, FLAGS, T0 + 1))
    told.bare(5, "launch_server.py: error: ambiguous option: --disable could match --disable-cuda-graph, …")
    words = "has no --disable; nearest are --disable-cuda-graph and --disable-radix-cache."
    assert words in told.dies(5, LAUNCHER, 2).play(20).last.summary


def test_without_the_list_of_flags_nothing_is_guessed() -> None:
    verdict = refused("--mem-fraction-statc", "0.8", known=False)
    assert "does not take this command line" in verdict.summary
    assert "nearest" not in verdict.summary


def test_a_flag_that_the_installed_one_takes_is_not_called_unknown() -> None:
    known = installed((*SERVER, "--disable-cuda-graph"), FLAGS, 0.0)
    assert known.unknown == {}
    assert refused_flags("error: unrecognized arguments: --disable-cuda-graph", known) == ()


def test_a_value_under_a_secret_name_is_not_repeated() -> None:
    argv = (*SERVER, "--api-kye", "geheim")
    known = installed(argv, FLAGS, 0.0)
    assert known.unknown == {"--api-kye": ("--api-key",)}
    assert correction(("--api-kye",), known, argv) is None
    assert "geheim" not in repr(known)


# ------------------------------------------------------------------------------------------------------- what it lacks


def test_what_is_recorded_of_the_list_is_what_a_verdict_may_need() -> None:
    known = installed(SERVER, FLAGS, 0.0)
    assert "--disable-custom-all-reduce" in known.lacks
    assert not {"--disable-cuda-graph", "--mem-fraction-static"} & set(known.lacks)
    assert set(known.lacks) <= set(suggested())


@pytest.mark.parametrize("has", [True, False])
def test_a_dead_lock_is_not_answered_with_a_flag_that_does_not_exist(has: bool) -> None:
    told = Story(tp=8, argv=SERVER).up_to("kv-pool").quiet(31).stacks(HUNG)
    told.event(Installed(T0 + 1, lacks=() if has else ("--disable-cuda-graph",)))
    verdict = told.play(70).last
    assert verdict.verdict == "deadlock-silent"
    assert any("--disable-cuda-graph" in step.change for step in verdict.next) == has
    assert any("--disable-custom-all-reduce" in step.change for step in verdict.next)


def test_a_step_of_several_flags_keeps_those_that_exist() -> None:
    steps = (
        Next("relaunch", ("--mem-fraction-static", "--cuda-graph-max-bs"), "lower either"),
        Next("relaunch", ("--cuda-graph-max-bs",), "fewer"),
        Next("run", ("nvidia-smi",), "look"),
    )
    known = Installed(0.0, lacks=("--cuda-graph-max-bs",))
    assert [step.change for step in feasible(steps, known)] == [("--mem-fraction-static",), ("nvidia-smi",)]
    assert feasible(steps, None) == steps


def test_what_is_not_known_to_be_lacking_is_offered() -> None:
    assert supports(None)("--anything") is None
    assert supports(Installed(0.0, lacks=("--a",)))("--b") is None
    assert supports(Installed(0.0, lacks=("--a",)))("--a") is False
