"""The command line: one module per verb. Only the verbs that draw import Textual, and only when they run."""

from __future__ import annotations

import sys

import click

from launchmon import __version__
from launchmon.cli import (
    attach,
    config,
    demo,
    diagnose,
    doctor,
    dump,
    kill,
    launch,
    relaunch,
    replay,
    report,
    runs,
    wait,
)
from launchmon.cli.common import EXIT_INTERRUPTED, EXIT_REFUSED, Verbs, complain
from launchmon.cli.harmless import guard_streams
from launchmon.cli.showing import complain_of_configuration, setting_options
from launchmon.cli.streams import open_closed_streams
from launchmon_agent.errors import Refused

EPILOG = """\b
Start here:
  launchmon demo seed              a simulated launch that dead-locks
  launchmon launch -- python -m sglang.launch_server --model-path M --tp 8
  launchmon                        pick a run found on this machine
  launchmon diagnose --json        one look, for scripts

Shell completion:
  eval "$(_LAUNCHMON_COMPLETE=bash_source launchmon)"     (or zsh_source, fish_source)
"""


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, message="launchmon %(version)s")
@setting_options
@click.pass_context
def root(context: click.Context) -> None:
    """Keep this open beside an SGLang launch: its phases, ranks and GPUs, and what is going on.

    Without a verb: shows the runs found on this machine to pick from. A run that launchmon starts goes on when
    launchmon is closed; a run that it attaches to is only watched, until you press a key that says otherwise.
    """
    complain_of_configuration()
    if context.invoked_subcommand is None:
        attach.pick_and_attach()


for verb in (
    launch.command,
    attach.command,
    diagnose.command,
    wait.command,
    dump.command,
    kill.command,
    relaunch.command,
    runs.command,
    replay.command,
    report.command,
    demo.command,
    config.command,
    doctor.command,
):
    root.add_command(verb)


def main() -> None:
    """Entry point. Ends with 1 when something was refused, 2 for wrong usage, 130 when interrupted."""
    open_closed_streams()
    guard_streams()
    try:
        root(prog_name="launchmon", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(EXIT_INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except Refused as refused:
        complain(refused)
        sys.exit(EXIT_REFUSED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
