"""A person's own themes: read from a directory, and again whenever one of them is changed there."""

from __future__ import annotations

from pathlib import Path

from textual.theme import Theme

from launchmon.tui.theme import ThemeError, load

Stamp = tuple[str, int, int]


class OwnThemes:
    """:meth:`changed` reads what is new since it was called last. It looks at names and times alone, so often is cheap.

    A theme that is deleted stays until launchmon ends: the screen may be wearing it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: frozenset[Stamp] = frozenset()

    def changed(self) -> tuple[list[Theme], list[str]]:
        """The themes that were added or changed, and what is wrong with those that cannot be used."""
        stamps = frozenset(self._stamps())
        new = {name for name, *_ in stamps - self._known}
        self._known = stamps
        themes: list[Theme] = []
        problems: list[str] = []
        for name in sorted(new):
            try:
                themes.append(load(self._directory / name))
            except ThemeError as error:
                problems.append(str(error))
        return themes, problems

    def _stamps(self) -> list[Stamp]:
        found: list[Stamp] = []
        try:
            for path in self._directory.glob("*.toml"):
                status = path.stat()
                found.append((path.name, status.st_mtime_ns, status.st_size))
        except OSError:  # no directory, or a file that was deleted meanwhile: the next look will tell
            pass
        return found
