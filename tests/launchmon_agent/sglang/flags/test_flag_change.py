"""Changes of a command: where a flag is put, what is taken out, and what is said of it."""

from __future__ import annotations

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.sglang.flags.change import Change, apply, command_line, difference
from launchmon_agent.sglang.flags.model import FlagList
from launchmon_agent.sglang.flags.words import NOTHING_KNOWN, given, is_given
from tests.support.flag_sources import NEW, OLD

SERVER = ("python", "-m", "sglang.launch_server", "--model-path", "m")


def changed(
    argv: tuple[str, ...], *words: str, flags: FlagList = OLD, before: tuple[str, ...] = SERVER
) -> tuple[str, ...]:
    new = apply((*before, *argv), Change.of_words(words), flags).argv
    assert new[: len(before)] == before
    return new[len(before) :]


# --------------------------------------------------------------------------------------------------------------- words


def test_words_belong_to_the_flag_before_them() -> None:
    argv = (*SERVER, "--tp", "8", "--disable-cuda-graph", "--cuda-graph-bs", "1", "2", "--port=30001")
    assert [(one.name, one.values) for one in given(argv, OLD)] == [
        ("--model-path", ("m",)),
        ("--tp-size", ("8",)),
        ("--disable-cuda-graph", ()),
        ("--cuda-graph-bs", ("1", "2")),
        ("--port", ("30001",)),
    ]


def test_without_a_list_a_flag_takes_the_words_up_to_the_next_flag() -> None:
    argv = ("sglang", "serve", "m", "--tp", "8", "--some", "1", "2", "--last")
    assert [one.text for one in given(argv)] == ["--tp 8", "--some 1 2", "--last"]


def test_a_negative_number_is_a_value() -> None:
    assert [one.values for one in given((*SERVER, "--filler-1", "-1"), OLD)][-1] == ("-1",)


def test_the_last_of_several_counts() -> None:
    one = is_given((*SERVER, "--tp", "2", "--tensor-parallel-size", "4"), "--tp-size", OLD)
    assert one is not None and one.values == ("4",)
    assert is_given(SERVER, "--port", OLD) is None


# -------------------------------------------------------------------------------------------------------------- change


@pytest.mark.parametrize(
    ("argv", "word", "result"),
    [
        ((), "--disable-cuda-graph", ("--disable-cuda-graph",)),
        (("--disable-cuda-graph",), "--disable-cuda-graph", ("--disable-cuda-graph",)),
        ((), "--mem-fraction-static=0.8", ("--mem-fraction-static", "0.8")),
        (("--tp", "8", "--api-key", "k"), "--tp-size=4", ("--tp-size", "4", "--api-key", "k")),
        (("--tp-size=8",), "--tp=4", ("--tp-size=4",)),
        (("--tp", "8", "--port", "1", "--tp-size", "2"), "--tp-size=4", ("--tp-size", "4", "--port", "1")),
        (("--tensor-parallel-size", "8"), "--tp=4", ("--tp-size", "4")),
        (
            ("--cuda-graph-bs", "1", "2", "--port", "1"),
            "--cuda-graph-bs=8 16",
            ("--cuda-graph-bs", "8", "16", "--port", "1"),
        ),
        (("--speculative-adaptive",), "--no-speculative-adaptive", ("--no-speculative-adaptive",)),
        ((), "--filler-1=-1", ("--filler-1=-1",)),
        (("--disable-cuda-graph", "--port", "1"), "drop --disable-cuda-graph", ("--port", "1")),
        (("--tp", "8", "--port=1"), "drop --tensor-parallel-size", ("--port=1",)),
        (("--cuda-graph-bs", "1", "2"), "drop --cuda-graph-bs", ()),
    ],
)
def test_a_flag_is_set_in_its_place_and_dropped_with_its_values(
    argv: tuple[str, ...], word: str, result: tuple[str, ...]
) -> None:
    assert changed(argv, word) == result


