"""The process that a link is made of, for tests to cut: ``python link_process.py DIRECTORY COMMAND…``.

It runs COMMAND and passes bytes on, both ways. Its number is in ``DIRECTORY/pid``: killed, it is a link that was cut;
stopped, one that fell silent. While ``DIRECTORY/down`` exists there is no way to the target.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path


class LinkProcess:
    """The test's hold on it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def prefix(self) -> str:
        """For ``--via``."""
        return shlex.join([sys.executable, str(Path(__file__).resolve()), str(self.directory)])

    def down(self) -> None:
        (self.directory / "down").touch()

    def up(self) -> None:
        (self.directory / "down").unlink()

    def is_there(self) -> bool:
        """Something has come through it."""
        return (self.directory / "used").exists()

    def cut(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def freeze(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    @property
    def _pid(self) -> int:
        return int((self.directory / "pid").read_text())


def main() -> None:
    directory, command = Path(sys.argv[1]), sys.argv[2:]
    if (directory / "down").exists():
        sys.exit("ssh: connect to host gpu7 port 22: No route to host")
    (directory / "pid").write_text(str(os.getpid()))
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdin is not None and child.stdout is not None
    inwards = threading.Thread(target=_pass_on, args=(0, child.stdin.fileno()), daemon=True)
    inwards.start()
    _pass_on(child.stdout.fileno(), 1, directory / "used")
    sys.exit(child.wait())


def _pass_on(source: int, target: int, sign: Path | None = None) -> None:
    """``sign`` is made once the other side has said something long: more than a hello."""
    passed = 0
    try:
        while data := os.read(source, 65536):
            passed += len(data)
            if sign is not None and passed > 4096:
                sign.touch()
            view = memoryview(data)
            while view:
                view = view[os.write(target, view) :]
    except OSError:
        pass
    finally:
        os.close(target)


if __name__ == "__main__":
    main()
