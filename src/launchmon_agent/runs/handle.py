"""A hold on one process that no reuse of its pid can misdirect."""

from __future__ import annotations

import os
import select
import signal

from launchmon_agent.sensors import proc


class Handle:
    """A process by its pidfd (Linux 5.3+); where there is none, by pid and start time, checked before each signal."""

    def __init__(self, pid: int, start_time: float, pidfd: int | None) -> None:
        self.pid = pid
        self.start_time = start_time
        self.refused = False  # the kernel did not let us signal it
        self._pidfd = pidfd

    @classmethod
    def open(cls, pid: int, start_time: float) -> Handle | None:
        """None when the process of that start time is gone. A zombie can be opened."""
        pidfd: int | None
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        except (OSError, AttributeError):  # an old kernel, a strict seccomp filter, a Python built without it
            pidfd = None
        if not proc.same_process(pid, start_time):  # after opening: from here on the pidfd means this very process
            if pidfd is not None:
                os.close(pidfd)
            return None
        return cls(pid, start_time, pidfd)

    def is_gone(self) -> bool:
        """Whether it has ended with all its threads; a zombie has. Its memory and its ports are free then."""
        if self._pidfd is None:
            return not proc.alive(self.pid, self.start_time)
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def send(self, number: signal.Signals) -> bool:
        """False when it could not be sent: the process is gone, or another user's (then ``refused`` is set)."""
        try:
            if self._pidfd is not None:
                signal.pidfd_send_signal(self._pidfd, number)
            elif proc.alive(self.pid, self.start_time):
                os.kill(self.pid, number)
            else:
                return False
        except ProcessLookupError:
            return False
        except PermissionError:
            self.refused = True
            return False
        return True

    def close(self) -> None:
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
