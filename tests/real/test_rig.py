"""The rig itself: the real server starts and serves, and afterwards nothing of it is left."""

from __future__ import annotations

import json
import urllib.request

import psutil
import pytest

from tests.real.rig import Rig

pytestmark = [pytest.mark.real, pytest.mark.timeout(500)]


def test_one_rank_gets_ready_serves_and_is_ended(rig: Rig) -> None:
    server = rig.start()
    server.wait_ready()
    ranks = server.ranks()
    assert list(ranks) == ["TP0"]

    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/model_info", timeout=10) as answer:
        assert json.load(answer)["model_path"] == str(rig.model())

    mine = rig.processes()
    assert {server.pid, *ranks.values()} <= {process.pid for process in mine}
    rig.end()
    assert [process for process in mine if process.is_running() and process.status() != psutil.STATUS_ZOMBIE] == []
    server.process.wait(10)