def test_the_model_of_serve_and_a_wrapper_stay() -> None:
    argv = ("numactl", "-N", "0", "sglang", "serve", "m", "--tp", "2")
    assert apply(argv, Change(add=("--port=1",)), OLD).argv == (*argv, "--port", "1")
    assert apply(argv, Change(drop=("--tp-size",)), OLD).argv == argv[:6]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--disable-cuda-grpah",), "has no flag --disable-cuda-grpah"),
        (("--port=x",), "a whole number"),
        (("drop --port",), "--port is not in the command"),
        (("drop --prot",), "has no flag --prot"),
        (("nonsense",), "is no change"),
    ],
)
def test_what_cannot_be_is_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(Refused, match=said):
        changed((), *words)


def test_a_flag_of_another_release_is_refused_with_its_new_name() -> None:
    with pytest.raises(Refused) as caught:
        changed((), "--cuda-graph-max-bs=32", flags=NEW)
    assert caught.value.try_ == "--add --cuda-graph-max-bs-decode=32"


def test_flags_inside_of_a_script_cannot_be_changed_but_variables_can() -> None:
    with pytest.raises(Refused, match="cannot be changed"):
        apply(("./run.sh", "--tp", "8"), Change(add=("--port=1",)), OLD)
    assert apply(("./run.sh",), Change(set={"NCCL_DEBUG": "INFO"}), OLD).argv == ("./run.sh",)


def test_warnings_name_what_is_deprecated_unknown_or_contradictory() -> None:
    warnings = apply((*SERVER, "--gone", "1"), Change(add=("--disable-cuda-graph",)), NEW).warnings
    assert any("deprecated" in text and "--cuda-graph-backend-" in text for text in warnings)
    assert any(text.startswith("--gone is no flag of SGLang 0.5.20") for text in warnings)
    both = apply((*SERVER, "--cuda-graph-max-bs", "8"), Change(add=("--disable-cuda-graph",)), OLD).warnings
    assert len(both) == 1


def test_a_change_is_read_as_remedies_write_it() -> None:
    words = ("--a=1", "--b", "drop --c", "K=V=W", "unset L")
    change = Change.of_words(words)
    assert change == Change(("--a=1", "--b"), ("--c",), {"K": "V=W"}, ("L",))
    assert change.words == words
    assert change.environment == {"K": "V=W", "L": None}
    assert not Change() and change


# ------------------------------------------------------------------------------------------------------------- display


def test_the_difference_names_what_came_went_and_changed() -> None:
    old = (*SERVER, "--tp", "8", "--enable-symm-mem", "--api-key", "secret-1")
    new = (*SERVER, "--tp-size=4", "--api-key", "secret-2", "--disable-cuda-graph")
    env = {"A": "1", "B": "1", "C": None, "HF_TOKEN": "hf_x"}
    env_after = {"A": "2", "C": "3", "D": None, "HF_TOKEN": "hf_x"}
    assert difference(old, new, env, env_after, OLD) == (
        "~ --tp-size 8 → 4",
        "- --enable-symm-mem",
        "~ --api-key ••• → •••",
        "+ --disable-cuda-graph",
        "~ A=1 → 2",
        "- B=1",
        "+ C=3",
        "- D",
    )
    assert difference(old, old, env, env, OLD) == ()


def test_another_program_is_a_difference() -> None:
    assert difference(SERVER, ("/venv/bin/python", *SERVER[1:]), {}, {}, NOTHING_KNOWN) == (
        "~ python -m sglang.launch_server → /venv/bin/python -m sglang.launch_server",
    )


def test_the_command_line_can_be_pasted_and_hides_secrets() -> None:
    line = command_line((*SERVER, "--api-key", "k", "--x", "a b"), {"HF_TOKEN": "t", "A": "1 2", "B": None}, "/my dir")
    assert line == (
        "cd '/my dir' && env -u B A='1 2' HF_TOKEN='•••' "
        "python -m sglang.launch_server --model-path m --api-key '•••' --x 'a b'"
    )


def test_a_flag_that_sglang_does_not_take_can_be_dropped() -> None:
    assert changed(("--tp-sise", "8", "--port", "1"), "drop --tp-sise", "--tp-size=8") == (
        "--port",
        "1",
        "--tp-size",
        "8",
    )


def test_a_flag_that_is_neither_given_nor_known_cannot() -> None:
    with pytest.raises(Refused, match="--tp-sise"):
        changed((), "drop --tp-sise")
