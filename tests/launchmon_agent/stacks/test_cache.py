"""A program that a client sent: where it is kept, and what is not believed to be it."""

from __future__ import annotations

import hashlib
import os
import zlib
from pathlib import Path

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.stacks import cache

PROGRAM = b'#!/bin/sh\n[ "$1" = --version ] && exit 0\nexit 1\n'


def name_of(program: bytes, version: str = "0.4.1") -> str:
    return f"py-spy-{version}-x86_64-{hashlib.sha256(program).hexdigest()}"


def keep(folder: Path, program: bytes = PROGRAM, version: str = "0.4.1") -> str:
    return cache.keep(name_of(program, version), zlib.compress(program), [str(folder)])


def test_a_program_is_kept_for_its_user_alone_and_found_again(tmp_path: Path) -> None:
    path = Path(keep(tmp_path / "new" / "launchmon"))
    assert path.read_bytes() == PROGRAM and os.access(path, os.X_OK)
    assert path.parent.stat().st_mode & 0o777 == 0o700 and path.stat().st_mode & 0o077 == 0
    assert list(cache.kept([str(path.parent)])) == [str(path)]
    assert cache.runs(str(path))


def test_another_version_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    keep(tmp_path / "c", version="0.4.0")
    stranger = tmp_path / "c" / "notes"
    stranger.touch()
    newer = keep(tmp_path / "c", PROGRAM + b"#\n", version="0.4.1")
    assert sorted(tmp_path.joinpath("c").iterdir()) == sorted([stranger, Path(newer)])


def test_a_program_that_was_changed_or_cut_is_not_used(tmp_path: Path) -> None:
    path = Path(keep(tmp_path / "c"))
    path.write_bytes(PROGRAM[:-1])
    assert list(cache.kept([str(path.parent)])) == []


@pytest.mark.parametrize("mode", [0o750, 0o707, 0o777])
def test_a_folder_that_others_may_enter_is_not_trusted(tmp_path: Path, mode: int) -> None:
    path = Path(keep(tmp_path / "c"))
    path.parent.chmod(mode)
    assert list(cache.kept([str(path.parent)])) == []


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    keep(tmp_path / "true")
    (tmp_path / "link").symlink_to(tmp_path / "true")
    assert list(cache.kept([str(tmp_path / "link")])) == []
    with pytest.raises(Refused, match="no place for py-spy"):
        keep(tmp_path / "link")


def test_the_next_place_serves_where_the_first_does_not(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folders = [str(tmp_path / "file" / "launchmon"), str(tmp_path / "b")]
    assert cache.keep(name_of(PROGRAM), zlib.compress(PROGRAM), folders).startswith(f"{tmp_path}/b/")


def test_a_program_that_does_not_run_here_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        keep(tmp_path / "c", b"\x7fELF of another machine")
    assert "does not run there" in refused.value.cause
    assert list((tmp_path / "c").iterdir()) == []


@pytest.mark.parametrize("name", ["py-spy", "../py-spy-1-x-" + "0" * 64, "py-spy-1-x86_64-" + "0" * 63, "x" * 200])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="no name of a py-spy"):
        cache.keep(name, zlib.compress(PROGRAM), [str(tmp_path)])


@pytest.mark.parametrize("packed", [b"", b"not zlib", zlib.compress(PROGRAM)[:-5], zlib.compress(PROGRAM + b"#")])
def test_what_is_damaged_is_refused_and_leaves_nothing(tmp_path: Path, packed: bytes) -> None:
    with pytest.raises(Refused, match="damaged"):
        cache.keep(name_of(PROGRAM), packed, [str(tmp_path / "c")])
    assert not (tmp_path / "c").exists()


def test_what_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LARGEST", 1000)
    with pytest.raises(Refused, match="damaged"):
        cache.keep(name_of(PROGRAM), zlib.compress(bytes(10**6)), [str(tmp_path / "c")])


def test_the_places_in_their_order() -> None:
    own = f"launchmon-{os.geteuid()}"
    everything = {"XDG_CACHE_HOME": "/c", "XDG_RUNTIME_DIR": "/r", "TMPDIR": "/t", "HOME": "/h"}
    assert cache.places(everything) == [
        "/c/launchmon", "/r/launchmon", f"/dev/shm/{own}", f"/t/{own}", f"/tmp/{own}",
    ]  # fmt: skip
    odd = {"XDG_CACHE_HOME": "relative", "XDG_RUNTIME_DIR": "", "TMPDIR": "odd place"}
    assert cache.places(odd)[-2:] == [f"/dev/shm/{own}", f"/tmp/{own}"]
    assert all(os.path.isabs(path) for path in cache.places(odd))


def test_a_program_that_another_threads_child_holds_open_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_bytes(Path("/bin/true").read_bytes())
    program.chmod(0o700)
    held = os.open(program, os.O_WRONLY)
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            os.close(held)

    monkeypatch.setattr(cache.time, "sleep", sleep)
    assert cache.runs(str(program))
    assert waited[:3] == [0.05] * 3  # and those of the subprocess module
