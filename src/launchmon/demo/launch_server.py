"""``python -m launchmon.demo.launch_server``: the simulated server.

The spawned children import this module again under another name, so nothing heavy is imported at its top.
"""

from __future__ import annotations

import sys
import traceback


def run_server(argv: list[str]) -> int:
    """The exit status; a server that is killed by its own failure does not return."""
    from launchmon.demo import options
    from launchmon.demo.engine import launcher, log

    chosen = options.parse(argv)
    log.Logger().info(f"{log.SIMULATED} (scenario {chosen.scenario.name}: {chosen.scenario.title})")
    try:
        return launcher.launch_server(chosen)
    except KeyboardInterrupt:
        traceback.print_exc()
        return 1  # as SGLang's, and not the interpreter's own death by SIGINT


if __name__ == "__main__":
    sys.exit(run_server(sys.argv[1:]))
