"""SSH, by asyncssh, which takes half a second to import: what needs it is imported when a connection is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launchmon.connect import Asker

if TYPE_CHECKING:
    from launchmon.connect.ssh.channel import SshChannel


async def open_channel(spec: str, command: str, asker: Asker) -> SshChannel:
    """Log in as the person's ``ssh`` would, and run ``command`` by the login shell. Raises :class:`Refused`."""
    from launchmon.connect.ssh import channel

    return await channel.open_channel(spec, command, asker)
