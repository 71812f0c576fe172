"""Recordings read from files, whatever a file may hold."""

from __future__ import annotations

import errno
import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest

from launchmon.replay import files
from launchmon.replay.files import read_lines, run_directory
from launchmon_agent.codec import decode
from launchmon_agent.errors import Refused
from launchmon_agent.events import Notice


def line(text: str) -> bytes:
    return b'{"kind":"notice","at":1.0,"text":"%s"}\n' % text.encode()


def archive(path: Path, name: str, data: bytes, kind: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size, member.type = (len(data), kind) if kind == tarfile.REGTYPE else (0, kind)
        tar.addfile(member, io.BytesIO(data))
    return path


def test_a_plain_and_a_compressed_file(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(line("a") + line("b"))
    with gzip.open(tmp_path / "one.jsonl.gz", "wb") as file:
        file.write(line("c"))
    assert read_lines(str(tmp_path / "events.jsonl")) == [line("a"), line("b")]
    assert read_lines(str(tmp_path / "one.jsonl.gz")) == [line("c")]


def test_a_directory_is_read_in_order_one_file_of_each_part(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(line("newest"))
    (tmp_path / "events-0002.jsonl").write_bytes(line("second"))
    (tmp_path / "events-0001.jsonl").write_bytes(line("doubled"))
    for name, text in (("events-0001.thin.jsonl.gz", "first"), ("events-0001.jsonl.gz", "doubled")):
        with gzip.open(tmp_path / name, "wb") as file:
            file.write(line(text))
    assert read_lines(str(tmp_path)) == [line("first"), line("second"), line("newest")]


def test_the_archive_of_a_report(tmp_path: Path) -> None:
    path = archive(tmp_path / "report.tar.gz", "report/events.jsonl", line("a"))
    assert read_lines(str(path)) == [line("a")]


@pytest.mark.parametrize("name", ["report/other.jsonl", "report/events.jsonl/x"])
def test_an_archive_without_a_recording_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="holds no recording"):
        read_lines(str(archive(tmp_path / "report.tar.gz", name, line("a"))))


def test_a_link_in_an_archive_is_not_followed(tmp_path: Path) -> None:
    path = archive(tmp_path / "report.tar.gz", "report/events.jsonl", b"", tarfile.SYMTYPE)
    with pytest.raises(Refused, match="holds no recording"):
        read_lines(str(path))


@pytest.mark.parametrize("name", ["x.tar.gz", "x.jsonl.gz"])
def test_a_damaged_file_is_refused_in_words(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"this is no archive")
    with pytest.raises(Refused, match="nothing of this recording can be read"):
        read_lines(str(tmp_path / name))


def damaged(path: Path, data: bytes) -> Path:
    """Compressed, and cut off within its last block."""
    whole = gzip.compress(data)
    path.write_bytes(whole[:-12])
    return path


def test_of_a_damaged_file_what_can_be_read_is_read_and_the_rest_is_told(tmp_path: Path) -> None:
    lines = [b'{"kind":"notice","at":%d.5,"text":"%d"}\n' % (number, number) for number in range(20_000)]
    (tmp_path / "events.jsonl").write_bytes(line("newest"))
    damaged(tmp_path / "events-0001.jsonl.gz", b"".join(lines))
    (tmp_path / "events-0002.jsonl.gz").write_bytes(b"nothing that was compressed")
    alone = read_lines(str(tmp_path / "events-0001.jsonl.gz"))
    readable = len(alone) - 1
    assert 0 < readable < len(lines) and alone[:-1] == lines[:readable]
    told = decode(alone[-1])
    assert isinstance(told, Notice) and (told.at, told.source) == (readable - 0.5, "recording")
    assert f"events-0001.jsonl.gz can be read up to its line {readable}:" in told.text

    found = read_lines(str(tmp_path))
    assert found[: readable + 1] == alone and found[-1] == line("newest") and len(found) == readable + 3
    told = decode(found[-2])
    assert isinstance(told, Notice) and told.text.startswith("events-0002.jsonl.gz cannot be read:")


def test_damage_at_the_beginning_is_told_at_the_time_of_what_follows(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(line("newest"))
    (tmp_path / "events-0001.jsonl.gz").write_bytes(b"nothing that was compressed")
    first, second = read_lines(str(tmp_path))
    assert (decode(first).at, second) == (1.0, line("newest"))


def test_a_directory_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(files.os, "listdir", refuse)  # root may read any
    with pytest.raises(Refused, match="cannot be read") as refused:
        read_lines(str(tmp_path))
    assert refused.value.cause == "Permission denied"


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="there is no"):
        read_lines(str(tmp_path / "nothing.jsonl"))
    with pytest.raises(Refused, match="holds no recording"):
        read_lines(str(tmp_path))


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST", 1000)
    with gzip.open(tmp_path / "x.jsonl.gz", "wb") as file:
        file.write(line("a" * 100) * 100)
    with pytest.raises(Refused, match="too large"):
        read_lines(str(tmp_path / "x.jsonl.gz"))


def test_a_file_of_a_run_leads_to_its_directory(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(line("a"))
    assert run_directory(str(tmp_path / "events.jsonl")) is None
    (tmp_path / "run.json").write_text("{}")
    assert run_directory(str(tmp_path / "events.jsonl")) == str(tmp_path)
    assert run_directory(str(tmp_path)) == str(tmp_path)
    assert run_directory(str(tmp_path / "report.tar.gz")) is None
