"""The GPUs of this machine, each second.

Every question is asked of each GPU only as often as its answer is worth, and not again once a GPU has said that it will
never answer: on virtual, unified-memory and MIG devices that is most of them. A driver that is missing or broken is
tried again from time to time, since it may be loaded later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Protocol

from launchmon_agent.events import Gpu, GpuProcess, Gpus
from launchmon_agent.sensors.nvml import Failed, Lost, Nvml, Unavailable, Unsupported
from launchmon_agent.sensors.simulated import SimulatedGpus

RETRY_S = 30.0
"""Between attempts to start NVML, and to reach a GPU that was lost."""

SLOW_S = 5.0
"""Between questions whose answers change rarely: power limit, throttle reasons, ECC errors."""

_PCIE_TURNS = 3
"""PCIe throughput makes the driver measure for 20 ms a direction; so one GPU a sample, each at most every third."""

_SM_CLOCK = 1
_TEMPERATURE_GPU = 0
_UNCORRECTED, _VOLATILE = 1, 0
_PCIE_TX, _PCIE_RX = 0, 1
_MEMORY_V2 = 0x02000028
"""The structure version that nvml.h's nvmlMemory_v2 stands for: used without what the driver reserves."""

_THROTTLE = (
    # bits of nvml.h that slow a GPU down; "idle" and "application clocks" are no trouble
    (0x04, "power cap"),
    (0x08, "hardware slowdown"),
    (0x20, "thermal (software)"),
    (0x40, "thermal (hardware)"),
    (0x80, "power brake"),
)


class _Source(Protocol):
    def sample(self, now: float) -> Gpus: ...
    def close(self) -> None: ...


class GpuSensor:
    """All GPUs. :meth:`sample` may block as long as the driver does: call it from a thread that nothing waits for."""

    def __init__(self, simulated: str | None = None) -> None:
        """``simulated``: path of the file that :mod:`.simulated` reads instead of asking a driver."""
        self._source: _Source = _NvmlGpus() if simulated is None else SimulatedGpus(simulated)
        self._memory: dict[int, tuple[float, int]] = {}  # index → (time, used) of the sample before

    def sample(self, now: float) -> Gpus:
        """Never raises. Without GPUs ``error`` says why; a single one's trouble is in its own ``error``."""
        found = self._source.sample(now)
        return dataclasses.replace(found, gpus=tuple(self._with_slope(gpu, now) for gpu in found.gpus))

    def close(self) -> None:
        self._source.close()

    def _with_slope(self, gpu: Gpu, now: float) -> Gpu:
        before = self._memory.pop(gpu.index, None)
        if gpu.memory_used is None:
            return gpu
        self._memory[gpu.index] = (now, gpu.memory_used)
        if before is None or now <= before[0] or gpu.memory_slope is not None:
            return gpu
        return dataclasses.replace(gpu, memory_slope=(gpu.memory_used - before[1]) / (now - before[0]))


class _NvmlGpus:
    def __init__(self) -> None:
        self._nvml: Nvml | None = None
        self._error = ""
        self._retry_at: float | None = None
        self._driver: str | None = None
        self._devices: list[_Device] = []
        self._turn = 0

    def sample(self, now: float) -> Gpus:
        try:
            nvml = self._started(now)
            self._turn = (self._turn + 1) % max(len(self._devices), _PCIE_TURNS)
            gpus = tuple(device.sample(nvml, now, pcie=device.index == self._turn) for device in self._devices)
        except Unavailable as unavailable:
            self._give_up(str(unavailable), now)
            return Gpus(at=now, source="none", error=self._error)
        error = None if gpus else "the NVIDIA driver is there, and reports no GPU"
        return Gpus(at=now, source="nvml", driver=self._driver, error=error, gpus=gpus)

    def close(self) -> None:
        if self._nvml is not None:
            self._nvml.close()
            self._nvml = None

    def _started(self, now: float) -> Nvml:
        if self._nvml is not None:
            return self._nvml
        if self._retry_at is not None and now < self._retry_at <= now + RETRY_S:
            raise Unavailable(self._error)
        self._retry_at = None
        nvml = Nvml()
        self._nvml = nvml
        self._driver = _text(_or_none(nvml, "SystemGetDriverVersion"))
        count = _or_none(nvml, "DeviceGetCount")
        if count is None:
            raise Unavailable("the NVIDIA driver has started and does not say which GPUs there are")
        self._devices = [_Device(index) for index in range(count)]
        return nvml

    def _give_up(self, error: str, now: float) -> None:
        self.close()
        self._error = error
        if self._retry_at is None:
            self._retry_at = now + RETRY_S


