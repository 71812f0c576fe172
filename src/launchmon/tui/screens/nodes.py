"""The main screen over a run on several nodes: the same, and a key for the logs of the others."""

from __future__ import annotations

from typing import ClassVar

from launchmon.actions import in_scope
from launchmon.cluster.session import ClusterSession
from launchmon.config import Config
from launchmon.ladder import Ladder
from launchmon.tui.bindings import bindings
from launchmon.tui.panels.footer import FooterBar
from launchmon.tui.screens.run import RunScreen


class NodesScreen(RunScreen):
    """Shows the log of one node at a time."""

    SCOPES = ("run", "nodes", "panel", "paging")
    BINDINGS = bindings("nodes")
    HELP: ClassVar[str] = (
        f"{RunScreen.HELP} The run is on several nodes: ranks and GPUs are those of all, with their node; the log is "
        "that of one, named in its title."
    )

    def __init__(
        self,
        session: ClusterSession,
        ladder: Ladder,
        config: Config = Config(),  # noqa: B008  (frozen)
    ) -> None:
        super().__init__(session, ladder, config)
        self._cluster = session
        self._footer = FooterBar(in_scope("run", "nodes", "app"))

    def action_log_node(self) -> None:
        self.log_panel.show_another(self._cluster.show_next_log)
