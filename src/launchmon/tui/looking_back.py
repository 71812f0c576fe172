"""What a screen of a run does with its past: show it, and report it."""

from __future__ import annotations

import asyncio
import logging
import os

from textual import work
from textual.message import Message
from textual.screen import Screen

from launchmon.redact import told
from launchmon.replay.recorded import Recorded
from launchmon.replay.session import ReplaySession
from launchmon.report.archive import default_stem, free_stem, write
from launchmon.report.gather import gather
from launchmon.session_like import SessionLike
from launchmon_agent.errors import Refused

logger = logging.getLogger("launchmon.tui")


class LookBack(Message):
    """The run of a screen is to be shown as it was."""

    def __init__(self, replay: ReplaySession) -> None:
        super().__init__()
        self.replay = replay


class PastActions(Screen[None]):
    """For a screen whose :attr:`session` is the run's."""

    session: SessionLike

    def action_rewind(self) -> None:
        self._look_back()

    def action_report(self) -> None:
        self.notify("Collecting the report…", timeout=3)
        self._report()

    @work(group="look-back", exclusive=True, exit_on_error=False)
    async def _look_back(self) -> None:
        session = self.session
        try:
            lines = await session.recording()
            replay = await asyncio.to_thread(lambda: ReplaySession(Recorded(lines), session.target, session))
        except Refused as refusal:
            self._refuse("no past to look back on", refusal)
        except (ConnectionError, OSError) as error:
            self._refuse("no past to look back on", Refused(str(error)))
        else:
            self.post_message(LookBack(replay))

    @work(group="report", exclusive=True, exit_on_error=False)
    async def _report(self) -> None:
        try:
            material = await gather(self.session)
            stem = free_stem(default_stem(material))
            markdown, archive = await asyncio.to_thread(write, material, stem)
        except Refused as refusal:
            self._refuse("no report", refusal)
        except (ConnectionError, OSError) as error:
            self._refuse("no report", Refused(str(error)))
        else:
            hidden = "; ".join(told(material.redacted)) or "nothing was found to hide"
            self.notify(
                f"✓ Written where launchmon was started:\n{os.path.basename(markdown)}\n{os.path.basename(archive)}\n"
                f"hidden: {hidden}. Look through it before you share it.",
                timeout=20,
                markup=False,
            )

    def _refuse(self, what: str, refusal: Refused) -> None:
        logger.warning("%s: %s (%s)", what, refusal.what, refusal.cause)
        reason = f"{refusal.what} ({refusal.cause})" if refusal.cause else refusal.what
        self.notify(f"✗ {what}: {reason}", severity="error", timeout=10, markup=False)
