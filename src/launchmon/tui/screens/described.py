"""The base of a screen that explains itself: which actions work on it, and what it shows."""

from __future__ import annotations

from typing import ClassVar

from textual.screen import Screen


class DescribedScreen(Screen[None]):
    SCOPES: ClassVar[tuple[str, ...]] = ()
    """Scopes of the actions that work here, beside those of the app."""

    HELP: ClassVar[str] = ""
    """What it shows and how to read it, for the help screen."""

    async def action_page_on(self) -> None:
        await self.run_action("page_down")

    @property
    def focused_help(self) -> tuple[str, str]:
        """Name and help of the focused part of the screen; empty where there is nothing more to say."""
        for node in () if self.focused is None else self.focused.ancestors_with_self:
            text = getattr(node, "HELP", "")
            if node is not self and isinstance(text, str) and text and node.id:
                return node.id.rpartition("-")[2], text
        return "", ""
