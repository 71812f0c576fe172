"""The world around a server plays tricks: clocks are set, pids come again, drivers fail, logs are enormous."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from launchmon_agent.events import Event, Gpus, Host, Log, Process, Processes, Run
from launchmon_agent.judge.verdict import judge
from launchmon_agent.judge.window import EvidenceWindow
from launchmon_agent.log.engine import LogEngine
from launchmon_agent.log.marks import MarkScanner
from launchmon_agent.log.owner import owner_of
from launchmon_agent.log.sources import FileSource
from launchmon_agent.model import RunModel
from launchmon_agent.runs import directory
from launchmon_agent.runs.directory import ProcessId, create
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.gpu import GpuSensor
from launchmon_agent.sensors.http import HttpSensor
from launchmon_agent.sources import Sensors
from launchmon_agent.watch import Watch
from tests.support.fake_nvml import SCRIPT_VARIABLE, FakeNvml, NoCompiler, load
from tests.support.peers import peer, says
from tests.support.prefixes import in_a_pid_namespace, needs_root
from tests.support.story import T0, Played, Story
from tests.support.witness import Witness

HOUR = 3600.0

# --------------------------------------------------------------------------------------------------------------- clocks


class Quiet:
    """All sensors of a watch: one launcher that sleeps, and nothing else."""

    def __init__(self) -> None:
        self.samples: list[float] = []

    def sample(self, now: float, _gpus: Gpus | None = None) -> Processes:
        self.samples.append(now)
        return Processes(now, (Process(os.getpid(), proc.start_time(os.getpid()) or 0.0, "launcher"),))

    def vanished(self, _now: float) -> list[Event]:
        return []

    def expect(self, _ranks: Sequence[str]) -> None:
        return None


class NoGpus:
    def sample(self, now: float) -> Gpus:
        return Gpus(now)


class NoHost:
    def sample(self, now: float) -> Host:
        return Host(now)


class NoKernel:
    def poll(self, _now: float, _pids: Iterable[int]) -> list[Event]:
        return []


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_a_clock_that_is_set_holds_up_no_sample_and_is_told(jump: float) -> None:
    moved = [0.0]
    processes = Quiet()
    sensors = Sensors(NoGpus(), NoHost(), NoKernel(), processes)  # type: ignore[arg-type]
    watch = Watch(Run(time.time(), id="x", pid=1, tp=1), sensors, None, clock=lambda: time.time() + moved[0])
    running = asyncio.create_task(watch.run())

    async def samples(count: int) -> None:
        async with asyncio.timeout(20) if sys.version_info >= (3, 11) else _Patient():
            while len(processes.samples) < count:
                await asyncio.sleep(0.02)

    await samples(2)
    before = watch.evidence
    moved[0] = jump
    await samples(len(processes.samples) + 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert watch.evidence is not before and watch.evidence.observed_since == processes.samples[2]
    (told,) = [note.text for note in watch.model.notices if note.source == "clock"]
    assert ("set forward by 3600 s, or it slept" if jump > 0 else "set back by 3600 s") in told


class _Patient:
    """Python 3.10 has no asyncio.timeout; the test's own limit has to do."""

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        return None


def _moved(event: Event, at: float, by: float) -> Event:
    """As it would have been told had the clock been set at that second."""
    event = dataclasses.replace(event, at=event.at + by)
    if isinstance(event, Log) and event.grown_at is not None:
        grown = event.grown_at + by if event.grown_at - T0 >= at else min(event.grown_at, T0 + at + by)
        last = tuple(dataclasses.replace(line, at=line.at + by) for line in event.last)
        return dataclasses.replace(event, last=last, grown_at=grown)
    return event


def judged_with_the_clock_set(played: Played, at: float, by: float) -> dict[float, str]:
    """Second → kind of verdict, where the watch has begun its evidence anew at that second."""
    model, window = RunModel(), EvidenceWindow()
    rest, out = list(played.events), {}
    for second, _ in played.verdicts:
        if second == at:
            window = EvidenceWindow()
            window.begin_anew(None, T0 + at + by)
        while rest and rest[0].at - T0 <= second:
            event = rest.pop(0)
            event = _moved(event, at, by) if event.at - T0 >= at else event
            model.fold(event)
            window.fold(event)
        out[second] = judge(model, window, T0 + second + (by if second >= at else 0.0)).verdict
    return out


