"""Reads the flags out of SGLang's own source, by ``ast``: nothing of it is imported or run. Pure.

Three styles, as found in the releases 0.2.15 to 0.5.23:

1. up to 0.5.13: calls of ``parser.add_argument`` in ``srt/server_args.py``;
2. 0.5.14 to 0.5.19: fields of the ``ServerArgs`` dataclass annotated ``A[T, "help"]`` or ``A[T, Arg(…)]``, and a few
   calls;
3. from 0.5.20: the same annotations on classes in ``srt/arg_groups/fields/*.py``, and a few calls for deprecated names.

How an annotation becomes an option is that of ``add_cli_args_from_dataclass`` in ``srt/arg_groups/arg_utils.py``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from launchmon_agent.sglang.flags.model import MAYBE, SWITCH, VALUE, VALUES, Flag, merged
from launchmon_agent.sglang.flags.values import Names, NotKnown

MAIN = "srt/server_args.py"
FIELDS = "srt/arg_groups/fields"
CONSTANTS = ("srt/arg_groups/choices.py",)
"""What is to be read, below the package ``sglang``: MAIN, all ``*.py`` in FIELDS, and CONSTANTS, where they exist."""

FEWEST = 30
"""Flags below which a source was surely not understood: the smallest release has 54."""


class NotUnderstood(ValueError):
    """The source does not declare flags in a way that is known."""


def parse(sources: Mapping[str, str]) -> tuple[Flag, ...]:
    """``sources``: path below the package → text. Raises :class:`NotUnderstood`."""
    modules = {}
    for path, text in sources.items():
        try:
            modules[path] = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise NotUnderstood(f"{path}: {error}") from None
    names = Names()
    for module in modules.values():
        names.learn(module)
    reader = _Reader(names)
    found = [flag for path, module in modules.items() if path.startswith(FIELDS) for flag in reader.fields(module)]
    if MAIN in modules:
        found += reader.fields(modules[MAIN])
        found += reader.calls(modules[MAIN])
    flags = merged(found)
    if len(flags) < FEWEST:
        raise NotUnderstood(f"only {len(flags)} flags were found")
    return flags


class _Reader:
    def __init__(self, names: Names) -> None:
        self._names = names

    # ----------------------------------------------------------------------------------------------------------- calls

    def calls(self, module: ast.Module) -> Iterator[Flag]:
        """Flags of ``….add_argument("--x", …)``."""
        for node in _add_argument_calls(module):
            names = [self._known(argument) for argument in node.args]
            options = tuple(name for name in names if isinstance(name, str) and name.startswith("--"))
            if options:
                yield self._of_call(options, {word.arg: word.value for word in node.keywords if word.arg})

    def _of_call(self, options: tuple[str, ...], words: Mapping[str, ast.expr]) -> Flag:
        action = _action(words.get("action"), self._known(words.get("action")))
        text = self._text(words.get("help"))
        return Flag(
            name=options[0],
            aliases=options[1:],
            takes=_takes(action, self._known(words.get("nargs")), "nargs" in words),
            type=None if _is_switch(action) else _type_name(words.get("type"), "str"),
            default=self._default(words.get("default"), "False" if _is_switch(action) else "None"),
            choices=self._choices(words.get("choices")),
            help=text,
            negatable=action == "BooleanOptionalAction",
            deprecated=action.startswith("Deprecated") or "deprecated" in text[:60].lower(),
            instead=self._text(words.get("new_flag")) or None,
        )

    # ---------------------------------------------------------------------------------------------------------- fields

    def fields(self, module: ast.Module) -> Iterator[Flag]:
        """Flags of the annotated fields of the classes in a module."""
        for owner in module.body:
            if isinstance(owner, ast.ClassDef):
                for statement in owner.body:
                    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                        flag = self._of_field(statement.target.id, statement.annotation, statement.value)
                        if flag is not None:
                            yield flag

    def _of_field(self, name: str, annotation: ast.expr, default: ast.expr | None) -> Flag | None:
        """None: the field has no option."""
        if not _is_subscript(annotation, "A", "Annotated"):
            return None
        assert isinstance(annotation, ast.Subscript)
        parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        words = next((found for part in parts[1:] if (found := self._arg(part)) is not None), None)
        if words is None or self._known(words.get("no_cli")) is True:
            return None
        hint = _without_optional(parts[0])
        option = self._known(words.get("cli_name")) or "--" + name.replace("_", "-")
        words = {**words, **_keywords(words.get("action_kwargs"))}
        action_node = words.get("action")
        action = _action(action_node, self._known(action_node)) if action_node is not None else ""
        switch = _is_switch(action) if action else _is_name(hint, "bool") and "type_parser" not in words
        several = _is_subscript(hint, "List", "list") and "type_parser" not in words
        nargs = self._known(words.get("nargs")) or ("+" if several else None)
        text = self._text(words.get("help"))
        literal = _literal(hint)
        aliases = self._known(words.get("aliases"))
        return Flag(
            name=option,
            aliases=tuple(aliases) if isinstance(aliases, list) else (),
            takes=SWITCH if switch else _takes(action, nargs, nargs is not None),
            type=None if switch else _type_name(words.get("type_parser") or words.get("type"), _hint_type(hint)),
            default=self._default(default, None),
            choices=self._choices(words.get("choices")) or literal,
            help=text,
            negatable=action == "BooleanOptionalAction",
            deprecated=action.startswith("Deprecated") or "deprecated" in text[:60].lower(),
        )

    def _arg(self, part: ast.expr) -> dict[str, ast.expr] | None:
        """The keywords of ``Arg(…)``; a bare string is its help."""
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "Arg":
            words = {word.arg: word.value for word in part.keywords if word.arg}
            if part.args:
                words.setdefault("help", part.args[0])
            return words
        return {"help": part} if isinstance(self._known(part), str) else None

    # ---------------------------------------------------------------------------------------------------------- values

    def _known(self, node: ast.expr | None) -> Any:
        try:
            return self._names.value(node)
        except NotKnown:
            return None

    def _text(self, node: ast.expr | None) -> str:
        value = self._known(node)
        return " ".join(value.split()) if isinstance(value, str) else ""

    def _default(self, node: ast.expr | None, without: str | None) -> str | None:
        if node is None:
            return without
        match node:
            case ast.Call(func=ast.Name(id="_declared_default")):
                return None  # 0.5.21+: looked up by name in the fields, which are read themselves
        try:
            return repr(self._names.value(node))
        except NotKnown:
            return None

    def _choices(self, node: ast.expr | None) -> tuple[str, ...]:
        value = self._known(node)
        return tuple(str(item) for item in value) if isinstance(value, list) else ()


def _keywords(node: ast.expr | None) -> dict[str, ast.expr]:
    """``{"nargs": "*"}`` as keywords."""
    if not isinstance(node, ast.Dict):
        return {}
    pairs = zip(node.keys, node.values, strict=True)
    return {key.value: value for key, value in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str)}


def _add_argument_calls(module: ast.Module) -> Iterator[ast.Call]:
    """In the order of the source."""
    for owner in module.body:
        if isinstance(owner, (ast.ClassDef, ast.FunctionDef)):
            for node in ast.walk(owner):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr == "add_argument"
                ):
                    yield node


def _action(node: ast.expr | None, value: Any) -> str:
    """``store_true``, ``BooleanOptionalAction``, ``DeprecatedAction``, …; "" for none."""
    if isinstance(value, str):
        return value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_switch(action: str) -> bool:
    return action in ("store_true", "store_false", "store_const", "BooleanOptionalAction") or (
        action.startswith("Deprecated") and "Alias" not in action
    )


def _takes(action: str, nargs: Any, has_nargs: bool) -> str:
    if nargs in ("+", "*") or (isinstance(nargs, int) and nargs > 1):
        return VALUES
    if nargs == "?":
        return MAYBE
    if _is_switch(action):
        # nargs=None, written out, makes a Deprecated… action take one value again
        return VALUE if has_nargs and nargs is None and action.startswith("Deprecated") else SWITCH
    return VALUE


def _type_name(node: ast.expr | None, otherwise: str) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return "json" if node.attr == "loads" else node.attr
    return otherwise


def _hint_type(hint: ast.expr) -> str:
    if _is_subscript(hint, "List", "list"):
        assert isinstance(hint, ast.Subscript)
        hint = hint.slice
    if isinstance(hint, ast.Name) and hint.id in ("int", "float"):
        return hint.id
    return "str"


def _without_optional(hint: ast.expr) -> ast.expr:
    """``Optional[T]`` and ``T | None`` as T."""
    if _is_subscript(hint, "Optional"):
        assert isinstance(hint, ast.Subscript)
        return hint.slice
    if isinstance(hint, ast.BinOp) and isinstance(hint.op, ast.BitOr):
        if isinstance(hint.right, ast.Constant) and hint.right.value is None:
            return hint.left
        if isinstance(hint.left, ast.Constant) and hint.left.value is None:
            return hint.right
    return hint


def _literal(hint: ast.expr) -> tuple[str, ...]:
    if not _is_subscript(hint, "Literal"):
        return ()
    assert isinstance(hint, ast.Subscript)
    items = hint.slice.elts if isinstance(hint.slice, ast.Tuple) else [hint.slice]
    return tuple(str(item.value) for item in items if isinstance(item, ast.Constant))


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_subscript(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in names
