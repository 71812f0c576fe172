"""The machine: parsers on texts, the sensor on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from launchmon_agent.sensors import cgroup, mounts, proc
from launchmon_agent.sensors.cgroup import Group, GroupMemory, find
from launchmon_agent.sensors.host import MOUNTS_S, HostSensor, disk_bytes, net_bytes
from launchmon_agent.sensors.mounts import Mount, parse_mounts, type_of

MOUNTINFO = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684096k
60 27 0:50 / /mnt/models rw,relatime shared:5 - nfs4 10.0.0.1:/models rw,vers=4.2
61 60 0:51 / /mnt/models/hot\\040set rw - fuse.juicefs JuiceFS:x rw
62 27 0:52 / /mnt/models-old rw - xfs /dev/sdb1 rw
63 27 0:53 / /mnt/models-old rw - ext3 /dev/sdc1 rw
torn line
64 27 0:54 / /torn - ext4
"""


@pytest.mark.parametrize(
    "path, type_",
    [
        ("/mnt/models/llama", "nfs4"),
        ("/mnt/models", "nfs4"),
        ("/mnt/models/hot set/llama", "fuse.juicefs"),
        ("/mnt/models-old/x", "ext3"),  # the later one covers the earlier
        ("/mnt/models2", "ext4"),
        ("/", "ext4"),
        ("/dev/shm/x/y", "tmpfs"),
        ("relative", None),
    ],
)
def test_the_filesystem_of_a_path(path: str, type_: str | None) -> None:
    assert type_of(path, parse_mounts(MOUNTINFO)) == type_


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    assert mounts.resolve(f"{tmp_path}/link/not/yet") == f"{os.path.realpath(tmp_path)}/there/not/yet"


def test_a_link_that_takes_too_long_counts_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    hang, hold = os.pipe()
    monkeypatch.setattr(mounts, "RESOLVE_S", 0.01)
    monkeypatch.setattr(mounts.os.path, "realpath", lambda path: os.read(hang, 1))
    assert mounts.resolve("/nfs/dead") == "/nfs/dead"
    os.close(hold)


# --------------------------------------------------------------------------------------------------------------- disks

DISKSTATS = """\
   7       0 loop0 5 0 1000 0 0 0 0 0 0 0 0
 259       0 nvme0n1 10 0 2000 0 20 0 400 0 0 0 0 0 0 0 0 0 0
 259       1 nvme0n1p1 10 0 1900 0 20 0 300 0 0 0 0
   8       0 sda 1 0 16 0 1 0 8 0 0 0 0
   8       1 sda1 1 0 16 0 1 0 8 0 0 0 0
 253       0 dm-0 10 0 2000 0 20 0 400 0 0 0 0
   9       0 md127 10 0 2000 0 20 0 400 0 0 0 0
torn
"""


def test_physical_disks_count_once(tmp_path: Path) -> None:
    for disk in ("nvme0n1", "sda"):
        (tmp_path / disk / "device").mkdir(parents=True)
    (tmp_path / "dm-0").mkdir()
    assert disk_bytes(DISKSTATS, str(tmp_path)) == (2016 * 512, 408 * 512)
    assert disk_bytes(DISKSTATS, "/no/sysfs") == (2016 * 512, 408 * 512), "known by their names"
    assert disk_bytes("", str(tmp_path)) == (None, None)


DEV = """\
Inter-|   Receive                                              |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier
    lo: 9999 1 0 0 0 0 0 0 9999 1 0 0 0 0 0 0
  eth0:1000 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0
 bond0: 1500 1 0 0 0 0 0 0 150 1 0 0 0 0 0 0
  eth1: 500 1 0 0 0 0 0 0 50 1 0 0 0 0 0 0
docker0: 7 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0
"""  # fmt: skip


def test_physical_links_count_once(tmp_path: Path) -> None:
    for link in ("eth0", "eth1"):
        (tmp_path / link / "device").mkdir(parents=True)
    assert net_bytes(DEV, str(tmp_path)) == (1500, 150)
    container = "\n".join(line for line in DEV.splitlines() if "eth1" not in line and "bond" not in line)
    assert net_bytes(container, "/no/sysfs") == (1000, 100), "all but loopback and bridges"
    assert net_bytes("    lo: 9999 1 0 0 0 0 0 0 9999 1 0 0 0 0 0 0", "/no/sysfs") == (None, None)


# ------------------------------------------------------------------------------------------------------ control groups


