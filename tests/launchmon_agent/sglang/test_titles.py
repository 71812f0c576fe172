"""Every title form of the releases, launcher command lines, and ranks named by their place."""

from __future__ import annotations

import pytest

from launchmon_agent.events import Run
from launchmon_agent.sglang.ranks import expected_ranks
from launchmon_agent.sglang.titles import Name, Title, coordinates, name_children, read_title

SPAWN = [
    "/venv/bin/python3",
    "-B",
    "-c",
    "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=6, pipe_handle=8)",
    "--multiprocessing-fork",
]
TRACKER = ["/venv/bin/python3", "-B", "-c", "from multiprocessing.resource_tracker import main;main(5)"]


def test_the_command_line_in_one_word_while_the_first_title_is_taken() -> None:
    assert read_title([" ".join(SPAWN)]) == read_title(SPAWN)


@pytest.mark.parametrize(
    "title, rank, where",
    [
        ("sglang::scheduler", None, {}),  # 0.4.1–0.4.2 all ranks; 0.4.6+ the only rank
        ("sglang::scheduler_None", None, {}),  # 0.4.3
        ("sglang::scheduler_1", None, {"DP": 1}),  # 0.4.3
        ("sglang::scheduler_TP0", "TP0", {"TP": 0}),
        ("sglang::scheduler_TP15", "TP15", {"TP": 15}),
        ("sglang::scheduler_DP0", "DP0", {"DP": 0}),
        ("sglang::scheduler_DP1_TP0", "DP1 TP0", {"DP": 1, "TP": 0}),
        ("sglang::scheduler_DP0_TP1_PP1", "DP0 TP1 PP1", {"DP": 0, "TP": 1, "PP": 1}),  # 0.4.6–0.4.9
        ("sglang::scheduler_DP0_TP1_EP1_PP0", "DP0 TP1 EP1 PP0", {"DP": 0, "TP": 1, "EP": 1, "PP": 0}),  # 0.4.10–0.5.4
        ("sglang::scheduler_DP1_PP0_TP3_EP3", "DP1 PP0 TP3 EP3", {"DP": 1, "PP": 0, "TP": 3, "EP": 3}),  # 0.5.5–0.5.8
        (
            "sglang::scheduler_DP2_PP1_ATTN_CP0_MOE_DP1_TP7_EP3",  # 0.5.9+
            "DP2 PP1 ATTN_CP0 MOE_DP1 TP7 EP3",
            {"DP": 2, "PP": 1, "ATTN_CP": 0, "MOE_DP": 1, "TP": 7, "EP": 3},
        ),
    ],
)
def test_titles_of_schedulers(title: str, rank: str | None, where: dict[str, int]) -> None:
    assert read_title([title]) == Title("scheduler", title, rank, where)
    if rank:
        assert coordinates(rank) == where


@pytest.mark.parametrize(
    "title, role",
    [
        ("sglang::detokenizer", "detokenizer"),
        ("sglang::detokenizer_router", "detokenizer"),
        ("sglang::data_parallel_controller", "dp-controller"),
        ("sglang::tokenizer_worker:48466", "tokenizer"),
        ("sglang::http_server/multi_tokenizer_router", "launcher"),
        ("sglang::http_server/tokenizer_manager", "launcher"),
        ("sglang::server", "launcher"),
        ("sglang::router", "helper"),
        ("sglang::scheduler-of-tomorrow", "helper"),
        ("sglang::something_new", "helper"),
    ],
)
def test_titles_of_the_others(title: str, role: str) -> None:
    found = read_title([title])
    assert found is not None
    assert (found.role, found.rank) == (role, None)


@pytest.mark.parametrize(
    "comm, role",
    [
        ("sglang::schedul", "scheduler"),
        ("sglang::detoken", "detokenizer"),
        ("sglang::data_pa", "dp-controller"),
        ("sglang::tokeniz", "tokenizer"),
    ],
)
def test_a_zombie_is_known_by_its_cut_name(comm: str, role: str) -> None:
    found = read_title([], comm)
    assert found is not None
    assert (found.role, found.rank) == (role, None)


