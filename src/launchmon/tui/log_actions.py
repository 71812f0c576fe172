"""What a person can do with the log, as methods that a screen with a log panel has. The rows are in ``actions.py``."""

from __future__ import annotations

from launchmon.tui.panels.log import LogPanel


class LogActions:
    """For a screen whose :attr:`log_panel` is the log."""

    log_panel: LogPanel

    def action_search(self) -> None:
        self.log_panel.ask("search")

    def action_search_back(self) -> None:
        self.log_panel.ask("search-back")

    def action_search_next(self) -> None:
        self.log_panel.find_next(True)

    def action_search_previous(self) -> None:
        self.log_panel.find_next(False)

    def action_error_next(self) -> None:
        self.log_panel.next_error(True)

    def action_error_previous(self) -> None:
        self.log_panel.next_error(False)

    def action_error_first(self) -> None:
        self.log_panel.first_error()

    def action_traceback_next(self) -> None:
        self.log_panel.next_traceback()

    def action_log_phase_next(self) -> None:
        self.log_panel.next_phase(True)

    def action_log_phase_previous(self) -> None:
        self.log_panel.next_phase(False)

    def action_go_to(self) -> None:
        self.log_panel.ask("go")

    def action_filter(self) -> None:
        self.log_panel.next_rank()

    def action_filter_rank(self, key: str) -> None:
        self.log_panel.nth_rank(int(key))

    def action_filter_level(self) -> None:
        self.log_panel.next_level()

    def action_filter_text(self) -> None:
        self.log_panel.ask("only")

    def action_bookmark(self) -> None:
        self.log_panel.toggle_bookmark()

    def action_bookmark_next(self) -> None:
        self.log_panel.next_bookmark(True)

    def action_bookmark_previous(self) -> None:
        self.log_panel.next_bookmark(False)

    def action_point_up(self) -> None:
        self.log_panel.point(-1)

    def action_point_down(self) -> None:
        self.log_panel.point(1)

    def action_copy_lines(self) -> None:
        self.log_panel.copy()

    def action_copy_bookmarks(self) -> None:
        self.log_panel.copy_bookmarks()

    def action_fold_ranks(self) -> None:
        self.log_panel.toggle_fold()

    def action_wrap(self) -> None:
        self.log_panel.toggle_wrap()

    def action_raw(self) -> None:
        self.log_panel.toggle_raw()

    def action_pager(self) -> None:
        self.log_panel.open_in_pager()

    def action_pan_left(self) -> None:
        self.log_panel.pan(-1)

    def action_pan_right(self) -> None:
        self.log_panel.pan(1)
