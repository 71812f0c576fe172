"""What stacks mean: every row of frames.table fits a stack of its kind, and no earlier row takes that away."""

from __future__ import annotations

from pathlib import Path

import pytest

from launchmon_agent.events import Frame
from launchmon_agent.judge import tables
from launchmon_agent.judge.tables import TableError
from launchmon_agent.stacks import explain as explaining
from launchmon_agent.stacks import runtime
from launchmon_agent.stacks.explain import FIELDS, Row, explain, row_of, rows, wait_inside
from launchmon_agent.stacks.model import bare
from tests.support.stacks_text import frames, sections

EXAMPLES = sections((Path(__file__).parent / "examples.txt").read_text())
GOOD = """
[one]
frames: ^barrier < capture*
        all_reduce(distributed_c10d.py)
waits: peers
what: waits
ends: them
cure: -
versions: 0.5.3+
source: src run
"""


def parse(text: str) -> tuple[Row, ...]:
    return tuple(row_of(*section) for section in tables.parse(text, FIELDS))


def test_every_row_has_an_example_and_every_example_a_row() -> None:
    assert set(EXAMPLES) == {row.explanation.id for row in rows()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_is_explained_by_its_row(name: str) -> None:
    said = explain(frames(EXAMPLES[name]))
    assert said is not None and said.id == name


@pytest.mark.parametrize("name", EXAMPLES)
def test_bare_names_are_explained_alike(name: str) -> None:
    """Python up to 3.10 and faulthandler give no qualified names."""
    named = [Frame(bare(frame.function), frame.file, frame.line, frame.native) for frame in frames(EXAMPLES[name])]
    said = explain(named)
    assert said is not None and said.id == name


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.explanation.id)
def test_texts_read_as_clauses(row: explaining.Row) -> None:
    said = row.explanation
    for text in (said.what, said.ends, said.cure or "nothing"):
        assert not text.endswith("."), text
        assert "  " not in text
    assert said.what[0].islower()


def test_waiting_is_told_from_working() -> None:
    classes = {row.explanation.id: row.explanation.waiting for row in rows()}
    assert classes["load-barrier"] and classes["rendezvous"] and classes["torch-jit-lock"] and classes["event-loop"]
    assert not classes["reading-weights"] and not classes["deep-gemm-compile"] and not classes["building"]


def test_unknown_frames_are_not_explained() -> None:
    assert explain(frames("work (own/code.py:3)\nmain (own/code.py:9)")) is None
    assert explain([]) is None


def test_a_loader_that_sleeps_on_a_lock_shows_both() -> None:
    stack = frames(
        "Condition.wait (threading.py:331)\nload (own/reader.py:3)\nModelRunner.load_model (model_runner.py:9)"
    )
    said, inside = explain(stack), wait_inside(stack)
    assert said is not None and said.id == "loading" and not said.waiting
    assert inside is not None and inside.id == "thread-wait" and inside.waiting


def test_the_innermost_frame_is_the_first_of_python_that_says_something() -> None:
    stack = frames(
        "poll (libc.so.6)\n_exception_logger.<locals>.wrapper (torch/distributed/c10d_logger.py:83)\n"
        "barrier (torch/distributed/distributed_c10d.py:1)"
    )
    assert runtime.innermost(list(stack)) == 2
    said = explain(stack)
    assert said is not None and said.id == "collective"


def test_the_class_counts_where_it_is_known() -> None:
    text = GOOD.replace("^barrier < capture*", "GroupCoordinator.barrier(parallel_state.py)")
    (row,) = parse(text)
    (chain, _) = row.chains
    fit = chain.fits(frames("GroupCoordinator.barrier (sglang/srt/distributed/parallel_state.py:1)"), 0)
    assert fit and chain.fits(frames("barrier (sglang/srt/distributed/parallel_state.py:1)"), 0)
    assert not chain.fits(frames("Other.barrier (sglang/srt/distributed/parallel_state.py:1)"), 0)
    assert not chain.fits(frames("barrier (own/other_parallel_state.py:1)"), 0)


@pytest.mark.parametrize(
    "old, new",
    [
        ("waits: peers", "waits: friends"),
        ("versions: 0.5.3+", "versions: new"),
        ("source: src run", "source: hearsay"),
        ("ends: them", "ends:"),
        ("cure: -\n", ""),
        ("all_reduce(distributed_c10d.py)", "all reduce"),
        ("all_reduce(distributed_c10d.py)", "Group.all_reduce"),
        ("[one]", "[one]\n[one]"),
    ],
)
def test_a_row_that_cannot_be_read_is_refused(old: str, new: str) -> None:
    assert parse(GOOD)
    with pytest.raises(TableError):
        parse(GOOD.replace(old, new))


RUNTIME = """
Thread._bootstrap (threading.py:1002)
BaseProcess._bootstrap (multiprocessing/process.py:314)
spawn_main (multiprocessing/spawn.py:122)
<module> (<string>:1)
_run_code (<frozen runpy>:88)
_find_and_load (<frozen importlib._bootstrap>:1176)
_exception_logger.<locals>.wrapper (torch/distributed/c10d_logger.py:83)
context_decorator.<locals>.decorate_context (torch/utils/_contextlib.py:124)
Module._call_impl (torch/nn/modules/module.py:1789)
scheduler_stage_method.<locals>.decorator.<locals>.wrapper (sglang/srt/managers/scheduler_stage_metrics.py:186)
entry_SYSCALL_64_after_hwframe (kernel)
0x7f3516a4524a (libc.so.6)
__libc_start_main_impl (libc.so.6)
"""


@pytest.mark.parametrize("frame", frames(RUNTIME), ids=lambda frame: frame.function)
def test_runtime_frames_are_known(frame: Frame) -> None:
    assert runtime.is_runtime(frame)


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_explained_stack_is_runtime_alone(name: str) -> None:
    stack = list(frames(EXAMPLES[name]))
    assert runtime.innermost(stack) < len(stack)


def test_runtime_table_has_no_row_twice() -> None:
    assert len({str(row) for row in runtime.rows()}) == len(runtime.rows())
