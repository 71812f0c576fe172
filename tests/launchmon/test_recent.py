from __future__ import annotations

import json
from pathlib import Path

import pytest

from launchmon import recent
from launchmon.connect.target import LOCAL, ssh, via


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


def targets(environment: dict[str, str]) -> list[object]:
    return [one.target for one in recent.load(environment)]


def test_the_newest_comes_first_and_each_once(environment: dict[str, str]) -> None:
    assert targets(environment) == []
    for where in (ssh("one"), via("docker exec -i sgl"), LOCAL, ssh("one"), ssh("two")):
        recent.remember(where, environment)
    assert targets(environment) == [ssh("two"), ssh("one"), via("docker exec -i sgl")]


def test_only_so_many_are_kept(environment: dict[str, str]) -> None:
    for number in range(recent.MOST + 5):
        recent.remember(ssh(f"gpu{number}"), environment)
    found = targets(environment)
    assert len(found) == recent.MOST
    assert found[0] == ssh(f"gpu{recent.MOST + 4}")


def test_only_its_owner_can_read_it_and_no_draft_is_left(environment: dict[str, str]) -> None:
    recent.remember(ssh("gpu7"), environment)
    file = Path(recent.path(environment))
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert list(file.parent.iterdir()) == [file]


def test_a_draft_that_could_not_be_finished_is_not_left_either(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("os.replace", full)
    recent.remember(ssh("gpu7"), environment)
    assert list(Path(recent.path(environment)).parent.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[" * 100_000, "\xff", '[1, null, {"kind": "ssh"}, {"kind": "ssh", "spec": "-oX", "at": 1}]',
     '[{"kind": "local", "spec": "x", "at": 1}, {"kind": "ssh", "spec": "a\\u001b[31m", "at": 1}]'],
)  # fmt: skip
def test_what_cannot_be_understood_is_passed_over_and_replaced(environment: dict[str, str], text: str) -> None:
    file = Path(recent.path(environment))
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="latin-1")
    assert targets(environment) == []
    recent.remember(ssh("gpu7"), environment)
    assert [row["spec"] for row in json.loads(file.read_text())] == ["gpu7"]


def test_where_nothing_can_be_written_nothing_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment = {"XDG_STATE_HOME": str(tmp_path / "file")}
    recent.remember(ssh("gpu7"), environment)
    assert targets(environment) == []
