"""A large log through a real agent: search with counts, filters, places and folds, none of which hold up another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from launchmon.session import Session
from launchmon.tui.log_places import failures, phase_begins, tracebacks
from launchmon.tui.log_reader import LogReader
from launchmon_agent.errors import Refused
from launchmon_agent.log.only import Only
from tests.support.client import agent, eventually
from tests.support.fake_servers import command, session_of
from tests.support.ports import free_port

RANKS = 8
STEPS = 20_000
MIB = 1024 * 1024


def stamp(second: int) -> str:
    return f"2026-11-29 {16 + second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def write_log(path: Path) -> dict[str, int]:
    """Some 22 MB: a launch, hours of serving, a failing rank. Returns how often things are in it."""
    with path.open("w") as file:

        def say(second: int, text: str, *ranks: int) -> None:
            for tag in [f" TP{rank}" for rank in ranks] or [""]:
                file.write(f"[{stamp(second)}{tag}] {text}\n")

        everyone = range(RANKS)
        say(0, "server_args={'model_path': '/models/m', 'tp_size': 8}")
        say(1, "Init parallel begin.", *everyone)
        file.write("/opt/awq.py:53: UserWarning: Only CUDA\n  warnings.warn(\n" * RANKS)
        say(9, "Init parallel ends. elapsed=8.00 s", *everyone)
        say(9, "Load weight begin. avail mem=93.50 GB", *everyone)
        say(21, "Load weight end. elapsed=12.00 s, type=A, avail mem=9.50 GB, mem usage=68.40 GB.", *everyone)
        say(22, "The server is fired up and ready to roll!")
        for step in range(STEPS):
            for rank in everyone:
                say(30 + step // 2, f"Decode batch, #running-req: {step % 7}, #token: {step}, #queue-req: 0", rank)
            if step % 1000 == 999:
                say(30 + step // 2, f"Fail to move a page, step {step}", step // 1000 % RANKS)
        end = 31 + STEPS // 2
        say(end, "Scheduler hit an exception: Traceback (most recent call last):", 3)
        file.write('  File "scheduler.py", line 12, in run\n    self.forward()\nRuntimeError: boom in forward\n\n')
        say(end + 1, "SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
    return {"Fail to": STEPS // 1000, "#token: 77,": RANKS}


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    """Attached to a server that was started by hand, whose log is large; it is read to its end."""
    path = tmp_path / "server.log"
    write_log(path)
    port = free_port()
    with session_of(*command("--tp", str(RANKS), port=port)) as process:
        async with agent() as session:
            await eventually(lambda: psutil.Process(process.pid).children())
            await session.attach(pid=process.pid, log=str(path))
            await eventually(lambda: session.log_is_read)
            yield session


def texts(reader: LogReader) -> list[str]:
    return [row.text for row in reader.viewport.rows()]


async def asked(reader: LogReader, work: Callable[[], object]) -> None:
    await reader.guarded(work)  # type: ignore[arg-type]
    assert "failed" not in reader.message, reader.message


async def test_the_pane_over_a_large_log(session: Session) -> None:
    reader = LogReader(session, lambda: None)
    reader.viewport.resize(200, 20)
    await asked(reader, reader.to_end)
    assert "SIGQUIT received" in texts(reader)[-1]

    # search with counts
    reader.search_for("#token: 77,", regex=False)
    await asked(reader, lambda: reader.find(True))
    for place in range(1, RANKS + 1):
        reader.search.stand_on(reader.pointer.current)
        await reader.search.count()
        assert reader.search.told == f"/#token: 77, {place} of {RANKS}"
        await asked(reader, lambda: reader.find(True))
    assert reader.message == "from the other end"
    reader.search_for(r"#token: \d*77,", regex=True)
    await reader.search.count()
    assert reader.search.told == f"/#token: \\d*77, {RANKS * STEPS // 100:,}"
    reader.forget_search()

    # filters
    await asked(reader, lambda: reader.show_only(Only(level="error")))
    await asked(reader, reader.to_end)
    assert [text.split("] ")[-1].strip() for text in texts(reader)] == [
        "Scheduler hit an exception: Traceback (most recent call last):",
        'File "scheduler.py", line 12, in run',
        "self.forward()",
        "RuntimeError: boom in forward",
        "SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
    ]
    await asked(reader, lambda: reader.show_only(Only(rank="TP3", level="warning", only="page")))
    await asked(reader, reader.to_end)
    assert [text.split("step ")[1] for text in texts(reader)] == ["3999", "11999", "19999"]
    await asked(reader, lambda: reader.show_only(Only()))

    # places
    model = session.model
    begins = phase_begins(model.all_marks)
    await asked(reader, lambda: reader.arrive(begins["weights"], "weights"))
    assert any("Load weight begin" in text for text in texts(reader))
    await asked(reader, lambda: reader.arrive(tracebacks(model.errors)[0], "traceback"))
    assert reader.viewport.lines[reader.pointer.place or 0].line.rank == "TP3"
    assert tracebacks(model.errors) == failures(model.errors)[:1]
    assert (
        (await session.window(await session.place(moment="17:00:00"), 0, 1))
        .lines[0]
        .text.startswith("[2026-11-29 17:00:00 TP0]")
    )
    assert (await session.window(await session.place(line=100_000), 0, 1)).lines[0].number == 100_000
    with pytest.raises(Refused, match="has no line"):
        await session.place(line=10**9)

    # folds
    await asked(reader, reader.to_start)
    await asked(reader, lambda: reader.set_fold(True))
    folded = [text.split("] ")[-1] for text in texts(reader)]
    assert folded[1:4] == ["×8 Init parallel begin.", "×8 /opt/awq.py:53: UserWarning: Only CUDA", "  warnings.warn("]
    assert "×8 Load weight begin. avail mem=93.50 GB" in folded


async def test_windows_are_served_while_a_slow_count_runs_and_a_new_search_ends_it(session: Session) -> None:
    reader = LogReader(session, lambda: None)
    reader.viewport.resize(200, 20)
    reader.search_for(r"(?:[a-z]+ ?){1,6}batch.*queue.*0$", regex=True)
    slow = asyncio.create_task(reader.search.count())
    await eventually(lambda: reader.search.told.split()[-1].endswith("%"))
    windows = 0
    while not slow.done() and windows < 20:
        await session.window("end", 50, 0)
        windows += 1
    assert windows == 20, "the count was over before windows could be asked for beside it"
    slow.cancel()
    reader.search_for("Fail to", regex=False)
    await reader.search.count()
    assert reader.search.told == f"/Fail to {STEPS // 1000}"


async def test_the_agents_memory_does_not_grow_with_the_log(session: Session) -> None:
    assert session.hello is not None and session.model.log is not None
    process = psutil.Process(session.hello.pid)
    await session.window("end", 1000, 0)
    before = process.memory_info().rss
    for pattern, regex in (("decode", False), ("page", False), (r"step \d+", True)):
        start = 0
        while not (part := await session.count(pattern, start, None, regex, Only(level="warning"))).done:
            start = part.next
    assert process.memory_info().rss - before < min(8 * MIB, session.model.log.size / 2)
