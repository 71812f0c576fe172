"""Values of constant expressions in SGLang's source, without running any of it. Pure."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any


class NotKnown(Exception):
    """The expression is none whose value can be seen in the source."""


class Names:
    """Names that are bound to an expression once: module constants, and defaults of a class's fields."""

    def __init__(self) -> None:
        self._bound: dict[str, ast.expr] = {}
        self._fields: dict[str, dict[str, ast.expr]] = {}

    def learn(self, module: ast.Module) -> None:
        """The constants of a module and the class attributes in it; what is bound already stays."""
        for statement in module.body:
            if isinstance(statement, ast.ClassDef):
                fields = self._fields.setdefault(statement.name, {})
                for name, value in _bindings(statement.body):
                    fields.setdefault(name, value)
            else:
                for name, value in _bindings([statement]):
                    self._bound.setdefault(name, value)

    def value(self, node: ast.expr | None, depth: int = 8) -> Any:
        """Raises :class:`NotKnown`."""
        if node is None or depth == 0:
            raise NotKnown
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return self._named(self._bound, node.id, depth)
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
                return self._named(self._fields.get(owner, {}), attribute, depth)
            case ast.List() | ast.Tuple() | ast.Set():
                return [self.value(item, depth - 1) for item in node.elts]
            case ast.UnaryOp(op=ast.USub()):
                return -self._number(node.operand, depth)
            case ast.BinOp(op=ast.Add()):
                return self._sum(node, depth)
            case ast.BinOp(op=ast.Mult()):
                return self._number(node.left, depth) * self._number(node.right, depth)
            case ast.BinOp(op=ast.LShift()):
                return int(self._number(node.left, depth)) << int(self._number(node.right, depth))
            case ast.JoinedStr():
                return "".join(self._part(part, depth) for part in node.values)
            case ast.Call(func=ast.Name(id="list" | "tuple" | "set" | "sorted"), args=[only], keywords=[]):
                return self.value(only, depth - 1)
            case ast.Call(func=func, args=[], keywords=[ast.keyword(arg="default_factory", value=factory)]):
                return self._made_by(func, factory)
            case ast.Call(func=func, keywords=[ast.keyword(arg="default", value=default)]) if _is_field(func):
                return self.value(default, depth - 1)
        raise NotKnown

    def _named(self, bound: Mapping[str, ast.expr], name: str, depth: int) -> Any:
        return self.value(bound.get(name), depth - 1)

    def _number(self, node: ast.expr, depth: int) -> Any:
        value = self.value(node, depth - 1)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise NotKnown
        return value

    def _sum(self, node: ast.BinOp, depth: int) -> Any:
        left, right = self.value(node.left, depth - 1), self.value(node.right, depth - 1)
        try:
            return left + right
        except TypeError:
            raise NotKnown from None

    def _part(self, part: ast.expr, depth: int) -> str:
        """A piece of an f-string; what is computed later is an ellipsis."""
        try:
            return str(self.value(part.value if isinstance(part, ast.FormattedValue) else part, depth - 1))
        except NotKnown:
            return "…"

    @staticmethod
    def _made_by(func: ast.expr, factory: ast.expr) -> Any:
        empty: dict[str, Any] = {"list": [], "dict": {}}
        if _is_field(func) and isinstance(factory, ast.Name) and factory.id in empty:
            return empty[factory.id]
        raise NotKnown


def _is_field(func: ast.expr) -> bool:
    """``dataclasses.field``, ``msgspec.field``."""
    return (isinstance(func, ast.Name) and func.id == "field") or (
        isinstance(func, ast.Attribute) and func.attr == "field"
    )


def _bindings(body: list[ast.stmt]) -> list[tuple[str, ast.expr]]:
    found: list[tuple[str, ast.expr]] = []
    for statement in body:
        if isinstance(statement, ast.Assign):
            found += [(target.id, statement.value) for target in statement.targets if isinstance(target, ast.Name)]
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            found.append((statement.target.id, statement.value))
    return found
