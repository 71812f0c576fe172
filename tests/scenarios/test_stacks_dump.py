"""Dumps of real processes: odd ones out, stopped, dead and dying ones, and a py-spy that misbehaves."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchmon_agent.events import RankStack, Stacks
from launchmon_agent.stacks import dump as dumping
from launchmon_agent.stacks import pyspy
from launchmon_agent.stacks.dump import Dumper
from launchmon_agent.stacks.merge import merge
from launchmon_agent.stacks.model import frames_of, main_thread
from launchmon_agent.stacks.render import text
from tests.support.ranks import RUN, Ranks, ranks
from tests.support.waiting import until

PYSPY = next(pyspy.find([]), None)
pytestmark = [
    pytest.mark.skipif(PYSPY is None, reason="py-spy is not installed"),
    pytest.mark.skipif(
        os.geteuid() != 0 and dumping.permission._scope() not in (None, 0), reason="Yama forbids ptrace"
    ),
]

SLEEPER = """
import time
def leaf():
    there()
    time.sleep(600)
def middle():
    leaf()
middle()
"""
SPINNER = """
def leaf():
    there()
    while True:
        pass
leaf()
"""
BARRIER = """
import socket
def barrier(here, other):
    there()
    here.recv(1)
barrier(*socket.socketpair())
"""
HOLDER = """
import fcntl, time
def build_kernels(lock):
    fcntl.flock(lock, fcntl.LOCK_EX)
    there()
    time.sleep(600)
build_kernels(open("build.lock", "w"))
"""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Ranks]:
    with ranks(tmp_path) as made:
        yield made


def stack_of(dump: Stacks, who: str) -> RankStack:
    return next(stack for stack in dump.stacks if stack.who == who)


def functions(dump: Stacks, who: str) -> list[str]:
    return [frame.function for frame in frames_of(dump, main_thread(stack_of(dump, who)))]


FAKE = """#!{python}
import json, os, signal, sys, time
pid = int(sys.argv[sys.argv.index('--pid') + 1])
{body}
"""
KILLED = """
child = os.posix_spawn({program!r}, ['py-spy', *sys.argv[1:]], os.environ)
time.sleep({seconds})
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
os.kill(os.getpid(), signal.SIGKILL)
"""
SECOND_TIME = """
if not os.path.exists('tried'):
    open('tried', 'w').close()
    sys.exit('Error: Failed to get stack traces')
