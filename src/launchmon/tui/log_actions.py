"""What a person can do with the log, as methods of a screen that has a log panel. The rows are in ``actions``."""

from __future__ import annotations

from launchmon.tui.panels.log import LogPanel


class LogActions:
    """For a screen whose :attr:`log_panel` is the log."""

    log_panel: LogPanel

    def show_log(self) -> None:
        """Have the log on the screen, also where another panel has its place."""
        raise NotImplementedError

    def _log(self) -> LogPanel:
        """The log, where it can be seen: what an action on it does is seen nowhere else."""
        self.show_log()
        return self.log_panel

    def action_search(self) -> None:
        self._log().ask("search")

    def action_search_back(self) -> None:
        self._log().ask("search-back")

    def action_search_next(self) -> None:
        self._log().find_next(True)

    def action_search_previous(self) -> None:
        self._log().find_next(False)

    def action_error_next(self) -> None:
        self._log().next_error(True)

    def action_error_previous(self) -> None:
        self._log().next_error(False)

    def action_error_first(self) -> None:
        self._log().first_error()

    def action_traceback_next(self) -> None:
        self._log().next_traceback()

    def action_log_phase_next(self) -> None:
        self._log().next_phase(True)

    def action_log_phase_previous(self) -> None:
        self._log().next_phase(False)

    def action_go_to(self) -> None:
        self._log().ask("go")

    def action_filter(self) -> None:
        self._log().next_rank()

    def action_filter_rank(self, key: str) -> None:
        self._log().nth_rank(int(key))

    def action_filter_level(self) -> None:
        self._log().next_level()

    def action_filter_text(self) -> None:
        self._log().ask("only")

    def action_bookmark(self) -> None:
        self._log().toggle_bookmark()

    def action_bookmark_next(self) -> None:
        self._log().next_bookmark(True)

    def action_bookmark_previous(self) -> None:
        self._log().next_bookmark(False)

    def action_point_up(self) -> None:
        self._log().point(-1)

    def action_point_down(self) -> None:
        self._log().point(1)

    def action_copy_lines(self) -> None:
        self._log().copy()

    def action_copy_bookmarks(self) -> None:
        self._log().copy_bookmarks()

    def action_fold_ranks(self) -> None:
        self._log().toggle_fold()

    def action_wrap(self) -> None:
        self._log().toggle_wrap()

    def action_raw(self) -> None:
        self._log().toggle_raw()

    def action_pager(self) -> None:
        self._log().open_in_pager()

    def action_pan_left(self) -> None:
        self._log().pan(-1)

    def action_pan_right(self) -> None:
        self._log().pan(1)
