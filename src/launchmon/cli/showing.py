"""What the verbs take from the configuration, and the screen that they open with it."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from launchmon.alert import VerdictCommand
from launchmon.cluster.session import AnySession
from launchmon.config import Effective, load
from launchmon.connect import Asker
from launchmon.replay.session import ReplaySession

if TYPE_CHECKING:
    from launchmon.tui.app import Outcome

F = TypeVar("F", bound=Callable[..., Any])

Prepare = Callable[[AnySession | ReplaySession], AnySession | ReplaySession]
"""Makes a session obey the configuration."""

_FLAGS = "launchmon.flags"
"""Where the context keeps the settings that were given by options, by name."""


def setting_options(function: F) -> F:
    """The options of the root command that set something for this time."""
    for option in (
        click.option("--theme", metavar="NAME", expose_value=False, callback=_keep_theme, help="How the screen looks."),
        click.option(
            "-c",
            "--config",
            multiple=True,
            expose_value=False,
            callback=_keep_pairs,
            metavar="NAME=VALUE",
            help="Set any setting for this time; launchmon config lists them. Repeatable.",
        ),
    ):
        function = option(function)
    return function


def effective(**flags: str | None) -> Effective:
    """The configuration in force for the verb that runs; ``flags``: settings by options of its own."""
    context = click.get_current_context(silent=True)
    kept = {} if context is None else context.meta.get(_FLAGS, {})
    return load(os.environ, {**kept, **{name: text for name, text in flags.items() if text is not None}})


def complain_of_configuration() -> None:
    """Each thing that is wrong with the configuration, on stderr. The verb goes on with the defaults."""
    for problem in effective().problems:
        click.echo(f"launchmon: {problem}", err=True)


def import_screen_meanwhile() -> None:
    """In a thread of its own, for a verb that will show it and has to wait for an agent before."""
    threading.Thread(target=importlib.import_module, args=("launchmon.tui.app",)).start()


def show(
    open_session: Callable[[Asker], Awaitable[AnySession]] | None,
    *,
    on_verdict: str | None = None,
    read_only: bool = False,
    **how: Any,
) -> Outcome:
    """Run the screen, as configured, until the person leaves it; ``how`` is for ``tui.app.run_app``.

    ``beginnings`` in it is made with what every session has to go through.

    A run that is killed at the end (``kill_on_exit``) is never read-only.
    """
    from launchmon.tui.app import run_app

    settings = effective(on_verdict=on_verdict, read_only="true" if read_only else None)
    attach = how.pop("attach", None)
    beginnings = how.pop("beginnings", None)

    def prepared(session: AnySession | ReplaySession) -> AnySession | ReplaySession:
        if isinstance(session, ReplaySession):
            return session  # what has passed is not told to anybody
        if settings.config.read_only and not how.get("kill_on_exit"):
            session.read_only = True
        if settings.config.on_verdict:
            VerdictCommand(session, settings.config.on_verdict)
        return session

    async def opened(asker: Asker) -> AnySession | ReplaySession:
        assert open_session is not None
        return prepared(await open_session(asker))

    async def attached(found: Any, asker: Asker) -> AnySession | ReplaySession:
        return prepared(await attach(found, asker))

    if beginnings is not None:
        how["beginnings"] = beginnings(prepared)
    return run_app(
        None if open_session is None else opened,
        attach=None if attach is None else attached,
        settings=settings,
        **how,
    )


def _keep_theme(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.meta.setdefault(_FLAGS, {})["theme"] = value


def _keep_pairs(context: click.Context, _: click.Parameter, values: tuple[str, ...]) -> None:
    for pair in values:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE")
        context.meta.setdefault(_FLAGS, {})[name.strip()] = value
