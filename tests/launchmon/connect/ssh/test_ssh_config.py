from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from launchmon.connect.ssh import config
from launchmon.connect.ssh.config import Address, address, listed_hosts
from launchmon_agent.errors import Refused


@pytest.fixture
def ssh_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """``~/.ssh`` of a person on a machine without a configuration of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(config, "SYSTEM_FILE", str(tmp_path / "no-such-file"))
    directory = tmp_path / ".ssh"
    directory.mkdir()
    yield directory


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("gpu7", Address("gpu7")),
        ("root@gpu7", Address("gpu7", "root")),
        ("root@gpu7:2222", Address("gpu7", "root", 2222)),
        ("me@corp@gpu7", Address("gpu7", "me@corp")),
        ("ssh://root@gpu7:22", Address("gpu7", "root", 22)),
        ("[::1]:2222", Address("::1", None, 2222)),
        ("root@[fe80::1%eth0]", Address("fe80::1%eth0", "root")),
        ("fe80::1", Address("fe80::1")),
    ],
)
def test_an_address_is_taken_apart(spec: str, expected: Address) -> None:
    assert address(spec) == expected


@pytest.mark.parametrize(
    "spec",
    ["", "@gpu7", "root@", ":22", "gpu7:ssh", "gpu7:0", "gpu7:65536", "[::1", "[::1]22", "-oProxyCommand=x", "root@-x"],
)
def test_what_is_no_address_is_refused(spec: str) -> None:
    with pytest.raises(Refused, match=r"is not a host|no valid port"):
        address(spec)


def test_an_address_says_how_to_log_in_by_hand() -> None:
    assert address("gpu7").command == "ssh gpu7"
    assert address("root@gpu7:2222").command == "ssh -p 2222 root@gpu7"
    assert address("a;b@gpu7").command == "ssh 'a;b@gpu7'"


def test_hosts_are_listed_in_order_without_patterns(ssh_directory: Path) -> None:
    (ssh_directory / "config").write_text(
        'Host one two\n  HostName 10.0.0.1\nInclude more/*.conf\nhost=three\nHost *.lab !bad ? quoted "with space"\n'
        "Host two\n# Host commented\nMatch host four\nHost 'unbalanced\n"
    )
    more = ssh_directory / "more"
    more.mkdir()
    (more / "b.conf").write_text("Host included-b\n")
    (more / "a.conf").write_text("Host included-a\nInclude config\n")  # in a circle
    assert listed_hosts() == ["one", "two", "included-a", "included-b", "three", "quoted"]


def test_where_there_is_no_configuration_no_host_is_listed(ssh_directory: Path) -> None:
    assert config.files() == ()
    assert listed_hosts() == []
    assert not config.hashes_known_hosts()


@pytest.mark.parametrize(
    ("line", "expected"), [("HashKnownHosts yes", True), ("hashknownhosts=no", False), ("", False)]
)
def test_hashing_of_names_is_what_the_configuration_says_first(ssh_directory: Path, line: str, expected: bool) -> None:
    (ssh_directory / "config").write_text(f"Host x\n{line}\nHost y\n")
    assert config.hashes_known_hosts() is expected
