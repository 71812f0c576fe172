"""Commands that a refusal suggests are for the targets that the verb was given."""

from __future__ import annotations

import click
import pytest

from launchmon.cli.common import Verbs, targets
from launchmon_agent.errors import Refused


@click.group(cls=Verbs)
def root() -> None: ...


@root.command("ask")
@targets
@click.argument("suggestion")
def ask(suggestion: str) -> None:
    raise Refused("nothing here", "", suggestion)


@pytest.mark.parametrize(
    ("options", "suggestion", "said"),
    [
        ((), "launchmon attach --pid 7", "launchmon attach --pid 7"),
        (("--on", "gpu7"), "launchmon attach --pid 7", "launchmon attach --on gpu7 --pid 7"),
        (("--on", "a", "--on", "b"), "launchmon runs", "launchmon runs --on a --on b"),
        (("--via", "docker exec -i s"), "launchmon runs", "launchmon runs --via 'docker exec -i s'"),
        (("--on", "gpu7"), "launchmon attach --on gpu8", "launchmon attach --on gpu8"),
        (("--slurm", "42"), "launchmon runs", "launchmon runs --slurm 42"),
        (("--slurm", "42", "--on", "login"), "launchmon runs", "launchmon runs --on login --slurm 42"),
        (("--slurm", "42"), "launchmon attach --slurm 42_1", "launchmon attach --slurm 42_1"),
        (("--on", "gpu7"), "nvidia-smi", "nvidia-smi"),
        (("--on", "gpu7"), "", ""),
        (("--on", "gpu7"), "launchmon", "launchmon"),
    ],
)
def test_a_suggested_verb_names_the_targets(options: tuple[str, ...], suggestion: str, said: str) -> None:
    with pytest.raises(Refused) as refused:
        root(["ask", *options, suggestion], standalone_mode=False)
    assert (refused.value.what, refused.value.try_) == ("nothing here", said)
