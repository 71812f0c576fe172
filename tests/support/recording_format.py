"""The part of docs/recording-format.md that lists every event and field, made from ``launchmon_agent/events/``.

    python -m tests.support.recording_format      writes it anew, after a change to events

A field's remark in the document is the comment behind it in the source. ``tests/test_recording_format.py`` fails while
the document differs.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import tokenize
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from launchmon_agent import events

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recording-format.md"
BEGIN = "<!-- events: made from launchmon_agent/events by: python -m tests.support.recording_format -->\n"
END = "<!-- end of events -->\n"

_NAMES = {"str": "string", "int": "integer", "float": "number", "bool": "true or false", "Any": "anything"}


def render() -> str:
    """All kinds in the order of the vocabulary, then the objects inside them."""
    parts: dict[str, type[Any]] = {}
    for cls in events.KINDS.values():
        parts.update(_nested(cls))
    out = ["\n## Kinds\n"]
    out += [_section(f"`{kind}`", cls) for kind, cls in events.KINDS.items()]
    out.append("\n## Objects inside events\n")
    out += [_section(name, cls) for name, cls in parts.items()]
    return "".join(out)


def _section(heading: str, cls: type[Any]) -> str:
    lines = [f"\n### {heading}\n\n"]
    if cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}("):  # dataclasses make up a docstring
        lines.append(_markdown(inspect.cleandoc(cls.__doc__)) + "\n\n")
    lines.append("| field | type | default | |\n|---|---|---|---|\n")
    for name, annotation, default, remark in _fields(cls):
        cells = (f"`{name}`", _type(annotation), default, _markdown(remark).replace("|", "\\|"))
        lines.append("| " + " | ".join(cells) + " |\n")
    return "".join(lines)


def _markdown(text: str) -> str:
    """A docstring or comment in the words of the document."""
    return text.replace("``", "`").replace("None", "null").replace("True", "true")


def _fields(cls: type[Any]) -> Iterator[tuple[str, ast.expr, str, str]]:
    """Name, annotation, default as JSON and remark of each field but ``at``, which every event has."""
    source = inspect.getsource(cls)
    comments = {
        token.start[0]: token.string.lstrip("# ").rstrip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    for node in definition.body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if not ast.unparse(node.annotation).startswith("ClassVar"):
            yield node.target.id, node.annotation, _default(node.value), comments.get(node.end_lineno or 0, "")


def _type(node: ast.expr) -> str:
    match node:
        case ast.BinOp(left=left, op=ast.BitOr()):
            return f"{_type(left)} or null"
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[item, *_])):
            return f"list of {_type(item)}"
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[_, value])):
            return f"object: name → {_type(value)}"
        case ast.Name(id=name):
            return _NAMES.get(name, name)
    raise ValueError(f"the document has no word for the type {ast.unparse(node)}")


def _default(node: ast.expr | None) -> str:
    match node:
        case None:
            return "required"
        case ast.Call():
            return "`{}`"
        case ast.Tuple(elts=[]):
            return "`[]`"
        case ast.Name(id="LAUNCHER"):
            return f'`"{events.LAUNCHER}"`'
        case ast.Constant(value=None):
            return "null"
        case ast.Constant(value=bool() as value):
            return f"`{str(value).lower()}`"
        case ast.Constant(value=str() as value):
            return f'`"{value}"`'
    return f"`{ast.unparse(node)}`"


def _nested(cls: type[Any]) -> dict[str, type[Any]]:
    """The dataclasses that occur in the fields of one, by name."""
    found: dict[str, type[Any]] = {}
    for hint in typing.get_type_hints(cls).values():
        for inner in (hint, *typing.get_args(hint)):
            if isinstance(inner, type) and dataclasses.is_dataclass(inner):
                found[inner.__name__] = inner
                found.update(_nested(inner))
    return found


def page(text: str) -> str:
    """The document with its generated part made anew."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE.name} has lost the lines between which the events are listed")
    return head + begin + render() + "\n" + end + tail


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