def test_a_live_process_is_not_judged_by_its_comm() -> None:
    assert read_title(["nvcc", "-c", "x.cu"], "sglang::schedul") is None, "a child that has just been forked by a rank"
    assert read_title([], "python3") is None


def test_multiprocessing_children() -> None:
    spawned, tracker = read_title(SPAWN), read_title(TRACKER)
    assert spawned is not None and spawned.role == "spawning"
    assert tracker is not None and tracker.role == "helper"


@pytest.mark.parametrize(
    "argv, text",
    [
        (["python", "-m", "sglang.launch_server", "--model-path", "m"], "python -m sglang.launch_server"),
        (["/venv/bin/python3.12", "-u", "-m", "sglang.launch_server"], "python -m sglang.launch_server"),
        (["python3", "-X", "faulthandler", "-m", "sglang.launch_server"], "python -m sglang.launch_server"),
        (["sglang", "serve", "m"], "sglang serve"),
        (["/venv/bin/python3", "/venv/bin/sglang", "serve", "--model-path", "m"], "sglang serve"),
        (["python3", "-m", "launchmon.demo.launch_server", "--tp", "8"], "python -m launchmon.demo.launch_server"),
        (["python3", "/opt/sglang/launch_server.py", "--tp", "8"], "sglang/launch_server.py"),
    ],
)
def test_launchers(argv: list[str], text: str) -> None:
    found = read_title([*argv, "--api-key", "secret"])
    assert found is not None
    assert (found.role, found.text) == ("launcher", text)


@pytest.mark.parametrize(
    "argv",
    [
        ["bash", "-c", "python -m sglang.launch_server --model-path m"],
        ["timeout", "100", "python", "-m", "sglang.launch_server"],
        ["vim", "launch_server.py"],
        ["grep", "sglang::scheduler"],
        ["python3", "-m", "sglang.bench_serving"],
        ["sleep", "60"],
    ],
)
def test_what_is_no_process_of_a_run(argv: list[str]) -> None:
    assert read_title(argv) is None


# ------------------------------------------------------------------------------------------------------ naming by order


def titles(*texts: str) -> list[Title | Name]:
    """``…`` is a child without a title yet."""
    found = [read_title(SPAWN if text == "…" else [text]) for text in texts]
    return [title for title in found if title is not None]


def shown(names: list[Name]) -> list[str]:
    """``TP0?`` is a rank named by its place, ``(detokenizer)`` another process."""
    return [
        f"({name.role})" if name.rank is None else name.rank + ("?" if name.named_by == "order" else "")
        for name in names
    ]


TP2 = expected_ranks(Run(at=0, id="r", tp=2))
TP1 = expected_ranks(Run(at=0, id="r"))
DP2 = expected_ranks(Run(at=0, id="r", dp=2))
DP2_TP2 = expected_ranks(Run(at=0, id="r", dp=2, tp=2))
ATTENTION_DP2 = expected_ranks(Run(at=0, id="r", dp=2, tp=2, attention_dp=True))
PP2_TP2 = expected_ranks(Run(at=0, id="r", pp=2, tp=2))
S = "sglang::scheduler"
D = "sglang::detokenizer"
C = "sglang::data_parallel_controller"


