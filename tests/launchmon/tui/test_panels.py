"""The pure part of each panel: state in, text out."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest

from launchmon.tui.log_buffer import ScreenRow
from launchmon.tui.log_fold import Shown
from launchmon.tui.panels import gpus, header, rail, ranks, verdict
from launchmon.tui.panels.gpus import GpusPanel
from launchmon.tui.panels.header import HeaderBar
from launchmon.tui.panels.log_rows import Marks, log_row, matcher
from launchmon.tui.panels.ranks import RanksPanel
from launchmon.tui.view import View
from launchmon.tui.widgets.lines import Row, row_width
from launchmon.tui.widgets.panel import Content, Space
from launchmon_agent import events
from launchmon_agent.sglang.rail import Cell
from tests.support import fake_session as fake
from tests.support.fake_session import GIB, T0, FakeLine, FakeLink, FakeSession

DESIGN_KINDS = (
    *("starting", "reading", "downloading", "compiling", "computing", "waiting-peer", "waiting-lock", "rank-missing"),
    *("one-behind", "deadlock-silent", "deadlock-spinning", "deadlock-divergent", "crashed", "http-wait", "ready"),
    *("serving", "hung-serving", "stopped", "unknown"),
)


def view(session: FakeSession) -> View:
    return View.of(session)


def text(row: Row) -> str:
    return "".join(part for part, _ in row)


def texts(content: Content) -> str:
    return "\n".join(text(row) for row in (*content.head, *content.body, *content.tail))


# ----------------------------------------------------------------------------------------------------------- the header


def headline(session: FakeSession, width: int = 120) -> str:
    return texts(HeaderBar().content(view(session), Space(width, 1)))


def test_header_names_the_run_and_how_fresh_it_is() -> None:
    line = headline(fake.seed())
    assert "kimi-k2.5 · tp8 · root@gpu7 · :30000" in line
    assert "attempt 3" in line
    assert "00:05:40" in line
    assert "● live 0.4 s ago" in line
    assert "SIMULATED" not in line


@pytest.mark.parametrize(
    ("state", "retry_s", "given_up", "said"),
    [
        ("lost", 3.2, False, "◌ lost 12 s ago, trying again in 3 s"),
        ("lost", None, False, "◌ lost 12 s ago, trying again"),
        ("lost", None, True, "✗ lost 12 s ago, L tries again"),
        ("ended", None, False, "■ ended, as of 12 s ago"),
    ],
)
def test_header_says_what_becomes_of_a_link(state: str, retry_s: float | None, given_up: bool, said: str) -> None:
    session = fake.seed()
    session.link, session.since_event, session.retry_s = FakeLink(state, given_up=given_up), 12.0, retry_s
    assert headline(session, 80).rstrip().endswith(said)


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_header_fits_and_keeps_its_freshness(width: int) -> None:
    session = fake.seed()
    assert session.model.run is not None
    session.model.run = replace(session.model.run, name="a-very-long-name-" * 9, simulated=True)
    line = headline(session, width)
    assert len(line) <= width
    assert "SIMULATED" in line
    assert "live 0.4 s ago" in line


def test_simulated_gpus_are_said_to_be() -> None:
    session = fake.ready()
    assert session.model.gpus is not None
    session.model.gpus = replace(session.model.gpus, source="simulated")
    assert "SIMULATED" in headline(session)
    assert "simulated" in texts(GpusPanel().content(view(session), Space(100, 9)))
    assert "simulated" in text(gpus.summary(session.model.gpus, 100))


@pytest.mark.parametrize(
    ("state", "age", "says"),
    [
        ("connecting", 0.0, "connecting"),
        ("live", 7.0, "◌ live 7.0 s ago"),
        ("lost", 12.3, "◌ lost 12 s ago, trying again"),
        ("ended", 75.0, "■ ended, as of 1m15s ago"),
    ],
)
def test_link_states_are_words(state: str, age: float, says: str) -> None:
    session = fake.seed()
    session.link, session.since_event = FakeLink(state), age
    assert says in headline(session)


def test_time_stands_still_when_the_launcher_has_ended_or_the_link_is_lost() -> None:
    session = fake.crashed()
    session.model.exits.append(events.Exit(at=T0 + 30, pid=48001, role="launcher", code=1))
    assert "00:00:30" in headline(session)
    session = fake.seed()
    session.link, session.since_event = FakeLink("lost"), 500.0
    assert view(session).now == session.model.now


# ------------------------------------------------------------------------------------------------------------- the rail


def rail_text(session: FakeSession, width: int) -> str:
    seen = view(session)
    return text(rail.rail(seen.model.phases.rail(seen.now), seen, width))


def test_rail_tells_durations_and_what_is_to_come() -> None:
    line = rail_text(fake.seed(), 120)
    assert "✓ weights 22s" in line
    assert "◉ kv pool 4m58s" in line
    assert "○ ready" in line


def test_rail_leaves_out_the_times_of_what_took_none_before_those_that_count() -> None:
    names = ("start", "spawn", "dist-init", "weights", "kv-pool", "graphs", "http", "warm-up")
    took = (3.0, 5.0, 3.0, 10.0, 3.0, 5.0, 0.0, 1.0)
    cells = [Cell(name, "done", begin=0.0, end=1.0, seconds=seconds) for name, seconds in zip(names, took, strict=True)]
    cells.append(Cell("ready", "running", begin=0.0, seconds=36.0))
    wide, narrow = (text(rail.rail(cells, view(fake.ready()), width)) for width in (130, 120))
    assert "http 0.0s" in wide
    assert "http  ✓ warm up 1s" in narrow and "weights 10s" in narrow
    assert len(narrow) <= 120


def test_rail_shows_progress_and_the_slowest_rank() -> None:
    line = rail_text(fake.loading(), 160)
    assert "◉ weights 14s 62% 5/8 eta 12s TP3" in line


@pytest.mark.parametrize("scenario", sorted(fake.SCENARIOS))
@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_rail_always_fits_and_keeps_the_phase_that_matters(scenario: str, width: int) -> None:
    session = fake.SCENARIOS[scenario]()
    line = rail_text(session, width)
    assert len(line) <= width
    for cell in session.model.phases.cells:
        if cell.state in ("running", "failed"):
            assert rail.phase_words(cell.phase) in line


def test_states_have_words_where_a_glyph_could_be_missed() -> None:
    assert "✗ weights failed" in rail_text(fake.crashed(), 200)
    assert "⊘ graphs skipped" in rail_text(fake.ready(), 200)
    assert "✓ ready in 1m04s" in rail_text(fake.ready(), 200)
    stopped = [Cell("weights", "stopped", begin=0.0, end=9.0, seconds=9.0)]
    assert "■ weights stopped 9s" in text(rail.rail(stopped, view(fake.ready()), 200))


def test_what_goes_on_inside_a_phase_is_said() -> None:
    session = fake.seed()
    cells = session.model.phases.cells
    cells[4] = replace(cells[4], also=("jit",))
    assert "kv pool 4m58s +jit" in rail_text(session, 200)


# ---------------------------------------------------------------------------------------------------------- the verdict


@pytest.mark.parametrize("kind", DESIGN_KINDS)
def test_each_kind_of_verdict_has_words(kind: str) -> None:
    title, tone = verdict.heading(events.Verdict(at=0, verdict=kind, confidence="low"))
    assert title[0] in "◉!✗✓■?"
    assert title[2:5].isupper()
    assert tone in ("good", "busy", "warn", "bad", "muted")


def test_a_kind_of_a_later_version_is_shown_as_it_is() -> None:
    assert verdict.heading(events.Verdict(at=0, verdict="thermal", confidence="low"))[0] == "? THERMAL · low confidence"


def test_verdict_says_all_there_is() -> None:
    lines = "\n".join(text(row) for row in verdict.rows(view(fake.seed()), 100))
    for part in (
        "8 of 8 ranks",
        "next",
        "--disable-cuda-graph",
        "ruled out",
        "crash: 8/8 alive",
        "not known",
        "ptrace",
    ):
        assert part in lines


def test_beside_the_other_panels_the_verdict_says_what_decides() -> None:
    session = fake.seed()
    said = session.model.verdict
    assert said is not None
    clock = events.Evidence("ends by itself", "NCCL timeout in 5m02s: aborts all ranks")
    session.model.verdict = dataclasses.replace(said, evidence=(*said.evidence, clock))
    lines = [text(row) for row in verdict.brief(view(session), 100)]
    assert len(lines) <= verdict.BRIEF + 1
    assert any(line.startswith("next") and "r relaunch + --disable-cuda-graph" in line for line in lines)
    assert any(line.startswith("ruled out") and said.ruled_out[0].because in line for line in lines)
    assert any(line.startswith("ends by") and "5m02s" in line for line in lines)
    assert sum(line.startswith("next") for line in lines) == 1


def test_before_any_verdict_the_phase_is_told() -> None:
    session = fake.seed()
    session.model.verdict = None
    session.model.notices.append(events.Notice(at=T0, source="kernel", text="dmesg is not readable"))
    lines = "\n".join(text(row) for row in verdict.rows(view(session), 100))
    assert "in kv pool for 4m58s" in lines
    assert "kernel: dmesg is not readable" in lines


@pytest.mark.parametrize("width", [30, 76, 150])
def test_verdict_rows_fit(width: int) -> None:
    for told in (verdict.rows, verdict.brief):
        assert all(row_width(row) <= width for row in told(view(fake.seed()), width))


# ------------------------------------------------------------------------------------------------------------- the GPUs


def gpu_text(session: FakeSession, width: int = 100, limit: int = 9) -> str:
    return texts(GpusPanel().content(view(session), Space(width, limit)))


def test_gpus_have_a_line_each() -> None:
    lines = gpu_text(fake.seed()).splitlines()
    assert len(lines) == 9
    assert "76.0/96" in lines[1]
    assert "85/600" in lines[1]
    assert "TP0" in lines[1]


def test_with_one_line_the_gpus_are_summed_up() -> None:
    session = fake.seed()
    (line,) = gpu_text(session, 80, 1).splitlines()
    assert "8 × RTX PRO 6000 Blackwell · mem 76.0/96 · util 0% · 85 W · 41–43 °C" in line


def test_unknown_values_are_dashes() -> None:
    session = fake.ready()
    assert session.model.gpus is not None
    session.model.gpus = replace(session.model.gpus, gpus=(events.Gpu(index=0),))
    line = gpu_text(session).splitlines()[1]
    assert "0%" not in line
    assert line.count("–") >= 5


def test_trouble_of_a_gpu_is_said() -> None:
    session = fake.ready()
    assert session.model.gpus is not None
    one, _ = session.model.gpus.gpus
    lost = events.Gpu(index=1, error="GPU is lost")
    hot = replace(one, temperature_c=91.0, ecc_uncorrected=3, throttle=("thermal",))
    session.model.gpus = replace(session.model.gpus, gpus=(hot, lost))
    lines = gpu_text(session, 140)
    assert "!91" in lines
    assert "! ECC 3 ! thermal" in lines
    assert "✗ GPU is lost" in lines
    assert "1 GPU gives no values" in text(gpus.summary(session.model.gpus, 100))


@pytest.mark.parametrize(
    ("sample", "says"),
    [
        (None, "waiting for the first sample"),
        (events.Gpus(at=0, source="none", error="no libnvidia-ml.so.1"), "no libnvidia-ml.so.1"),
        (events.Gpus(at=0, source="none"), "none on this machine"),
        (events.Gpus(at=0), "the driver lists none"),
    ],
)
def test_why_there_are_no_gpus(sample: events.Gpus | None, says: str) -> None:
    session = fake.ready()
    session.model.gpus = sample
    assert says in gpu_text(session)


def test_gpu_memory_says_whether_it_moves() -> None:
    session = fake.loading()
    assert "+1.1G" in gpu_text(session, 140)
    assert session.model.gpus is not None
    session.model.gpus = replace(session.model.gpus, gpus=(events.Gpu(index=0, memory_slope=-2.0 * GIB),))
    assert "-2.0G" in gpu_text(session, 140)


# ------------------------------------------------------------------------------------------------------------ the ranks


def rank_text(session: FakeSession, width: int = 120) -> str:
    return texts(RanksPanel().content(view(session), Space(width, 12)))


def test_curves_come_with_the_room_for_them() -> None:
    session = fake.loading()
    for text_of, narrow, wide in ((rank_text, 80, 120), (gpu_text, 80, 120)):
        few, many = (sum(mark in "▁▂▃▄▅▆▇█" for mark in text_of(session, width)) for width in (narrow, wide))
        assert few < many


def test_what_a_rank_reads_and_writes_is_one_curve() -> None:
    session = fake.seed()
    busy = replace(session.model.rows[0], read_bps=3.0 * 1024**2, write_bps=None)
    session.model.rows[0] = busy
    first, second = rank_text(session).splitlines()[1:3]
    assert "▇▇▇▇" in first
    assert "▇▇▇▇" not in second


def test_ranks_have_a_line_each() -> None:
    lines = rank_text(fake.seed()).splitlines()
    for part in ("TP0", "48100", "0.0%", "3.9G", "79G", "futex_do_wait", "kv pool", "4m58s"):
        assert part in lines[1]
    assert lines[9].strip().startswith("also  launcher 48001 S")


def test_compilers_are_shown_even_where_it_is_narrow() -> None:
    session = fake.loading()
    session.model.rows[0] = replace(session.model.rows[0], children={"nvcc": 2, "ptxas": 1})
    assert "nvcc×2" in rank_text(session, 80)


def test_a_rank_that_ended_says_how() -> None:
    assert "TP1   ✗ ended by SIGKILL 12s ago, pid 48101" in rank_text(fake.crashed())


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (None, "ended"),
        (0, "ended with code 0"),
        (-9, "ended by SIGKILL"),
        (-64, "ended by SIGRTMAX"),
        (-99, "ended by signal 99"),
    ],
)
def test_exit_codes_are_words(code: int | None, says: str) -> None:
    assert ranks.exit_words(events.Exit(at=0, pid=1, code=code)) == says


def test_a_rank_that_has_not_begun_says_so() -> None:
    session = fake.ready()
    session.model.rows[1] = events.Process(pid=0, start_time=0, role="scheduler", rank="TP1")
    assert "○ not started yet" in rank_text(session)


def test_without_ranks_the_panel_says_why() -> None:
    session = fake.empty()
    assert "waiting for the first sample" in rank_text(session)
    session.model.processes = events.Processes(at=T0)
    assert "no scheduler yet" in rank_text(session)


@pytest.mark.parametrize(
    ("http", "says"),
    [
        (events.Http(at=0, port=30000), "not known"),
        (events.Http(at=0, port=30000, listening=False), "nobody listens"),
        (events.Http(at=0, port=30000, listening=True, ours=True, model_info=200), "listening · /model_info 200"),
        (events.Http(at=0, port=30000, listening=True, ours=True, ready=0), "/ready no answer"),
        (events.Http(at=0, port=30000, listening=True), "owner not readable"),
        (events.Http(at=0, port=30000, listening=True, ours=False, owner_pid=77), "✗ held by another process, pid 77"),
        (events.Http(at=0, port=30000, error="refused"), "! refused"),
    ],
)
def test_who_has_the_port(http: events.Http, says: str) -> None:
    session = fake.ready()
    session.model.http = http
    assert says in rank_text(session)


def test_alarms_of_the_host_come_first() -> None:
    session = fake.ready()
    assert session.model.host is not None
    session.model.host = replace(session.model.host, swap_used=GIB, cgroup_oom_kills=1)
    assert "host  ✗ 1 OOM kill in this cgroup · ! swap 1.0G · ram 33.0/1007G" in rank_text(session)


@pytest.mark.parametrize("scenario", sorted(fake.SCENARIOS))
@pytest.mark.parametrize("width", [46, 60, 80, 120])
def test_tables_fit(scenario: str, width: int) -> None:
    seen = view(fake.SCENARIOS[scenario]())
    for panel in (GpusPanel(), RanksPanel()):
        content = panel.content(seen, Space(width, 12))
        if seen.model.gpus is not None and seen.model.gpus.error is None:
            assert all(row_width(row) <= width for row in (*content.head, *content.body))


def test_stale_panels_are_dated() -> None:
    session = fake.seed()
    session.link, session.since_event = FakeLink("lost"), 12.0
    for panel in (GpusPanel(), RanksPanel()):
        assert "as of 12 s ago" in text(panel.content(view(session), Space(80, 9)).head[0])


def test_header_module_words() -> None:
    assert header.run_name(None) == "no run yet"
    run = events.Run(at=0, id="r1", tp=2, pp=2, dp=4, nnodes=2, node_rank=1)
    assert header.run_name(run) == "r1"
    assert header.run_name(replace(run, model="/models/x/")) == "x"
    assert header.run_name(replace(run, name="mine")) == "mine"
    assert header.parallelism(run) == "tp2 pp2 dp4 node 2/2"


# ------------------------------------------------------------------------------------------------------------- log rows


def drawn(
    line: str, width: int = 60, severity: str | None = None, current: bool = False, search: str = "", more: bool = False
) -> Row:
    row = ScreenRow(Shown(FakeLine(7, 1, line)), line, first=True, more=more)
    severities = {7: severity} if severity else {}
    hits = matcher(search) if search else None
    return log_row(row, width, Marks(severities, current=7 if current else None, hits=hits))


def test_prefix_is_muted_and_text_plain() -> None:
    row = drawn("[2025-11-29 18:00:01 TP0] Load weight begin.")
    assert row[1:] == (("[2025-11-29 18:00:01 TP0] ", "muted"), ("Load weight begin.", "plain"))


@pytest.mark.parametrize(("severity", "mark"), [("fatal", "✗"), ("error", "✗"), ("warning", "!"), ("consequence", "·")])
def test_errors_have_a_mark(severity: str, mark: str) -> None:
    assert drawn("boom", severity=severity)[0][0][0] == mark


def test_the_line_arrived_at_has_a_mark() -> None:
    assert drawn("here", current=True)[0][0][0] == "▶"


@pytest.mark.parametrize(("search", "hits"), [("load", ["Load", "load"]), ("Load", ["Load"]), ("a.b", [])])
def test_hits_are_toned(search: str, hits: list[str]) -> None:
    row = drawn("Load and load axb", search=search)
    assert [part for part, tone in row if tone == "hit"] == hits
    assert text(row) == "  Load and load axb"


@pytest.mark.parametrize("line", ["x" * 500, "日本語" * 100])
def test_long_lines_are_cut_with_a_sign(line: str) -> None:
    row = drawn(line, width=40)
    assert row_width(row) <= 40
    assert text(row).endswith("…")


def test_a_line_cut_by_the_agent_says_so() -> None:
    assert text(drawn("short", more=True)).endswith("…")


def test_markup_is_text() -> None:
    assert text(drawn("[bold]not bold[/bold] [link=x]")) == "  [bold]not bold[/bold] [link=x]"
