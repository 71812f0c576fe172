"""Generated command lines, titles, argument lines and versions: whatever they hold, parsing gives an answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from launchmon_agent.errors import Refused
from launchmon_agent.sglang.command import parse
from launchmon_agent.sglang.flags import help_text, source
from launchmon_agent.sglang.flags.change import Change, apply, command_line, difference
from launchmon_agent.sglang.flags.source import NotUnderstood
from launchmon_agent.sglang.flags.words import given as flags_given
from launchmon_agent.sglang.prefix import records, strip_control
from launchmon_agent.sglang.secrets import HIDDEN, redact_argv
from launchmon_agent.sglang.server_args import parse_server_args, shown_args
from launchmon_agent.sglang.stamps import LogClock
from launchmon_agent.sglang.titles import coordinates, read_title
from launchmon_agent.sglang.toggles import flags_of_tables, toggles
from launchmon_agent.sglang.versions import number
from tests.support.hostile_text import BOUNDED, LINE, TEXT

DIGITS = st.sampled_from(["0", "8", "-1", "007", "1e9", "9" * 20, "9" * 5000, "٣", "²", "", " 2", "None"])
SERVER = st.sampled_from(
    [
        ("python", "-m", "sglang.launch_server"),
        ("env", "A=1", "python3", "-m", "sglang.launch_server"),
        ("python", "/x/sglang/launch_server.py"),
        ("sglang", "serve"),
        ("python", "-m"),
        (),
    ]
)
NAMES = (
    *(
        "--model-path",
        "--model",
        "--tp",
        "--tp-size",
        "--dp",
        "--pp",
        "--ep",
        "--nnodes",
        "--node-rank",
        "--port",
        "--host",
    ),
    *(
        "--dist-init-addr",
        "--api-key",
        "--enable-dp-attention",
        "--attn-dp-size",
        "--disable-cuda-graph",
        "--",
        "-",
        "--x",
    ),
    *("--mem-fraction-static", "--max-running-requests"),
)
FLAGS = st.sampled_from(NAMES)
WORD = st.one_of(
    FLAGS, DIGITS, TEXT, st.tuples(FLAGS, st.just("="), st.one_of(DIGITS, TEXT)).map("".join), st.just("/m/kimi")
)
ARGV = st.tuples(SERVER, st.lists(WORD, max_size=8)).map(lambda parts: (*parts[0], *parts[1]))


@given(ARGV)
@BOUNDED
def test_a_command_line(argv: tuple[str, ...]) -> None:
    found = parse(argv)
    assert found.argv == argv
    assert min(found.tp, found.pp, found.dp, found.ep, found.attn_cp, found.moe_dp, found.nnodes) >= 1
    assert found.node_rank >= 0
    assert len(redact_argv(argv)) == len(argv)
    words = [word for one in flags_given(argv) for word in argv[one.begin : one.end]]
    assert not words or found.is_sglang
    assert [one.begin for one in flags_given(argv)] == sorted({one.begin for one in flags_given(argv)})


@given(ARGV, st.lists(st.one_of(WORD, FLAGS.map("drop {}".format)), max_size=4))
@BOUNDED
def test_a_change_to_a_command_line(argv: tuple[str, ...], words: list[str]) -> None:
    flags = flags_of_tables("0.5.23")
    try:
        change = Change.of_words(words)
        applied = apply(argv, change, flags)
    except Refused as refused:
        assert refused.what and refused.cause
        return
    assert apply(applied.argv, Change(), flags).argv == applied.argv
    difference(argv, applied.argv, {}, change.environment, flags)
    command_line(applied.argv, change.environment)
    toggles(applied.argv, {}, flags)


@given(
    st.lists(
        st.one_of(
            TEXT, st.tuples(st.sampled_from(["sglang::scheduler_TP", "sglang::scheduler_DP0_TP"]), DIGITS).map("".join)
        ),
        max_size=3,
    )
)
@BOUNDED
def test_a_title(argv: list[str]) -> None:
    read_title(argv)
    for word in argv:
        assert all(isinstance(one, int) for one in coordinates(word).values())


@given(
    st.lists(
        st.one_of(
            TEXT,
            DIGITS,
            st.sampled_from(["tp_size=", "model_path=", "api_key=", "'a': ", "{[]: 1}", "(", "]", ", ", "'"]),
        ),
        max_size=8,
    ).map("".join)
)
@BOUNDED
def test_a_line_of_arguments(text: str) -> None:
    line = f"server_args=ServerArgs(api_key='hunter2', {text}"
    found = parse_server_args(line)
    assert found is not None and (found["api_key"] == HIDDEN or not found["api_key"]), "it may be given again, empty"
    assert "hunter2" not in str(found)
    assert all(isinstance(value, str) for value in shown_args(line).values())
    parse_server_args(text)


@given(LINE)
@BOUNDED
def test_a_line_of_a_log(data: bytes) -> None:
    for line in data.split(b"\n"):
        found = records(strip_control(line))
        assert found and all(one.text in line or b"\x1b" in line for one in found)
        clock = LogClock()
        for one in found:
            if one.stamp is not None:
                clock.read(one.stamp, 1764439200.0)


@given(st.one_of(TEXT, st.lists(st.one_of(DIGITS, st.just("."), st.just("rc")), max_size=6).map("".join)))
@BOUNDED
def test_a_version(text: str) -> None:
    found = number(text)
    assert found is None or all(isinstance(part, int) for part in found)


@given(
    st.lists(
        st.one_of(
            TEXT, st.sampled_from(["  --tp TP  help", "\n", "  --x {a,b}\n", "usage: ", "parser.add_argument('--x')"])
        ),
        max_size=8,
    ).map("".join)
)
@BOUNDED
def test_the_flags_of_an_installed_release(text: str) -> None:
    help_text.parse(text)
    try:
        source.parse({"server_args.py": text})
    except NotUnderstood:
        pass
