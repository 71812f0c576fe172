"""README and docs: every command in them is one that launchmon takes, every page is found from the index."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from launchmon.cli import root
from launchmon.tui.panels.verdict import KINDS
from launchmon_agent.sglang.rail import RAIL
from tests.support.reference_phases import MEANS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]

ENDS = {"|", "||", "&&", ";", ">", ">>", "<"}
"""What ends a command in a shell."""

INLINE = re.compile(r"`(launchmon(?: [^`]*)?)`")


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of each ``launchmon …`` in a page: in its code blocks, and in its sentences between backquotes."""
    fenced = False
    for line in re.sub(r" \\\n +", " ", text).splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            stripped = re.sub(r"^(\$|sudo) ", "", line.strip())
            if re.match(r"launchmon( [a-z-]|$)", stripped):
                yield arguments(re.split(r" {3,}", stripped)[0])
        else:
            for found in INLINE.findall(line):
                yield arguments(found)


def arguments(command: str) -> list[str]:
    """Those of the command itself, up to a pipe or a comment."""
    optional = re.sub(r"\[[^]\s]*\]", "", command.replace("\\|", "|"))  # as in attach [RUN]
    lexer = shlex.shlex(optional, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words = list(lexer)
    end = next((place for place, word in enumerate(words) if word in ENDS), len(words))
    return words[1:end]


def refusal(args: list[str]) -> str | None:
    """Why the command line would not be taken; None where it would. Nothing is run."""
    try:
        with root.make_context("launchmon", list(args), resilient_parsing=False) as context:
            name, verb, rest = root.resolve_command(context, [*context._protected_args, *context.args])
            assert name is not None and verb is not None
            verb.make_context(name, rest, parent=context)
    except click.exceptions.Exit:
        return None  # --help, --version
    except click.ClickException as error:
        return error.format_message()
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_is_one_that_launchmon_takes(page: Path) -> None:
    wrong = []
    for args in commands(page.read_text()):
        if len(args) == 1 and args[0] in root.commands:
            continue  # the verb is named, not called
        if args and "VERB" not in args[:3]:
            told = refusal(args)
            if told is not None:
                wrong.append(f"launchmon {' '.join(args)}: {told}")
    assert wrong == []


def test_wrong_commands_are_noticed() -> None:
    page = (
        "Say `launchmon atach`, or\n    launchmon runs --jsn | jq .   # no\n    launchmon demo \\\n      seed    yes\n"
    )
    found = list(commands(page))
    assert found == [["atach"], ["runs", "--jsn"], ["demo", "seed"]]
    assert [refusal(args) is None for args in found] == [False, False, True]


def test_every_page_is_found_from_the_readme() -> None:
    found, new = set[Path](), {ROOT / "README.md"}
    while new:
        found |= new
        linked = {
            (page.parent / name).resolve()
            for page in new
            for name in re.findall(r"\]\(([\w./-]+\.md)", page.read_text())
        }
        new = linked - found
    assert set(DOCS.glob("*.md")) - found == set()


def test_every_link_to_a_heading_finds_it() -> None:
    for page in PAGES:
        for name, heading in re.findall(r"\]\(([\w./-]*\.md)?#([\w-]+)\)", page.read_text()):
            target = page if not name else page.parent / name
            anchors = [_anchor(line) for line in target.read_text().splitlines() if line.startswith("#")]
            assert heading in anchors, f"{page.name}: {name}#{heading}"


def _anchor(line: str) -> str:
    return re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower()).replace(" ", "-")


def test_every_phase_is_explained() -> None:
    assert set(MEANS) == set(RAIL)


def test_every_kind_of_verdict_is_explained() -> None:
    section = (DOCS / "verdicts.md").read_text().partition("\n## The kinds\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]+`) \|", section, re.MULTILINE)
    assert {kind for cell in cells for kind in re.findall(r"`([\w-]+)`", cell)} == set(KINDS)


def test_the_readme_lists_every_verb() -> None:
    table = (ROOT / "README.md").read_text().partition("| verb |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `launchmon (\w+)", table, re.MULTILINE)) == set(root.commands)
