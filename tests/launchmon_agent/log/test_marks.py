"""The scanner: the same bytes give the same events however they arrive, whatever they are."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from launchmon_agent.events import Event, LastLine, LogError, Mark, Progress
from launchmon_agent.log.marks import LINE_LIMIT, MarkScanner
from launchmon_agent.log.skip import TAIL

LOGS = Path(__file__).parents[2] / "recordings" / "logs"
NOW = 1795968600.0
DECODE = b"[2026-11-29 16:11:%02d %s] Decode batch, #running-req: %d, token usage: 0.42, #queue-req: 0\n"
READY = b"[2026-11-29 16:10:05] The server is fired up and ready to roll!\n"
FAILURE = (
    b"[2026-11-29 16:20:00 TP3] Scheduler hit an exception: Traceback (most recent call last):\n"
    b'  File "scheduler.py", line 6368, in run_scheduler_process\n'
    b"    scheduler.run_event_loop()\n"
    b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    b"\n"
    b"[2026-11-29 16:20:00] SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n"
)


def scan(data: bytes, size: int | None = None, now: float | None = None) -> list[Event]:
    scanner = MarkScanner()
    size = size or len(data) or 1
    return [
        event for start in range(0, len(data), size) for event in scanner.feed(start, data[start : start + size], now)
    ]


def lasting(events: list[Event]) -> list[Event]:
    """Marks and errors. How many refreshes of a bar are told depends on the blocks, by design."""
    return [event for event in events if not isinstance(event, Progress)]


def errors(events: list[Event]) -> list[LogError]:
    return [event for event in events if isinstance(event, LogError)]


def marks(events: list[Event]) -> list[Mark]:
    return [event for event in events if isinstance(event, Mark)]


# --------------------------------------------------------------------------------------------------------------- blocks

SHORT = (
    b"path.py:71: UserWarning: x\r\n"
    b"[2026-11-29 16:09:42] server_args={'tp_size': 2}\n"
    b"[2026-11-29 16:09:58 TP0] Load weight begin. avail mem=20.19 GB\n"
    b"\rMulti-thread loading shards:   0% Completed | 0/1 [00:00<?, ?it/s]"
    b"\rMulti-thread loading shards: 100% Completed | 1/1 [00:00<00:00, 238.83it/s]\r\n"
    b"[2026-11-29 16:10:01 TP0] Memory pool end. avail mem=1 GB"
    b"[2026-11-29 16:10:01 TP1] Memory pool end. avail mem=2 GB\n" + READY + DECODE % (1, b"TP0", 1) + FAILURE
)


def test_a_block_boundary_anywhere_changes_nothing() -> None:
    whole = MarkScanner()
    expected = whole.feed(0, SHORT)
    assert [event.kind for event in expected].count("mark") == 5
    for cut in range(len(SHORT)):
        scanner = MarkScanner()
        events = [*scanner.feed(0, SHORT[:cut]), *scanner.feed(cut, SHORT[cut:])]
        assert lasting(events) == lasting(expected), cut
        assert [event for event in events if isinstance(event, Progress)][-1] == expected[-1], cut
        assert scanner.last_lines() == whole.last_lines(), cut


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda path: path.stem)
@pytest.mark.parametrize("size", [61, 4096])
def test_real_logs_in_blocks_of_any_size(path: Path, size: int) -> None:
    data = path.read_bytes()
    assert lasting(scan(data, size)) == lasting(scan(data))


def test_lines_without_end_are_kept_until_it_comes() -> None:
    scanner = MarkScanner()
    assert scanner.feed(0, b"[2026-11-29 16:09:58 TP0] Load weight begin. avail mem=2") == []
    (mark,) = scanner.feed(56, b"0.19 GB\n")
    assert isinstance(mark, Mark)
    assert (mark.rank, mark.offset, mark.values) == ("TP0", 0, {"avail": "20.19"})


def test_a_gap_loses_the_line_it_cuts_and_no_other() -> None:
    scanner = MarkScanner()
    scanner.feed(0, b"[2026-11-29 16:09:58 TP0] Load weight ")
    events = scanner.feed(5000, b"begin. avail mem=1 GB\n" + READY)
    assert [mark.id for mark in marks(events)] == ["ready"]


@pytest.mark.parametrize("size", [None, 1000, 65536, 65537])
def test_a_line_of_ten_megabytes_is_harmless_and_bounded(size: int | None) -> None:
    data = SHORT + b"x" * 10_000_000 + b"\n" + READY.replace(b"16:10", b"16:30")
    scanner = MarkScanner()
    events: list[Event] = []
    size = size or len(data)
    for start in range(0, len(data), size):
        events += scanner.feed(start, data[start : start + size])
        assert len(scanner._partial) <= LINE_LIMIT
    assert lasting(events) == lasting(scan(data))
    assert marks(events)[-1].id == "ready"


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_do_no_harm(seed: int) -> None:
    source = random.Random(seed)
    noise = bytes(source.choices(b"\r\n\x1b[]|%:= \x00\xff\xe2\x96\x88TP09ab(){}'", k=5000))
    data = noise + b"\n" + SHORT + noise + b"\n" + FAILURE
    size = source.randrange(1, 300)
    assert lasting(scan(data, size)) == lasting(scan(data))
    assert any(mark.id == "ready" for mark in marks(scan(data)))


# ---------------------------------------------------------------------------------------------------------------- lines


def test_several_ranks_on_one_line() -> None:
    events = marks(scan(SHORT))
    assert [(mark.rank, mark.values) for mark in events if mark.id == "kv"] == [
        ("TP0", {"avail": "1"}),
        ("TP1", {"avail": "2"}),
    ]
    for mark in events:
        assert SHORT[mark.offset :].startswith(b"[2026")


def test_colours_and_the_text_of_containers_are_no_obstacle() -> None:
    data = (
        b"sglang-1  | \x1b[32m[2026-11-29 16:09:58 DP1 TP0] Load weight begin. avail mem=1 GB\x1b[0m\n"
        b"[pod/sglang-0/server] [2026-11-29 16:09:59 DP1 TP0] Memory pool end. avail mem=1 GB\n"
        b"2026-11-29T16:10:00.12Z stderr F [2026-11-29 16:10:00.123 TP1] INFO core.py:524: Init parallel begin.\n"
        b"sglang-1  | Traceback (most recent call last):\n"
        b"sglang-1  |   File x\n"
        b"sglang-1  | ValueError: wrong\n"
    )
    events = scan(data)
    assert [(mark.rank, mark.id) for mark in marks(events)] == [
        ("DP1 TP0", "weights"),
        ("DP1 TP0", "kv"),
        ("TP1", "dist"),
    ]
    assert errors(events)[-1].detail == "ValueError: wrong"


def test_control_sequences_are_shown_and_secrets_are_not() -> None:
    data = b"[2026-11-29 16:09:58 TP0] \x07bell HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz \xff\n"
    scanner = MarkScanner()
    scanner.feed(0, data)
    (line,) = scanner.last_lines()
    assert line.text == "␇bell HF_TOKEN=••• \ufffd"


def test_the_last_line_of_each_rank_and_of_the_launcher() -> None:
    scanner = MarkScanner()
    scanner.feed(0, SHORT)
    assert [(line.rank, line.text[:20]) for line in scanner.last_lines()] == [
        ("TP1", "Memory pool end. ava"),
        ("TP0", "Decode batch, #runni"),
        ("TP3", "torch.OutOfMemoryErr"),
        ("launcher", "SIGQUIT received. si"),
    ]


def test_lines_of_a_single_rank_are_told_from_the_launchers() -> None:
    scanner = MarkScanner()
    scanner.feed(0, (LOGS / "tp1-healthy.log").read_bytes().partition(b"[2026-11-29 16:35:22] INFO:     Started")[0])
    last = {line.rank: line.text for line in scanner.last_lines()}
    assert last["TP0"].startswith("Tree cache initialized")
    assert last["launcher"].startswith("Engine startup timings")


# -------------------------------------------------------------------------------------------------------------- serving


def serving(count: int) -> bytes:
    return b"".join(DECODE % (n % 60, b"TP%d" % (n % 2), n) for n in range(count))


@pytest.mark.parametrize("size", [100, 4096, 1 << 20])
def test_what_is_passed_over_while_serving_is_only_what_does_not_matter(size: int) -> None:
    quiet = serving(4000)
    data = SHORT.partition(b"[2026-11-29 16:20")[0] + quiet + FAILURE + quiet[:300]
    events = scan(data, size)
    assert [error.id for error in errors(events)] == ["scheduler_exception", "scheduler_exception", "sigquit"]
    assert errors(events)[1].detail == "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    assert data[errors(events)[0].offset :].startswith(b"[2026-11-29 16:20:00 TP3]")


def test_the_last_lines_of_a_serving_run_come_from_its_end() -> None:
    data = READY + serving(3000)
    assert len(data) > 2 * TAIL
    whole, pieces = MarkScanner(), MarkScanner()
    whole.feed(0, data)
    for start in range(0, len(data), 1000):
        pieces.feed(start, data[start : start + 1000])
    expected = {line.rank: line for line in whole.last_lines()}
    assert {line.rank: line for line in pieces.last_lines()} == expected
    newest = expected["TP1"]
    assert isinstance(newest, LastLine)
    assert "#running-req: 2999," in newest.text
    assert data[newest.offset :] == DECODE % (59, b"TP1", 2999)


def test_a_bare_line_after_skipped_ones_has_their_time() -> None:
    data = READY + serving(3000) + b"Fatal Python error: Segmentation fault\n"
    (error,) = errors(scan(data))
    (stamped,) = marks(scan(data))
    assert error.at - stamped.at == 60 + 54  # 16:11:59 against 16:10:05


def test_a_failed_request_does_not_end_a_serving_run() -> None:
    data = READY + b"Traceback (most recent call last):\n  File x\nValueError: bad request\n"
    assert [(error.severity, error.detail) for error in errors(scan(data))] == [
        ("error", None),
        ("error", "ValueError: bad request"),
    ]


# ------------------------------------------------------------------------------------------------------------- launches


def test_a_new_launch_in_the_same_file_begins_behind_the_end_of_the_one_before() -> None:
    first = (LOGS / "tp2-healthy.log").read_bytes()
    second = (LOGS / "tp1-healthy.log").read_bytes()
    scanner = MarkScanner()
    scanner.feed(0, first)
    assert scanner.launch_offset == 0
    scanner.feed(len(first), second)
    assert scanner.launch_offset == len(first)
    scanner.reset()
    scanner.feed(0, second)
    assert scanner.launch_offset == 0


def test_a_new_launch_after_a_silent_end_begins_with_its_arguments() -> None:
    first = (LOGS / "tp2-launcher-killed.log").read_bytes()
    second = (LOGS / "tp1-healthy.log").read_bytes()
    scanner = MarkScanner()
    scanner.feed(0, first + second)
    assert (first + second)[scanner.launch_offset :].startswith(b"[2026-11-29 16:35:07] server_args=")


def test_a_log_that_begins_in_the_middle_of_serving_is_passed_over_too() -> None:
    scanner = MarkScanner()
    assert scanner.feed(0, serving(500)) == []
    assert scanner._serving
    assert [error.id for error in errors(scanner.feed(len(serving(500)), FAILURE))][-1] == "sigquit"


# ----------------------------------------------------------------------------------------------------------------- time


def test_the_end_of_an_old_log_tells_its_zone() -> None:
    line = b"[2026-11-29 16:10:05 TP0] Load weight begin. avail mem=2 GB\n"
    (here,) = scan(line)
    scanner = MarkScanner()
    scanner.calibrate(line + b"a traceback's\n  last lines\n", here.at - 3600 + 2)
    (there,) = scanner.feed(0, line)
    assert there.at == here.at - 3600
    scanner = MarkScanner()
    scanner.calibrate(line + b"bare\n" * 10, here.at - 3600 + 2)  # too far from the end to tell when it was written
    (unsure,) = scanner.feed(0, line)
    assert unsure.at == here.at


def test_live_lines_tell_the_zone_for_those_that_follow() -> None:
    line = b"[2026-11-29 16:10:%02d TP0] Load weight begin. avail mem=2 GB\n"
    (here,) = scan(line % 5)
    scanner = MarkScanner()
    scanner.feed(0, line % 5, here.at + 7200.5)
    (mark,) = scanner.feed(len(line % 5), line % 6, here.at + 7201.5)
    assert mark.at == here.at + 7201


def test_a_log_without_stamps_has_the_time_it_was_seen() -> None:
    (error,) = errors(scan(b"sglang serve: error: unrecognized arguments: --x\n", now=NOW))
    assert error.at == NOW


# --------------------------------------------------------------------------------------------------------------- errors

TRACE = b"Traceback (most recent call last):\n  File x\n"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (TRACE + b"KeyboardInterrupt\n", [("traceback", "consequence", "KeyboardInterrupt")]),
        (
            TRACE + b"KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n" + TRACE
            + b"RuntimeError: 2\n",
            [("traceback", "fatal", "RuntimeError: 2")],
        ),
        (
            TRACE + b"RuntimeError: first\nsecond line\n\n" + TRACE + b"ValueError: another\n",
            [("traceback", "fatal", "RuntimeError: first"), ("traceback", "fatal", "ValueError: another")],
        ),
        (
            b"[2026-11-29 16:10:00 TP1] Can not initialize OpenAIServingResponses, error: " + TRACE + b"OSError: x\n",
            [],
        ),
        (b"[2026-11-29 16:10:00 TP1] Ignore import error when loading sglang.x: undefined symbol: _Z\n", []),
        (b"Exception ignored in: <function x>\n" + TRACE + b"KeyError: y\n", [("traceback", "warning", "KeyError: y")]),
        (b"Exception in thread Thread-3:\n" + TRACE + b"TypeError: y\n", [("traceback", "error", "TypeError: y")]),
        (
            b"[rank3]: Traceback (most recent call last):\n[rank3]:   File x\n[rank3]: ValueError: z\n",
            [("traceback", "fatal", "ValueError: z")],
        ),
        (b"./run.sh: line 3: 48466 Killed                  python3\n", [("killed", "consequence", None)]),
        (b"[2026-11-29 16:10:00] Receive: obj=GenerateReqInput(text='CUDA out of memory')\n", []),
    ],
)  # fmt: skip
def test_errors(log: bytes, expected: list[tuple[str, str, str | None]]) -> None:
    found = {error.offset: error for error in errors(scan(log))}
    assert [(error.id, error.severity, error.detail) for error in found.values()] == expected


def test_torch_names_ranks_by_number() -> None:
    both = b"".join(b"[2026-11-29 16:10:00 DP%d TP%d] Init parallel begin.\n" % (n // 2, n) for n in range(4))
    timeout = (
        b"[rank2]:[E1129 ProcessGroupNCCL.cpp:629] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=6)\n"
    )
    (error,) = errors(scan(both + timeout))
    assert error.rank == "DP1 TP2"
    replicas = b"".join(b"[2026-11-29 16:10:00 DP%d TP%d] Init parallel begin.\n" % (n // 3, n % 3) for n in range(6))
    (error,) = errors(scan(replicas + timeout))
    assert error.rank == "launcher"  # both replicas have a rank of that number
