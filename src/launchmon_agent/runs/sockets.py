"""Where a keeper's socket lies: a private directory that nobody else can have prepared."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import stat
from collections.abc import Mapping

from launchmon_agent.errors import Refused

_LONGEST = 107
"""Bytes of a Unix socket's path: ``sun_path`` of unix(7) is 108 with its closing zero."""


def socket_directory(environ: Mapping[str, str] | None = None, tmp: str = "/tmp") -> str:  # noqa: S108 - its owner is checked
    """A directory of mode 0700 that is ours, made if need be. Raises :class:`Refused`.

    ``$XDG_RUNTIME_DIR/launchmon`` where that variable names a directory of ours, else ``/tmp/launchmon-UID``. What is
    found at that place is used only if it is a true directory (no link), owned by us: in ``/tmp`` anyone may have put
    something there before.
    """
    environ = os.environ if environ is None else environ
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and _is_ours(runtime):
        path = os.path.join(runtime, "launchmon")
    else:
        path = os.path.join(tmp, f"launchmon-{os.geteuid()}")
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise Refused(f"{path} could not be made", error.strerror or str(error)) from error
    if not _is_ours(path):
        raise Refused(
            f"{path} is not a directory of this user",
            "someone else made it, or it is a link; a socket there could be listened to",
            f"ls -ld {path}    # have it removed, or set XDG_RUNTIME_DIR",
        )
    os.chmod(path, 0o700)
    return path


def socket_path(run: str, directory: str) -> str:
    """The socket of a run in that directory. ``run``: the run's own directory, by which the socket is named.

    The id alone would not do: in another state directory a run of the same second may have it too. Where the path grew
    too long there is only a digest.
    """
    digest = hashlib.sha256(os.fsencode(os.path.realpath(run))).hexdigest()
    path = os.path.join(directory, f"{os.path.basename(run)}-{digest[:8]}.sock")
    if len(os.fsencode(path)) > _LONGEST:
        path = os.path.join(directory, f"{digest[:16]}.sock")
    if len(os.fsencode(path)) > _LONGEST:
        raise Refused(
            f"{directory} is too long a path for a socket",
            f"the system allows {_LONGEST} bytes",
            "unset XDG_RUNTIME_DIR",
        )
    return path


def listen(path: str) -> socket.socket:
    """A socket at that path, which only this user may connect to. What a keeper that died left there is replaced.

    Raises :class:`Refused` where a keeper answers already, and where the file system has no sockets.
    """
    refuse_another(path)
    listener = socket.socket(socket.AF_UNIX)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen()
    except OSError as error:
        listener.close()
        raise Refused(
            f"there can be no socket at {path}",
            error.strerror or str(error),
            "set XDG_RUNTIME_DIR to a directory of a local file system",
        ) from error
    return listener


def refuse_another(path: str) -> None:
    """Raises :class:`Refused` where a keeper answers there: each run has one, also where locks do not work."""
    if answers(path):
        raise Refused("this run has a keeper", f"it answers at {path}; each run has one keeper", "launchmon attach")


def answers(path: str) -> bool:
    """Whether somebody listens there."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def _is_ours(path: str) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