def write(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")


def group(monkeypatch: pytest.MonkeyPatch, groups: str, *among: Mount) -> GroupMemory:
    monkeypatch.setattr(cgroup.proc, "read", lambda path: groups.encode() if path.endswith("/cgroup") else _read(path))
    monkeypatch.setattr(cgroup, "mounts", lambda: list(among))
    return Group(1).memory()


_read = proc.read


def test_version_2_takes_the_tightest_limit_on_the_way_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, memory__max="max")
    write(tmp_path / "pod", memory__max=1000, memory__current=900)
    write(tmp_path / "pod/server", memory__max="max", memory__current=800, memory__events="low 0\noom 3\noom_kill 2")
    mount = Mount(str(tmp_path), "cgroup2", "/", "rw")
    assert group(monkeypatch, "0::/pod/server", mount) == GroupMemory(1000, 900, 2)


def test_without_a_limit_use_is_the_processs_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a", memory__max="max", memory__current=800, memory__events="oom_kill 0")
    assert group(monkeypatch, "0::/a", Mount(str(tmp_path), "cgroup2", "/", "rw")) == GroupMemory(None, 800, 0)


def test_version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = 9223372036854771712
    write(tmp_path, memory__limit_in_bytes=unlimited, memory__usage_in_bytes=5000)
    write(tmp_path / "job", memory__limit_in_bytes=4096, memory__usage_in_bytes=100, memory__oom_control="oom_kill 7")
    mount = Mount(str(tmp_path), "cgroup", "/", "rw,memory")
    groups = "5:cpu,cpuacct:/x\n4:memory:/job\n0::/"
    assert group(monkeypatch, groups, Mount("/cpu", "cgroup", "/", "rw,cpu"), mount) == GroupMemory(4096, 100, 7)


def test_a_container_sees_its_part_of_the_tree(tmp_path: Path) -> None:
    inside = Mount("/sys/fs/cgroup", "cgroup2", "/docker/abc", "rw")
    assert find("0::/docker/abc/x", [inside]) == (2, ["/sys/fs/cgroup/x", "/sys/fs/cgroup"])
    assert find("0::/", [inside]) == (2, ["/sys/fs/cgroup"])
    assert find("0::/../../other", [inside]) == (2, ["/sys/fs/cgroup/other", "/sys/fs/cgroup"])


def test_no_control_group(monkeypatch: pytest.MonkeyPatch) -> None:
    assert group(monkeypatch, "") == GroupMemory(None, None, None)
    assert group(monkeypatch, "0::/gone", Mount("/nowhere", "cgroup2", "/", "rw")) == GroupMemory(None, None, None)


# ---------------------------------------------------------------------------------------------------------- the sensor


def test_this_machine(tmp_path: Path) -> None:
    sensor = HostSensor({"model": str(tmp_path), "cache": f"{tmp_path}/not/yet", "shm": "/dev/shm", "none": None})
    first, second = sensor.sample(100.0), sensor.sample(101.0)
    assert first.memory_total is not None and first.memory_available is not None
    assert 0 < first.memory_available <= first.memory_total
    assert first.swap_used is not None and first.swap_used >= 0
    assert first.load1 is not None
    assert first.cpus == os.cpu_count()
    assert first.cpu_percent is None, "a share needs two samples"
    assert second.disk_read_bps is None or second.disk_read_bps >= 0
    assert set(second.filesystems) == {"model", "cache", "shm"}
    assert second.filesystems["model"] == second.filesystems["cache"]
    assert second.filesystems["shm"] == "tmpfs"


def test_cpu_share_of_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = iter([b"cpu  100 0 100 700 100 0 0 0 50 0\n", b"cpu  175 0 125 900 100 0 0 0 50 0\n"])
    monkeypatch.setattr(proc, "read", lambda path, limit=None: next(lines) if path == "/proc/stat" else _read(path))
    sensor = HostSensor()
    assert sensor.sample(1.0).cpu_percent is None
    assert sensor.sample(2.0).cpu_percent == pytest.approx(100 * 100 / 300)


def test_mounts_are_looked_at_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    types = iter(["ext4", "nfs4"])
    monkeypatch.setattr("launchmon_agent.sensors.host.mounts", lambda: [Mount("/", next(types), "/", "rw")])
    sensor = HostSensor({"model": "/m"})
    assert sensor.sample(0.0).filesystems == {"model": "ext4"}
    assert sensor.sample(MOUNTS_S - 1).filesystems == {"model": "ext4"}
    assert sensor.sample(MOUNTS_S).filesystems == {"model": "nfs4"}


def test_a_machine_that_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "read", lambda path, limit=None: None)
    sensor = HostSensor({"model": "/m"})
    sensor.sample(1.0)
    found = sensor.sample(2.0)
    assert (found.memory_total, found.swap_used, found.load1, found.cpu_percent) == (None, None, None, None)
    assert (found.disk_read_bps, found.net_rx_bps, found.cgroup_memory_limit) == (None, None, None)
    assert found.filesystems == {}