@pytest.mark.parametrize(
    "parent, children, expected, names",
    [
        # all untitled, then some, then all
        ("launcher", ["…", "…", "…"], TP2, ["TP0?", "TP1?", "(detokenizer)"]),
        ("launcher", ["…", f"{S}_TP1", "…"], TP2, ["TP0?", "TP1", "(detokenizer)"]),
        ("launcher", ["…", "…", D], TP2, ["TP0?", "TP1?", "(detokenizer)"]),
        ("launcher", [f"{S}_TP0", f"{S}_TP1", D], TP2, ["TP0", "TP1", "(detokenizer)"]),
        # titles are believed over places
        ("launcher", [f"{S}_TP1", "…", "…"], TP2, ["TP1", "TP0?", "(detokenizer)"]),
        ("launcher", [f"{S}_TP1_EP1", "…", "…"], TP2, ["TP1 EP1", "TP0?", "(detokenizer)"]),
        # fewer and more than expected
        ("launcher", ["…"], TP2, ["TP0?"]),
        ("launcher", ["…", "…", "…", "…"], TP2, ["TP0?", "TP1?", "(detokenizer)", "(spawning)"]),
        ("launcher", [], TP2, []),
        # sizes not known yet
        ("launcher", ["…", "…"], [], ["(spawning)", "(spawning)"]),
        ("launcher", ["…", f"{S}_TP1"], [], ["(spawning)", "TP1"]),
        # one rank, which has no tag
        ("launcher", ["…", "…"], TP1, ["TP0?", "(detokenizer)"]),
        ("launcher", [S, D], TP1, ["TP0", "(detokenizer)"]),
        ("launcher", [S, D], [], ["TP0", "(detokenizer)"]),
        # 0.4.1–0.4.2: the bare title for every rank
        ("launcher", [S, S, D], TP2, ["TP0?", "TP1?", "(detokenizer)"]),
        ("launcher", [S, S, D], [], ["TP0?", "TP1?", "(detokenizer)"]),
        # 0.4.3: the DP rank only
        ("launcher", [f"{S}_None", f"{S}_None", D], TP2, ["TP0?", "TP1?", "(detokenizer)"]),
        (
            "dp-controller",
            [f"{S}_0", f"{S}_1", f"{S}_0", f"{S}_1"],
            DP2_TP2,
            ["DP0 TP0?", "DP1 TP0?", "DP0 TP1?", "DP1 TP1?"],
        ),
        # data parallel: the controller owns the schedulers
        ("launcher", ["…", "…"], DP2, ["(dp-controller)", "(detokenizer)"]),
        ("launcher", [C, "…"], DP2, ["(dp-controller)", "(detokenizer)"]),
        ("dp-controller", ["…", "…"], DP2, ["DP0?", "DP1?"]),
        ("dp-controller", ["…", f"{S}_DP0"], DP2, ["DP1?", "DP0"]),
        ("dp-controller", ["…", "…", "…", "…"], DP2_TP2, ["DP0 TP0?", "DP0 TP1?", "DP1 TP0?", "DP1 TP1?"]),
        # attention DP: until 0.5.21 the controller's, from 0.5.22 the launcher's
        ("launcher", [C, D], ATTENTION_DP2, ["(dp-controller)", "(detokenizer)"]),
        ("launcher", ["…"], ATTENTION_DP2, ["(spawning)"]),
        ("launcher", ["…"] * 4, ATTENTION_DP2, ["DP0 TP0?", "DP1 TP1?", "(dp-controller)", "(detokenizer)"]),
        ("dp-controller", ["…", "…"], ATTENTION_DP2, ["DP0 TP0?", "DP1 TP1?"]),
        # pipeline parallel: by PP, then TP
        (
            "launcher",
            ["…"] * 5,
            PP2_TP2,
            ["PP0 TP0?", "PP0 TP1?", "PP1 TP0?", "PP1 TP1?", "(detokenizer)"],
        ),
        # other children do not take a rank's place
        ("launcher", ["sglang::detokenizer_router", "…", "…"], TP2, ["(detokenizer)", "TP0?", "TP1?"]),
    ],
)
def test_names(parent: str, children: list[str], expected: list[str], names: list[str]) -> None:
    assert shown(name_children(parent, titles(*children), expected)) == names


def test_one_that_has_ended_keeps_its_name() -> None:
    ended = Name("spawning", "TP0", "order")
    assert shown(name_children("launcher", [ended, *titles("…", "…")], TP2)) == ["TP0?", "TP1?", "(detokenizer)"]


def test_node_1_has_no_detokenizer() -> None:
    expected = expected_ranks(Run(at=0, id="r", tp=4, nnodes=2, node_rank=1))
    assert shown(name_children("launcher", titles("…", "…"), expected)) == ["TP2?", "TP3?"]
