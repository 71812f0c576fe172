"""One model over two nodes, folded from stories of each."""

from __future__ import annotations

import pytest

from launchmon.cluster.model import ClusterModel
from launchmon_agent.events import (
    LAUNCHER,
    Action,
    Gpu,
    Gpus,
    Kernel,
    Log,
    LogError,
    Mark,
    Notice,
    Process,
    Processes,
    RankStack,
    Stacks,
)
from tests.support.curves import utilisation
from tests.support.story import T0, Played, Story

ADDRESS = "10.0.0.1:20000"


def played(number: int, phase: str = "kv-pool", seconds: float = 40) -> Played:
    return Story(tp=4, nnodes=2, node_rank=number, address=ADDRESS).up_to(phase).play(seconds)


def merged(*stories: Played, offsets: tuple[float, ...] = (0.0, 0.0)) -> ClusterModel:
    model = ClusterModel(["gpu0", "gpu1"])
    events = [(event.at, node, event) for node, story in enumerate(stories) for event in story.events]
    for _, node, event in sorted(events, key=lambda item: item[0] + offsets[item[1]]):
        model.fold_of(node, event, offsets[node])
    return model


def test_ranks_of_all_nodes_are_one_table_with_their_nodes() -> None:
    rows = merged(played(0), played(1)).rank_rows()
    assert [(row.rank, row.node) for row in rows] == [("TP0", 0), ("TP1", 0), ("TP2", 1), ("TP3", 1)]
    assert all(row.pid for row in rows)


def test_ranks_of_a_node_that_is_not_there_are_rows_without_a_process() -> None:
    rows = merged(played(0)).rank_rows()
    assert [(row.rank, bool(row.pid)) for row in rows] == [("TP0", True), ("TP1", True), ("TP2", False), ("TP3", False)]


def test_gpus_with_one_index_keep_their_own_history() -> None:
    busy = Story(tp=4, nnodes=2, node_rank=1).up_to("kv-pool").gpu(None, 33, util_percent=7.0).play(40)
    model = merged(played(0), busy)
    assert model.gpus is not None
    assert [(gpu.node, gpu.index) for gpu in model.gpus.gpus] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert utilisation(model, 0, 0)[-1] == 0.0
    assert utilisation(model, 0, 1)[-1] == 7.0
    assert len(utilisation(model, 0, 0)) <= 41 and len(utilisation(model, 0, 1)) <= 41


def test_the_second_launcher_is_no_second_launch_in_the_same_log() -> None:
    model = merged(played(0), played(1))
    assert len(model.marks("args")) == 1
    assert {span.rank for span in model.phases.spans() if span.phase == "weights"} == {"TP0", "TP1", "TP2", "TP3"}


def test_the_phase_is_that_of_the_slowest_rank_on_any_node() -> None:
    assert merged(played(0), played(1, "weights")).phases.run_phase() == "weights"
    assert merged(played(0, "weights"), played(1)).phases.run_phase() == "weights"


@pytest.mark.parametrize("offset", [-7.0, 3600.0])
def test_times_of_a_node_are_corrected(offset: float) -> None:
    model = merged(played(0), played(1), offsets=(0.0, offset))
    begin = {span.rank: span.begin for span in model.phases.spans() if span.phase == "weights"}
    assert begin["TP2"] - begin["TP0"] == pytest.approx(offset)
    assert model.processes is not None
    starts = {row.rank: row.start_time for row in model.rank_rows()}
    assert starts["TP2"] - starts["TP0"] == pytest.approx(offset)


def test_errors_at_one_offset_of_two_logs_are_two() -> None:
    model = ClusterModel(["a", "b"])
    error = LogError(T0, offset=10, id="oom", text="CUDA out of memory")
    model.fold_of(0, error)
    model.fold_of(1, error)
    assert [one.node for one in model.errors] == [0, 1]