class _Device:
    """One GPU: what is fixed, what it refuses to say, and when to ask the rest again."""

    def __init__(self, index: int) -> None:
        self.index = index
        self._handle: Any = None
        self._known = Gpu(index)  # fixed and slowly changing values
        self._refused: set[str] = set()
        self._slow_at: float | None = None
        self._lost_at: float | None = None

    def sample(self, nvml: Nvml, now: float, *, pcie: bool) -> Gpu:
        """Raises :class:`Unavailable` only."""
        if self._lost_at is not None and 0 <= now - self._lost_at < RETRY_S:
            return self._known
        try:
            if self._handle is None:
                self._open(nvml)
            return self._read(nvml, now, pcie)
        except (Lost, Failed, Unsupported) as error:
            self._handle, self._slow_at, self._lost_at = None, None, now
            self._known = Gpu(
                self.index, uuid=self._known.uuid, name=self._known.name, pci=self._known.pci, error=str(error)
            )
            return self._known

    def _open(self, nvml: Nvml) -> None:
        self._handle = nvml.ask("DeviceGetHandleByIndex", self.index)
        self._lost_at = None
        self._refused.clear()
        pci = self._ask(nvml, "DeviceGetPciInfo")
        self._known = Gpu(
            self.index,
            uuid=_text(self._ask(nvml, "DeviceGetUUID")),
            name=_text(self._ask(nvml, "DeviceGetName")),
            pci=_text(getattr(pci, "busId", None)),
        )

    def _read(self, nvml: Nvml, now: float, pcie: bool) -> Gpu:
        if self._slow_at is None or not 0 <= now - self._slow_at < SLOW_S:
            self._slow_at = now
            self._read_slow(nvml)
        if pcie:
            tx = self._ask(nvml, "DeviceGetPcieThroughput", _PCIE_TX)
            rx = self._ask(nvml, "DeviceGetPcieThroughput", _PCIE_RX)
            self._known = dataclasses.replace(self._known, pcie_tx_bps=_kilo(tx), pcie_rx_bps=_kilo(rx))
        memory = self._ask(nvml, "DeviceGetMemoryInfo", _MEMORY_V2) or self._ask(nvml, "DeviceGetMemoryInfo")
        total = _within(getattr(memory, "total", None), 1, 1 << 60)
        rates = self._ask(nvml, "DeviceGetUtilizationRates")
        return dataclasses.replace(
            self._known,
            memory_used=_within(getattr(memory, "used", None), 0, total or 0),
            memory_total=total,
            util_percent=_within(getattr(rates, "gpu", None), 0, 100),
            memory_util_percent=_within(getattr(rates, "memory", None), 0, 100),
            power_w=_milli(self._ask(nvml, "DeviceGetPowerUsage")),
            temperature_c=_within(self._temperature(nvml), -50, 200),
            sm_clock_mhz=_within(self._ask(nvml, "DeviceGetClockInfo", _SM_CLOCK), 0, 20_000),
            processes=_processes(self._running(nvml), total),
        )

    def _read_slow(self, nvml: Nvml) -> None:
        reasons = self._ask(nvml, "DeviceGetCurrentClocksEventReasons")
        if reasons is None:  # named so until driver 535
            reasons = self._ask(nvml, "DeviceGetCurrentClocksThrottleReasons")
        self._known = dataclasses.replace(
            self._known,
            power_limit_w=_milli(self._ask(nvml, "DeviceGetEnforcedPowerLimit")),
            throttle=tuple(name for bit, name in _THROTTLE if (reasons or 0) & bit),
            ecc_uncorrected=_within(
                self._ask(nvml, "DeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE), 0, (1 << 63) - 1
            ),
        )

    def _temperature(self, nvml: Nvml) -> int | None:
        value = self._ask(nvml, "DeviceGetTemperatureV", _TEMPERATURE_GPU)
        if value is None:  # on drivers before 560; the older function is to go with CUDA 14
            value = self._ask(nvml, "DeviceGetTemperature", _TEMPERATURE_GPU)
        return value if isinstance(value, int) else None

    def _running(self, nvml: Nvml) -> Iterable[Any]:
        listed = self._ask(nvml, "DeviceGetComputeRunningProcesses_v3")
        if listed is None:  # on drivers before 510
            listed = self._ask(nvml, "DeviceGetComputeRunningProcesses_v2")
        return listed or ()

    def _ask(self, nvml: Nvml, function: str, *arguments: Any) -> Any:
        """None: not known this time, or never. Raises :class:`Lost` and :class:`Unavailable`."""
        question = f"{function}{arguments}"
        if question in self._refused:
            return None
        try:
            return nvml.ask(function, self._handle, *arguments)
        except Unsupported:
            self._refused.add(question)
            return None
        except Failed:
            return None


def _or_none(nvml: Nvml, function: str) -> Any:
    try:
        return nvml.ask(function)
    except (Failed, Unsupported, Lost):
        return None


def _processes(listed: Iterable[Any], total: int | None) -> tuple[GpuProcess, ...]:
    """With MIG one pid may be there once per instance: its memory is added up."""
    memory: dict[int, int | None] = {}
    for one in listed:
        used = _within(one.usedGpuMemory, 0, total or (1 << 60))  # 2^64 - 1 stands for "not available"
        before = memory.get(one.pid)
        memory[one.pid] = used if before is None else before + (used or 0)
    return tuple(GpuProcess(pid, used) for pid, used in sorted(memory.items()))


def _within(value: Any, least: int, most: int) -> int | None:
    """None for what cannot be: the driver's marks for "not available", and nonsense seen on broken devices."""
    return value if isinstance(value, int) and least <= value <= most else None


def _milli(value: Any) -> float | None:
    milliwatts = _within(value, 0, 100_000_000)
    return None if milliwatts is None else milliwatts / 1000


def _kilo(value: Any) -> float | None:
    kilobytes = _within(value, 0, (1 << 32) - 2)
    return None if kilobytes is None else kilobytes * 1024.0


def _text(value: Any) -> str | None:
    """nvidia-ml-py gives bytes or str by release."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value if isinstance(value, str) and value else None
