"""The GPU sensor on the real nvidia-ml-py over a fake libnvidia-ml.so.1, and on the demo's file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from launchmon_agent.events import Gpu, GpuProcess, Gpus
from launchmon_agent.sensors import nvml
from launchmon_agent.sensors.gpu import RETRY_S, SLOW_S, GpuSensor
from tests.support.fake_nvml import SCRIPT_VARIABLE, FakeNvml, NoCompiler, load

GB = 1 << 30
pytest.importorskip("pynvml")


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    try:
        load()
    except NoCompiler as missing:
        pytest.skip(str(missing))
    script = FakeNvml(tmp_path)
    monkeypatch.setenv(SCRIPT_VARIABLE, str(script.path))
    return script


@pytest.fixture
def sensor(fake: FakeNvml) -> GpuSensor:
    return GpuSensor()


def test_all_values_of_eight_gpus(fake: FakeNvml, sensor: GpuSensor) -> None:
    fake.script(
        "driver 570.12",
        f"gpu all memory_used {5 * GB}",
        "gpu 3 name NVIDIA H200",
        "gpu 3 uuid GPU-3",
        f"gpu 3 memory_used {70 * GB}",
        f"gpu 3 memory_total {140 * GB}",
        "gpu 3 util 97",
        "gpu 3 memory_util 41",
        "gpu 3 power_mw 650500",
        "gpu 3 power_limit_mw 700000",
        "gpu 3 temperature 66",
        "gpu 3 sm_clock 1980",
        "gpu 3 throttle 0x25",
        "gpu 3 ecc 2",
        "gpu 3 pcie_tx_kb 1000",
        "gpu 3 pcie_rx_kb 2000",
        f"gpu 3 process 4711 {69 * GB}",
        "gpu 3 process 4712 n/a",
    )
    for now in range(8):  # PCIe throughput is asked of one GPU a sample
        found = sensor.sample(float(now))
    assert (found.source, found.driver, found.error, found.at) == ("nvml", "570.12", None, 7.0)
    assert [gpu.index for gpu in found.gpus] == list(range(8))
    assert found.gpus[3] == Gpu(
        index=3,
        uuid="GPU-3",
        name="NVIDIA H200",
        pci="00000000:13:00.0",
        memory_used=70 * GB,
        memory_total=140 * GB,
        memory_slope=0.0,
        util_percent=97,
        memory_util_percent=41,
        power_w=650.5,
        power_limit_w=700.0,
        temperature_c=66,
        sm_clock_mhz=1980,
        throttle=("power cap", "thermal (software)"),
        ecc_uncorrected=2,
        pcie_rx_bps=2000 * 1024.0,
        pcie_tx_bps=1000 * 1024.0,
        processes=(GpuProcess(4711, 69 * GB), GpuProcess(4712, None)),
    )
    assert found.gpus[0].memory_used == 5 * GB


def test_the_slope_of_memory(fake: FakeNvml, sensor: GpuSensor) -> None:
    fake.script(f"gpu all memory_used {10 * GB}")
    assert sensor.sample(100.0).gpus[0].memory_slope is None
    fake.script(f"gpu all memory_used {14 * GB}")
    assert sensor.sample(102.0).gpus[0].memory_slope == 2 * GB
    fake.script(f"gpu all memory_used {13 * GB}")
    assert sensor.sample(103.0).gpus[0].memory_slope == -GB
    fake.script("gpu all error nvmlDeviceGetMemoryInfo_v2 999", "gpu all error nvmlDeviceGetMemoryInfo 999")
    assert sensor.sample(104.0).gpus[0].memory_slope is None
    fake.script(f"gpu all memory_used {13 * GB}")
    assert sensor.sample(105.0).gpus[0].memory_slope is None, "not over a gap"


def test_no_gpu(fake: FakeNvml, sensor: GpuSensor) -> None:
    fake.script("count 0")
    found = sensor.sample(1.0)
    assert (found.source, found.gpus) == ("nvml", ())
    assert found.error == "the NVIDIA driver is there, and reports no GPU"


# ------------------------------------------------------------------------------------------------ what is not supported


FIELDS = {
    "nvmlDeviceGetName": "name",
    "nvmlDeviceGetUUID": "uuid",
    "nvmlDeviceGetPciInfo_v3": "pci",
    "nvmlDeviceGetUtilizationRates": "util_percent",
    "nvmlDeviceGetPowerUsage": "power_w",
    "nvmlDeviceGetEnforcedPowerLimit": "power_limit_w",
    "nvmlDeviceGetClockInfo": "sm_clock_mhz",
    "nvmlDeviceGetTotalEccErrors": "ecc_uncorrected",
}


@pytest.mark.parametrize("code", [2, 3, 4, 13, 25])
@pytest.mark.parametrize("function", FIELDS)
def test_an_unsupported_question_is_none_and_asked_once(
    fake: FakeNvml, sensor: GpuSensor, tmp_path: Path, function: str, code: int
) -> None:
    log = tmp_path / "calls"
    fake.script(f"log {log}", f"gpu 2 error {function} {code}")
    for now in range(0, 40, 2):
        found = sensor.sample(float(now))
    assert getattr(found.gpus[2], FIELDS[function]) is None
    assert getattr(found.gpus[1], FIELDS[function]) is not None
    assert found.gpus[2].error is None
    assert Counter(log.read_text().splitlines())[f"{function} 2"] == 1


def test_a_passing_error_is_none_and_asked_again(fake: FakeNvml, sensor: GpuSensor) -> None:
    for code in (10, 20, 23, 999):
        fake.script(f"gpu 2 error nvmlDeviceGetPowerUsage {code}")
        assert sensor.sample(1.0).gpus[2].power_w is None
        fake.script("gpu 2 power_mw 90000")
        assert sensor.sample(2.0).gpus[2].power_w == 90.0


def test_a_device_that_answers_next_to_nothing(fake: FakeNvml, sensor: GpuSensor) -> None:
    fake.script("gpu 5 error * 3")
    found = sensor.sample(1.0)
    assert found.gpus[5] == Gpu(5, error=found.gpus[5].error)
    assert found.gpus[5].error is not None
    functions = (*FIELDS, "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetTemperature")
    others = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetPcieThroughput")
    fake.script(*(f"gpu 5 error {function} 3" for function in (*functions, *others)), "gpu 5 throttle 0x40")
    assert sensor.sample(2.0 + RETRY_S).gpus[5] == Gpu(5, throttle=("thermal (hardware)",)), "all else is not known"


@pytest.mark.parametrize(
    "newer, field",
    [
        ("nvmlDeviceGetMemoryInfo_v2", "memory_used"),
        ("nvmlDeviceGetTemperatureV", "temperature_c"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", "processes"),
        ("nvmlDeviceGetCurrentClocksEventReasons", "throttle"),
    ],
)
def test_older_drivers_have_older_functions(fake: FakeNvml, sensor: GpuSensor, newer: str, field: str) -> None:
    fake.script(f"gpu all error {newer} 13", "gpu all process 5 77", "gpu all throttle 4")
    assert getattr(sensor.sample(1.0).gpus[0], field)


def test_memory_leaves_out_what_the_driver_reserves(fake: FakeNvml, sensor: GpuSensor) -> None:
    fake.script(f"gpu all memory_used {GB}", f"gpu all memory_reserved {GB}")
    assert sensor.sample(1.0).gpus[0].memory_used == GB


# ------------------------------------------------------------------------------------------------------------- nonsense


@pytest.mark.parametrize(
    "line, field",
    [
        (f"memory_used {97 * GB}", "memory_used"),
        ("memory_used 0xffffffffffffffff", "memory_used"),
        ("memory_total 0", "memory_total"),
        ("util 101", "util_percent"),
        ("util 4294967295", "util_percent"),
        ("memory_util 200", "memory_util_percent"),
        ("power_mw 0xffffffff", "power_w"),
        ("power_limit_mw 0xffffffff", "power_limit_w"),
        ("temperature 255", "temperature_c"),
        ("temperature 0xffffff00", "temperature_c"),
        ("sm_clock 0xffffffff", "sm_clock_mhz"),
        ("ecc 0xffffffffffffffff", "ecc_uncorrected"),
    ],
)
def test_nonsense_is_not_shown(fake: FakeNvml, sensor: GpuSensor, line: str, field: str) -> None:
    fake.script(f"gpu 1 {line}")
    found = sensor.sample(1.0)
    assert getattr(found.gpus[1], field) is None
    assert getattr(found.gpus[0], field) is not None


def test_memory_of_processes(fake: FakeNvml, sensor: GpuSensor) -> None:
    fake.script(
        "gpu 0 process 7 n/a",
        f"gpu 0 process 8 {500 * GB}",  # more than there is
        "gpu 0 process 9 100",  # one pid in two MIG instances
        "gpu 0 process 9 200",
        "gpu 0 process 10 n/a",
        "gpu 0 process 10 5",
    )
    assert sensor.sample(1.0).gpus[0].processes == (
        GpuProcess(7, None),
        GpuProcess(8, None),
        GpuProcess(9, 300),
        GpuProcess(10, 5),
    )


def test_a_name_that_is_no_utf8(fake: FakeNvml, sensor: GpuSensor) -> None:
    fake.path.write_bytes(b"gpu 0 name \xff\xfe\xfd\n")
    found = sensor.sample(1.0)
    assert found.gpus[0].name is None
    assert found.gpus[0].util_percent == 0


# --------------------------------------------------------------------------------------------------------- GPUs that go


def test_a_gpu_falls_off_the_bus_and_the_others_go_on(fake: FakeNvml, sensor: GpuSensor) -> None:
    sensor.sample(1.0)
    fake.script("gpu all lost -1", "gpu 4 lost 3", "gpu all util 50")
    found = sensor.sample(2.0)
    lost = found.gpus[4]
    assert lost.error == "the GPU is lost: it has fallen off the bus, or the driver gave it up"
    assert (lost.index, lost.name, lost.pci) == (4, "NVIDIA Fake 96GB", "00000000:14:00.0"), "which one it was"
    assert (lost.memory_used, lost.util_percent, lost.processes) == (None, None, ())
    assert [gpu.util_percent for gpu in found.gpus] == [50, 50, 50, 50, None, 50, 50, 50]
    fake.script("gpu 4 util 7")
    assert sensor.sample(3.0).gpus[4].error == lost.error, "a lost GPU is not asked each second"
    assert sensor.sample(2.0 + RETRY_S).gpus[4].util_percent == 7


def test_a_gpu_that_is_lost_from_the_start(fake: FakeNvml, sensor: GpuSensor) -> None:
    fake.script("gpu 0 error * 15", "gpu 1 error * 16", "gpu 2 error nvmlDeviceGetHandleByIndex_v2 11")
    found = sensor.sample(1.0)
    assert [gpu.error is not None for gpu in found.gpus] == [True, True, True] + [False] * 5
    assert found.gpus[1].error == "the GPU needs a reset"


# ------------------------------------------------------------------------------------------------------------ no driver


@pytest.mark.parametrize(
    "code, words",
    [(9, "is not loaded"), (18, "differ in version"), (4, "refuses access"), (999, "NVML did not start")],
)
def test_a_driver_that_does_not_start_is_tried_again(fake: FakeNvml, sensor: GpuSensor, code: int, words: str) -> None:
    fake.script(f"init {code}")
    found = sensor.sample(100.0)
    assert (found.source, found.gpus) == ("none", ())
    assert found.error is not None and words in found.error
    fake.script("count 2")
    assert sensor.sample(101.0) == Gpus(101.0, source="none", error=found.error)
    assert sensor.sample(99.0 + RETRY_S).error == found.error
    found = sensor.sample(100.0 + RETRY_S)
    assert (found.source, found.error, len(found.gpus)) == ("nvml", None, 2)


def test_a_driver_that_goes_away_and_comes_back(fake: FakeNvml, sensor: GpuSensor) -> None:
    fake.script("gpu 0 error nvmlDeviceGetPowerUsage 3")
    assert sensor.sample(1.0).source == "nvml"
    fake.script("gpu all error nvmlDeviceGetUtilizationRates 9")
    found = sensor.sample(2.0)
    assert found.source == "none"
    assert found.error is not None and "not loaded" in found.error
    fake.script("")
    found = sensor.sample(2.0 + RETRY_S)
    assert found.source == "nvml"
    assert found.gpus[0].power_w == 85.0, "what the old driver refused, the new one is asked"


def test_a_driver_that_does_not_count(fake: FakeNvml, sensor: GpuSensor, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("pynvml.nvmlDeviceGetCount", lambda: 1 // 0)
        assert sensor.sample(1.0).source == "none"
    assert sensor.sample(1.0 + RETRY_S).source == "nvml"


def test_close_and_again(sensor: GpuSensor) -> None:
    assert sensor.sample(1.0).source == "nvml"
    sensor.close()
    sensor.close()
    assert sensor.sample(2.0).source == "nvml"


def child(code: str, env: dict[str, str]) -> str:
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


PRINT = "from launchmon_agent.sensors.gpu import GpuSensor; g = GpuSensor().sample(1.0); print(g.source, g.error)"


def test_without_the_package(tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise ImportError('no such thing')")
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:src"}
    assert child(PRINT, env) == "none nvidia-ml-py is not usable in the agent's interpreter: no such thing"


def test_without_the_library() -> None:
    broken = "import ctypes\ndef no(*a, **k): raise OSError\nctypes.CDLL = no\n"
    assert child(broken + PRINT, {**os.environ, "PYTHONPATH": "src"}) == (
        "none no NVIDIA driver here: libnvidia-ml.so.1 was not found"
    )


def test_a_child_process_sees_the_fake_too(fake: FakeNvml) -> None:
    fake.script("count 1")
    assert child(PRINT, {**fake.environment(), "PYTHONPATH": "src"}) == "nvml None"


def test_the_package_is_loaded_when_first_needed() -> None:
    code = "import sys; from launchmon_agent.sensors.gpu import GpuSensor; GpuSensor(); print('pynvml' in sys.modules)"
    assert child(code, {**os.environ, "PYTHONPATH": "src"}) == "False"


def test_a_package_that_lacks_a_function(fake: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("pynvml.nvmlDeviceGetTemperatureV")
    assert GpuSensor().sample(1.0).gpus[0].temperature_c == 41
    with pytest.raises(nvml.Unsupported):
        nvml.Nvml().ask("DeviceGetTemperatureV")


def test_slow_questions_are_asked_slowly(fake: FakeNvml, sensor: GpuSensor, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    fake.script(f"log {log}")
    samples = 20
    for now in range(samples):
        sensor.sample(float(now))
    calls = Counter(log.read_text().splitlines())
    slow = samples // int(SLOW_S)
    assert {name: calls[f"nvmlDeviceGet{name} 0"] for name in ("UtilizationRates", "PowerUsage")} == {
        "UtilizationRates": samples,
        "PowerUsage": samples,
    }
    for name in ("EnforcedPowerLimit", "CurrentClocksEventReasons", "TotalEccErrors"):
        assert calls[f"nvmlDeviceGet{name} 0"] == slow
    for name in ("Name", "UUID", "PciInfo_v3", "HandleByIndex_v2"):
        assert calls[f"nvmlDeviceGet{name} 0"] == 1
    assert calls["nvmlDeviceGetPcieThroughput 0"] <= 2 * (samples // 8 + 1)


# ------------------------------------------------------------------------------------------------------------ simulated


def test_simulated_gpus(tmp_path: Path) -> None:
    path = tmp_path / "gpus.json"
    sensor = GpuSensor(simulated=str(path))
    gpu = {
        "index": 1,
        "name": "Simulated 96GB",
        "memory_used": 5 * GB,
        "memory_total": 96 * GB,
        "util_percent": 3,
        "power_w": 85.5,
        "power_limit_w": 600,
        "temperature_c": 41,
        "sm_clock_mhz": 180,
        "processes": [{"pid": 7, "memory": 4 * GB}],
        "field_of_tomorrow": 1,
    }
    path.write_text(json.dumps({"gpus": [gpu]}))
    found = sensor.sample(10.0)
    assert (found.source, found.error) == ("simulated", None)
    assert found.gpus[0].processes == (GpuProcess(7, 4 * GB),)
    assert found.gpus[0].power_w == 85.5
    path.write_text(json.dumps({"gpus": [{**gpu, "memory_used": 6 * GB}]}))
    assert sensor.sample(12.0).gpus[0].memory_slope == GB / 2
    sensor.close()


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        '{"gpus": [{"index"',
        "[]",
        "{}",
        '{"gpus": 5}',
        '{"gpus": [5]}',
        '{"gpus": [{"index": "x"}]}',
        "\0" * 99,
    ],
)
def test_a_simulation_without_a_sound_file(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "gpus.json"
    if content is not None:
        path.write_text(content)
    found = GpuSensor(simulated=str(path)).sample(1.0)
    assert (found.source, found.gpus) == ("simulated", ())
    assert found.error