@pytest.mark.parametrize("by", [HOUR, -HOUR, 30 * 24 * HOUR])
@pytest.mark.parametrize(
    "story",
    [Story().up_to("weights"), Story().up_to("graphs"), Story().up_to("ready")],
    ids=["weights", "graphs", "ready"],
)
def test_a_clock_that_is_set_makes_no_dead_lock_and_no_crash(story: Story, by: float) -> None:
    kinds = judged_with_the_clock_set(story.play(70), 55, by)
    assert not {kind for kind in kinds.values() if kind.startswith("deadlock") or kind == "crashed"}


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_a_stall_is_told_as_late_as_if_it_began_when_the_clock_was_set_and_not_earlier(by: float) -> None:
    story = Story().up_to("graphs").quiet(47)
    kinds = judged_with_the_clock_set(story.play(120), 50, by)
    first = next(second for second, kind in kinds.items() if kind == "deadlock-silent")
    assert 50 + 15 <= first <= 50 + 60


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_a_run_is_still_the_same_process_after_the_clock_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: float
) -> None:
    began = proc.start_time(os.getpid())
    assert began is not None
    place = create(("true",), root=str(tmp_path))
    place.update(server=ProcessId(os.getpid(), began))
    later = proc.boot_time() + by
    for module in (proc, directory):
        monkeypatch.setattr(module, "boot_time", lambda: later)
    assert not proc.alive(os.getpid(), began), "by the time that was written down"
    file = place.read()
    assert file is not None and file.server is not None
    assert proc.alive(os.getpid(), file.server.start_time)
    monkeypatch.setattr(directory, "boot_id", lambda: "another start of the machine")
    file = place.read()
    assert file is not None and file.server is not None
    assert not proc.alive(os.getpid(), file.server.start_time)


# ----------------------------------------------------------------------------------------------------------------- pids

REUSE = """
import json, os, signal, subprocess, sys, time
from launchmon_agent.events import Run
from launchmon_agent.runs.handle import Handle
from launchmon_agent.runs.kill import Killer
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.processes import ProcessSensor

signalled = "import signal, sys, time\\nfor n in (1, 2, 15): signal.signal(n, lambda *_: print('hit', flush=True))\\n"
signalled += "print('up', flush=True)\\ntime.sleep(600)"
server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
began = proc.start_time(server.pid)
sensor = ProcessSensor(server.pid, began, session=server.pid)
sensor.sample(time.time(), None)
held = Handle.open(server.pid, began)
server.kill()
server.wait()
time.sleep(2)  # start times are told apart from a second and a half on
while True:
    with open("/proc/sys/kernel/ns_last_pid", "w") as last:
        last.write(str(server.pid - 1))
    stranger = subprocess.Popen([sys.executable, "-c", signalled], stdout=subprocess.PIPE, start_new_session=True)
    if stranger.pid == server.pid:
        break
    stranger.kill()
    stranger.wait()
stranger.stdout.readline()
killer = Killer(Run(0.0, id="x", pid=server.pid, start_time=began, launched=True), grace_s=0.5)
plan = killer.plan()
result = killer.run(lambda *_: None, force=True)
seen = sensor.sample(time.time(), None)
print(json.dumps({
    "same pid": stranger.pid == server.pid, "opened": Handle.open(server.pid, began) is not None,
    "held is gone": held.is_gone(), "sent": held.send(signal.SIGTERM), "alive": proc.alive(server.pid, began),
    "planned": len(plan.processes), "killed": len(result.killed), "leftovers": result.leftovers,
    "sampled": [one.pid for one in seen.processes],
    "exits": [one.pid == server.pid for one in sensor.vanished(time.time())],
    "stranger lives": stranger.poll() is None, "stopped": proc.stat(stranger.pid).state in "tT",
}))
stranger.kill()
print(stranger.stdout.read().decode(), end="")
"""


@needs_root
def test_a_stranger_that_gets_the_pid_of_the_server_is_left_alone(tmp_path: Path) -> None:
    assert in_a_pid_namespace(REUSE) == {
        "same pid": True,
        "opened": False,
        "held is gone": True,
        "sent": False,
        "alive": False,
        "planned": 0,
        "killed": 0,
        "leftovers": [],
        "sampled": [],
        "exits": [True],
        "stranger lives": True,
        "stopped": False,
    }


# ----------------------------------------------------------------------------------------------------------- the driver

QUESTIONS = (
    *("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage"),
    *("nvmlDeviceGetTemperature", "nvmlDeviceGetClockInfo", "nvmlDeviceGetName", "nvmlDeviceGetUUID"),
    *("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetPcieThroughput", "*"),
)
ERRORS = {"unknown": 999, "lost": 15, "not supported": 3, "no permission": 4, "reset needed": 16, "timeout": 10}


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    pytest.importorskip("pynvml")
    try:
        load()
    except NoCompiler as missing:
        pytest.skip(str(missing))
    script = FakeNvml(tmp_path)
    monkeypatch.setenv(SCRIPT_VARIABLE, str(script.path))
    return script