def test_what_only_text_tells_names_its_node() -> None:
    model = ClusterModel(["a", "b"])
    model.fold_of(1, Kernel(T0, what="xid", text="Xid 79"))
    model.fold_of(1, Notice(T0, source="gpu", text="no driver"))
    model.fold_of(1, Action(T0, action="kill", id="k", step="done", state="done", text="all gone"))
    assert model.kernel[0].text == "node 1: Xid 79"
    assert model.notices[0].text == "node 1: no driver"
    assert model.actions["1:k"][0].text == "node 1: all gone"


def test_one_log_is_shown_and_the_last_lines_are_of_all() -> None:
    model = merged(played(0), played(1))
    assert model.log is not None and model.log.node == 0
    size = model.log.size
    assert {line.rank for line in model.log.last} >= {"TP0", "TP2"}
    model.show_log_of(1)
    assert model.log.node == 1 and model.log.size != 0
    model.show_log_of(0)
    assert model.log.size == size
    model.fold_of(1, Log(T0 + 99, size=12345))
    assert model.log.size == size


def dump(at: float, rank: str, *, automatic: bool = False) -> Stacks:
    return Stacks(at, id=f"{rank}-{at}", automatic=automatic, stacks=(RankStack(1, T0, "scheduler", rank=rank),))


def test_dumps_of_the_nodes_taken_together_are_one() -> None:
    model = ClusterModel(["a", "b"])
    model.fold_of(0, dump(T0, "TP0"))
    model.fold_of(1, dump(T0 + 0.2, "TP1"))
    assert [[(stack.rank, stack.node) for stack in one.stacks] for one in model.stacks] == [[("TP0", 0), ("TP1", 1)]]


def test_dumps_that_lie_apart_or_were_taken_for_other_reasons_are_not_joined() -> None:
    model = ClusterModel(["a", "b"])
    model.fold_of(0, dump(T0, "TP0"))
    model.fold_of(1, dump(T0 + 60, "TP1"))
    model.fold_of(0, dump(T0 + 61, "TP0", automatic=True))
    assert [len(one.stacks) for one in model.stacks] == [1, 1, 1]


def test_marks_of_a_launcher_elsewhere_do_not_move_the_server() -> None:
    model = merged(played(0), played(1))
    before = [(cell.phase, cell.state) for cell in model.phases.rail(model.now)]
    model.fold_of(1, Mark(model.now, id="ready", what="begin", phase="ready", rank=LAUNCHER))
    assert [(cell.phase, cell.state) for cell in model.phases.rail(model.now)] == before


def sample(at: float, node: int) -> Gpus:
    return Gpus(at, gpus=(Gpu(0, util_percent=float(at - T0)), Gpu(1, util_percent=float(node))))


def test_samples_of_all_nodes_together_are_one_point_of_the_histories() -> None:
    model = ClusterModel(["a", "b"])
    for second in range(5):
        for node in (0, 1):
            model.fold_of(node, sample(T0 + second + node / 10, node))
    assert [len(utilisation(model, 0, node)) for node in (0, 1)] == [6, 5]  # the first of node 0 is shown alone
    assert utilisation(model, 1, 1)[-1] == 1.0


def test_a_node_is_in_the_samples_at_once() -> None:
    model = ClusterModel(["a", "b"])
    for node in (0, 1):
        model.fold_of(node, sample(T0, node))
        assert model.gpus is not None and [gpu.node for gpu in model.gpus.gpus] == [*[0] * 2, *[1] * 2 * node]


def test_a_node_that_has_fallen_silent_holds_up_no_other() -> None:
    model = ClusterModel(["a", "b"])
    for node in (0, 1):
        model.fold_of(node, sample(T0, node))
    for second in range(1, 4):
        model.fold_of(1, sample(T0 + second, 1))
        model.fold_of(1, Processes(T0 + second, processes=(Process(9, T0, "scheduler", rank=f"TP{second}"),)))
    assert model.gpus is not None and model.gpus.at >= T0 + 2
    assert [row.rank for row in model.rank_rows()] == ["TP3"]
