"""Which tmux servers are asked."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from launchmon_agent import output, tmux


def test_a_socket_on_which_nobody_listens_is_known_without_tmux(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    assert not tmux.listens(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        assert not tmux.listens(path)
        server.listen()
        assert tmux.listens(path)
    assert not tmux.listens(path), "left behind"
    (tmp_path / "file").touch()
    assert not tmux.listens(str(tmp_path / "file"))
    assert not tmux.listens("/x" * 200)


def test_a_server_that_takes_nobody_any_more_is_there(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as waiting:
        server.bind(path)
        server.listen(0)
        waiting.connect(path)
        assert tmux.listens(path)


def test_only_servers_that_are_there_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / f"tmux-{os.geteuid()}"
    folder.mkdir()
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    asked: list[str] = []
    monkeypatch.setattr(tmux, "ask", lambda path, *_: asked.append(path))
    with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as alive:
        dead.bind(str(folder / "dead"))
        alive.bind(str(folder / "alive"))
        alive.listen()
        assert output.tmux_panes() == []
    assert [path for path in asked if path.startswith(str(folder))] == [str(folder / "alive")]