@pytest.mark.parametrize("error", ERRORS)
def test_whatever_the_driver_answers_to_whichever_question_the_other_gpus_have_their_values(
    nvml: FakeNvml, error: str
) -> None:
    for question in QUESTIONS:
        sensor = GpuSensor()
        nvml.script("gpu all util 50", f"gpu 2 error {question} {ERRORS[error]}")
        for second in range(3):
            found = sensor.sample(1000.0 + second)
            others = [gpu for gpu in found.gpus if gpu.index != 2]
            assert [gpu.util_percent for gpu in others] == [50.0] * 7, question
        nvml.script("gpu all util 50")
        assert len(sensor.sample(2000.0).gpus) >= 7, "and it is asked again"


@pytest.mark.parametrize("calls", range(12))
def test_a_gpu_that_is_lost_at_any_call_is_shown_without_values_and_never_with_old_ones(
    nvml: FakeNvml, calls: int
) -> None:
    sensor = GpuSensor()
    nvml.script("gpu all util 50")
    sensor.sample(1000.0)
    nvml.script("gpu all util 60", f"gpu 5 lost {calls}")
    for second in range(1, 3):
        found = sensor.sample(1000.0 + second)
    lost = [gpu for gpu in found.gpus if gpu.index == 5]
    assert not lost or (lost[0].util_percent, lost[0].memory_used) == (None, None)
    assert [gpu.util_percent for gpu in found.gpus if gpu.index != 5] == [60.0] * 7


# ---------------------------------------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    "fault", ["none", "rotated", "truncated", "replaced", "deleted", "fifo", "directory", "locked"]
)
def test_what_befalls_the_log_is_said_and_no_line_that_is_there_is_passed_over(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "server.log"
    number, writer = 0, path.open("ab", buffering=0)
    engine = LogEngine(FileSource(str(path)), MarkScanner(), owner_of)
    now, problem = 1000.0, None

    def write(count: int) -> None:
        nonlocal number
        for _ in range(count):
            writer.write(b"line %d\n" % number)
            number += 1

    def poll() -> None:
        nonlocal now, problem
        for _ in range(12):
            now += 1.0
            problem = next((one.error for one in reversed(engine.poll(now)) if isinstance(one, Log)), problem)

    write(50)
    poll()
    match fault:
        case "rotated":
            path.rename(tmp_path / "server.log.1")
            write(5)
            poll()
            writer, number = path.open("ab", buffering=0), 0
        case "truncated":
            os.truncate(path, 0)
            number = 0
        case "replaced":
            path.unlink()
            writer, number = path.open("ab", buffering=0), 0
        case "deleted":
            path.unlink()
        case "fifo" | "directory":
            path.unlink()
            os.mkfifo(path) if fault == "fifo" else path.mkdir()
        case "locked":
            path.chmod(0o000)
    write(30)
    poll()
    lines = engine.window(0, 0, 400).lines
    Witness(tmp_path).assert_whole("".join(line.text + "\n" for line in lines))
    assert len(lines) == number
    said = {"deleted": "was deleted or moved", "fifo": "not a regular file", "directory": "not a regular file"}
    assert (problem is None) == (fault not in said) and said.get(fault, "") in (problem or "")
    engine.close()
    writer.close()


def test_a_line_of_ten_megabytes_is_shown_cut_and_the_lines_behind_it_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"line 0\n" + b"x" * 10_000_000 + b"\nline 1\nline 2\n")
    engine = LogEngine(FileSource(str(path)), MarkScanner(), owner_of)
    while engine.behind:
        engine.poll(1000.0)
    shown = engine.window("end", 4, 0).lines
    assert [line.text for line in (shown[0], *shown[2:])] == ["line 0", "line 1", "line 2"]
    assert len(shown[1].text) < 20_000 and shown[1].text.endswith("… +9995904 bytes")
    engine.close()


def test_five_hundred_ranks_are_judged_and_told_in_few_words() -> None:
    story = Story(tp=500, gpus=False).up_to("dist-init").quiet(17)
    story.rank("TP317", 17, tree_cpu_percent=100.0, cpu_percent=100.0, state="R")
    played = story.play(20)
    assert len(played.model.rank_rows()) == 500
    assert all(len(verdict.summary) < 200 for _, verdict in played.verdicts)
    assert not {kind for kind in played.kinds if kind.startswith("deadlock") or kind == "crashed"}


def test_metrics_of_ten_megabytes_cost_no_more_than_their_beginning() -> None:
    body = b"sglang:num_running_reqs 3\n" + b"# filler\n" * 1_200_000
    with peer(says(b"HTTP/1.1 200 OK\r\n\r\n" + body)) as one:
        sensor = HttpSensor(os.getpid(), one.port, "127.0.0.1", "0.5.23", None, lambda _pid: True, metrics=True)
        found = sensor.sample(1000.0)
        assert found.listening and found.ours
        assert found.running == 3
