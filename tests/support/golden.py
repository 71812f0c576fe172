"""Makes the run directory that this version leaves behind: ``python -m tests.support.golden``.

It goes below ``tests/recordings/versions``, named by the version, once for each release. A test holds every later
version to reading it. A demo with two ranks is launched, dumped when it is ready, and killed.
"""

from __future__ import annotations

import getpass
import gzip
import os
import shutil
import socket
import sys
from pathlib import Path

from launchmon.demo.scenarios import demo_command
from launchmon_agent import __version__
from launchmon_agent.machine import boot_id
from launchmon_agent.runs.directory import RunDirectory
from tests.support.fault_rig import fault_rig
from tests.support.ports import free_port
from tests.support.waiting import until

VERSIONS = Path(__file__).parents[1] / "recordings" / "versions"
ROOT = Path(__file__).parents[2]


def main() -> None:
    with fault_rig() as rig, rig.agent() as agent:
        argv, env = demo_command("healthy", free_port(), speed=8.0)
        run = agent.ask("launch", argv=[*argv, "--tp", "2"], env=dict(env), name="golden")
        place = RunDirectory(os.path.join(rig.root, run["id"]))
        agent.wait_for(lambda one: one.get("kind") == "verdict" and one.get("verdict") == "ready")
        agent.ask("dump")
        agent.ask("kill")
        until(lambda: b'"stopped"' in Path(place.events).read_bytes())
        target = VERSIONS / __version__ / place.id
        shutil.rmtree(target.parent, ignore_errors=True)
        target.mkdir(parents=True)
        private = {str(rig.home): "/home/user/rig", sys.prefix: "/opt/venv", str(ROOT): "/opt/launchmon"}
        private |= {socket.gethostname(): "gpu7", f"/{getpass.getuser()}/": "/user/"}
        private |= {boot_id() or "-": "00000000-0000-0000-0000-000000000000"}
        for name in ("run.json", "server.log", "phases.json", "events.jsonl"):
            data = Path(place.path, name).read_text()
            for old, new in private.items():
                data = data.replace(old, new)
            if name == "events.jsonl":  # the older half as a closed part
                lines = data.splitlines(keepends=True)
                first, data = "".join(lines[: len(lines) // 2]), "".join(lines[len(lines) // 2 :])
                (target / "events-0001.jsonl.gz").write_bytes(gzip.compress(first.encode(), mtime=0))
            (target / name).write_text(data)
        print(target)


if __name__ == "__main__":
    main()
