"""Which files of ``/dev/shm`` are a run's."""

from __future__ import annotations

from pathlib import Path

import pytest

from launchmon_agent.runs.leftovers import shm_left


@pytest.mark.parametrize(
    ("name", "its"),
    [
        ("sgl_shm_mq_4711_ab12", True),
        ("torch_4711_1234567_0", True),
        ("sgl_shm_mq_4712_ab12", False),
        ("sem.mp-4711_abc", False),  # eight random characters, whoever made it
        ("sem.mp-x_4711_a", False),
        ("4711", False),
    ],
)
def test_a_file_that_carries_the_pid_of_its_maker(name: str, its: bool, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"x")
    said = shm_left((), [4711], str(tmp_path))
    assert (said is not None and name in said) == its


def test_a_file_that_the_run_had_open_is_its_own_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "sem.mp-abcdefgh"
    path.write_bytes(b"x")
    assert str(path) in (shm_left([str(path), str(tmp_path / "gone")], [], str(tmp_path)) or "")