os.execv({program!r}, ['py-spy', *sys.argv[1:]])
"""


def fake_pyspy(folder: Path, body: str) -> str:
    path = folder / "py-spy"
    path.write_text(FAKE.format(python=sys.executable, body=body))
    path.chmod(0o755)
    return str(path)


# ------------------------------------------------------------------------------------------------------- who stands out


def test_the_one_that_holds_the_lock_stands_out_of_those_in_the_barrier(made: Ranks) -> None:
    for number in range(8):
        made.start(f"TP{number}", HOLDER if number == 5 else BARRIER)
    dumper = Dumper(RUN, made.processes)
    taken = [dumper.dump() for _ in range(3)]
    merged = merge(taken[-1], taken[:-1])
    assert [group.label for group in merged.groups] == ["TP5", "TP0-4,6-7"]
    assert [frame.function for group in merged.groups for frame in group.shown][:1] == ["build_kernels"]
    assert {change.unchanged for change in merged.changes} == {2}
    said = text(merged)
    assert said.index("TP5  1 of 8  unchanged ×2") < said.index("TP0-4,6-7  7 of 8  unchanged ×2")
    assert len({dump.id for dump in taken}) == 3
    until(lambda: [made.state(who) for who in made.children] == ["S"] * 8)


def test_one_that_works_has_moved(made: Ranks) -> None:
    code = SPINNER.replace("        pass", "\n".join(f"        x = {n}" for n in range(200)))
    made.start("TP0", code, spins=True)
    dumper = Dumper(RUN, made.processes)
    taken: list[Stacks] = [dumper.dump()]

    def has_moved() -> bool:
        taken.append(dumper.dump())
        return any(change.moved for change in merge(taken[-1], taken[:-1]).changes)

    until(has_moved)


def test_all_threads_are_kept_with_their_names(made: Ranks) -> None:
    code = "import threading, time\ndef work():\n    time.sleep(600)\n"
    code += "threading.Thread(target=work, name='loader', daemon=True).start()\nthere()\nwork()\n"
    made.start("TP0", code)
    dump = Dumper(RUN, made.processes).dump()
    (main, other) = stack_of(dump, "TP0").threads
    assert main.main and not other.main
    assert other.name == "loader"
    assert "work" in [frame.function for frame in frames_of(dump, other)]
    assert stack_of(dump, "TP0").python == f"{sys.version_info[0]}.{sys.version_info[1]}"


def test_native_frames_and_locals_on_request(made: Ranks) -> None:
    code = "import time\ndef leaf(token, size):\n    there()\n    time.sleep(600)\nleaf('abc', 4711)\n"
    made.start("TP0", code)
    made.start("TP1", code)
    plain = Dumper(RUN, made.processes).dump()
    assert not any(frame.native or frame.locals for frame in plain.frames)
    dump = Dumper(RUN, made.processes).dump(native=True, locals_of="TP0")
    assert any(frame.native for frame in dump.frames)
    (leaf,) = [frame for frame in frames_of(dump, main_thread(stack_of(dump, "TP0"))) if frame.function == "leaf"]
    assert leaf.locals["size"] == "4711" and "abc" not in leaf.locals["token"]
    assert not any(frame.locals for frame in frames_of(dump, main_thread(stack_of(dump, "TP1"))))
    assert len(merge(dump).groups) == 1


def test_launcher_and_ranks_are_read_and_helpers_are_not(made: Ranks) -> None:
    made.start("launcher", SLEEPER)
    made.start("TP0", SLEEPER)
    helper = made.process("launcher")
    dump = Dumper(RUN, [*made.processes, type(helper)(1, 0.0, "helper")]).dump()
    assert [stack.who for stack in dump.stacks] == ["launcher", "TP0"]
    assert Dumper(RUN, []).dump().stacks == ()


# -------------------------------------------------------------------------------------------------- states of processes


def test_a_stopped_rank_is_read_without_touching_it_and_stays_stopped(made: Ranks) -> None:
    made.start("TP0", SLEEPER)
    made.start("TP1", SLEEPER)
    made.stop("TP1")
    dump = Dumper(RUN, made.processes).dump(native=True)
    stack = stack_of(dump, "TP1")
    assert functions(dump, "TP1")[:1] == ["leaf"]
    assert (stack.means, stack.state_before, stack.state_after, stack.continued) == (
        "py-spy --nonblocking",
        "T",
        "T",
        False,
    )
    assert stack.problem is not None and "native" in stack.problem
    assert made.state("TP1") == "T"
    assert stack_of(dump, "TP0").means == "py-spy"


def test_a_rank_that_sleeps_is_not_paused(made: Ranks) -> None:
    made.start("TP0", SLEEPER)
    dump = Dumper(RUN, made.processes).dump()
    assert stack_of(dump, "TP0").means == "py-spy --nonblocking"
    assert functions(dump, "TP0") == ["leaf", "middle", "<module>"]


def test_a_busy_rank_is_read_in_the_end(made: Ranks) -> None:
    made.start("TP0", SPINNER, spins=True)
    dump = Dumper(RUN, made.processes).dump()
    assert functions(dump, "TP0")[-2:] == ["leaf", "<module>"]
    assert stack_of(dump, "TP0").threads[0].active
    assert stack_of(dump, "TP0").means == "py-spy"


def test_a_zombie_is_said_to_be_one(made: Ranks) -> None:
    process = made.start("TP0", SLEEPER)
    made.children["TP0"].kill()
    until(lambda: made.state("TP0") == "Z")
    (stack,) = Dumper(RUN, [process]).dump().stacks
    assert (stack.means, stack.state_before, stack.threads) == (None, "Z", ())
    assert stack.problem is not None and "zombie" in stack.problem


def test_a_rank_that_is_gone_or_was_replaced_is_not_read(made: Ranks) -> None:
    process = made.start("TP0", SLEEPER)
    other = type(process)(process.pid, process.start_time - 100, "scheduler", rank="TP1")
    dump = Dumper(RUN, [process, other]).dump()
    assert stack_of(dump, "TP0").threads and not stack_of(dump, "TP1").threads
    assert "ended before" in (stack_of(dump, "TP1").problem or "")
    made.children["TP0"].kill()
    made.children["TP0"].wait()
    (stack,) = Dumper(RUN, [process]).dump().stacks
    assert not stack.threads and "ended before" in (stack.problem or "")


def test_a_rank_that_dies_during_the_dump(made: Ranks, tmp_path: Path) -> None:
    process = made.start("TP0", SLEEPER)
    program = fake_pyspy(tmp_path, "os.kill(pid, signal.SIGKILL)\ntime.sleep(0.2)\nsys.exit('no such process')")
    (stack,) = Dumper(RUN, [process], program=program).dump().stacks
    assert stack.problem == "the process ended while it was read"
    assert not stack.continued


# --------------------------------------------------------------------------------------------------- py-spy misbehaves


def test_one_that_hangs_is_ended_in_time_and_what_it_stopped_goes_on(
    made: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = made.start("TP0", SLEEPER)
    monkeypatch.chdir(tmp_path)
    body = "os.kill(pid, signal.SIGSTOP)\nopen('hung', 'w').write(str(os.getpid()))\ntime.sleep(600)"
    (stack,) = Dumper(RUN, [process], program=fake_pyspy(tmp_path, body), limit_s=4.0).dump().stacks
    assert stack.continued
    until(lambda: made.state("TP0") == "S")
    assert re.search(r"did not answer within [34] s", stack.problem or "") and "continued" in (stack.problem or "")
    assert stack.means == "proc" and stack.threads
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "hung").read_text()), 0)


def test_one_that_is_killed_in_its_work_is_tried_again_and_leaves_nothing_stopped(made: Ranks, tmp_path: Path) -> None:
    process = made.start("TP0", SLEEPER)
    program = fake_pyspy(tmp_path, "os.kill(pid, signal.SIGSTOP)\nos.kill(os.getpid(), signal.SIGKILL)\n")
    (stack,) = Dumper(RUN, [process], program=program).dump().stacks
    assert stack.continued
    until(lambda: made.state("TP0") == "S")
    assert "ended by signal 9" in (stack.problem or "")


def test_the_real_one_killed_in_its_work_leaves_nothing_stopped(made: Ranks, tmp_path: Path) -> None:
    process = made.start("TP0", SLEEPER)
    for milliseconds in range(0, 40, 4):
        program = fake_pyspy(tmp_path, KILLED.format(program=PYSPY, seconds=milliseconds / 1000))
        Dumper(RUN, [process], program=program).dump(native=True)
        until(lambda: made.state("TP0") == "S")
    assert functions(Dumper(RUN, [process]).dump(), "TP0")[0] == "leaf"


def test_one_that_fails_now_and_then_is_asked_again(
    made: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = made.start("TP0", SLEEPER)
    monkeypatch.chdir(tmp_path)
    dump = Dumper(RUN, [process], program=fake_pyspy(tmp_path, SECOND_TIME.format(program=PYSPY))).dump()
    assert functions(dump, "TP0")[0] == "leaf" and stack_of(dump, "TP0").problem is None
    assert (tmp_path / "tried").exists()


@pytest.mark.parametrize(
    "body, said",
    [
        ("print('garbage')\n", "no stacks that can be read"),
        ("print('[{}]')\n", "no stacks that can be read"),
        ("sys.exit('Error: something unheard of')\n", "something unheard of"),
        ("os.abort()\n", "ended by signal 6"),
    ],
)
def test_one_that_gives_nothing_of_use_is_named_and_the_kernel_asked_instead(
    made: Ranks, tmp_path: Path, body: str, said: str
) -> None:
    process = made.start("TP0", SLEEPER)
    (stack,) = (dump := Dumper(RUN, [process], program=fake_pyspy(tmp_path, body)).dump()).stacks
    assert said in (stack.problem or "")
    assert stack.means == "proc" and stack.threads[0].main
    assert text(merge(dump))


def test_one_for_another_machine_is_passed_over(made: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = made.start("TP0", SLEEPER)
    wrong = tmp_path / "py-spy"
    wrong.write_bytes(b"\x7fELF" + bytes(200))
    wrong.chmod(0o755)
    (stack,) = Dumper(RUN, [process], program=str(wrong)).dump().stacks
    assert "not for this kind of machine" in (stack.problem or "") and stack.means == "proc"
    monkeypatch.setattr(pyspy, "find", lambda _pids: iter([str(wrong), str(PYSPY)]))
    dump = Dumper(RUN, [process]).dump()
    assert functions(dump, "TP0")[0] == "leaf"


def test_without_any_the_way_to_get_one_is_said(made: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    process = made.start("TP0", SLEEPER)
    monkeypatch.setattr(pyspy, "find", lambda _pids: iter(()))
    (stack,) = Dumper(RUN, [process]).dump().stacks
    assert stack.problem == dumping.NO_PYSPY and "pip install py-spy" in (stack.cure or "")
    assert stack.means == "proc"


def test_the_kernel_tells_what_each_thread_sleeps_in(made: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import threading\nheld = threading.Lock()\nheld.acquire()\n"
    code += "threading.Thread(target=held.acquire, daemon=True).start()\nthere()\nheld.acquire()\n"
    process = made.start("TP0", code)
    monkeypatch.setattr(pyspy, "find", lambda _pids: iter(()))
    dump = Dumper(RUN, [process]).dump()
    assert len(stack_of(dump, "TP0").threads) == 2
    merged = merge(dump)
    if os.geteuid() == 0:  # others see no more than the kernel's configuration shows them
        assert merged.groups[0].explanation is not None and merged.groups[0].explanation.id == "kernel-futex"


SIGNALLED = """
import signal, time
signal.signal(signal.SIGCONT, lambda *_: open('continued', 'w').close())
there()
while True:
    time.sleep(600)
"""


def test_a_healthy_process_is_not_continued(made: Ranks) -> None:
    process = made.start("TP0", SIGNALLED)
    (stack,) = Dumper(RUN, [process]).dump().stacks
    assert stack.threads and not stack.continued
    assert not (made.workdir / "continued").exists()
    os.kill(process.pid, signal.SIGCONT)  # it would have been seen
    until(lambda: (made.workdir / "continued").exists())
