"""Asking the tmux servers of this machine. Whatever goes wrong (no tmux, no such pane, no answer) is no answer."""

from __future__ import annotations

import socket as sockets
import subprocess

ANSWER_S = 3.0


def listens(socket: str) -> bool:
    """Whether a server is there. One that was killed leaves its socket behind, and tmux takes its time to find out."""
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM | sockets.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(socket)
        except BlockingIOError:
            return True  # so many wait to be heard that there is no room for one more
        except OSError:
            return False
    return True


def ask(socket: str, *arguments: str) -> str | None:
    """What ``tmux -S SOCKET …`` prints; None where it fails."""
    try:
        done = subprocess.run(
            ["tmux", "-S", socket, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
