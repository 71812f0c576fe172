"""Textual parses all CSS anew for each app. Hundreds of tests start one; here each text is parsed once."""

from __future__ import annotations

from typing import Any

import pytest
from textual.css import stylesheet
from textual.css.model import RuleSet
from textual.css.parse import parse
from textual.css.tokenize import tokenize_values
from textual.css.tokenizer import Token

Variables = dict[str, list[Token]]


class ParsedOnce:
    """In the place of :func:`textual.css.parse.parse`, as :class:`textual.css.stylesheet.Stylesheet` calls it."""

    def __init__(self) -> None:
        self._parsed: dict[tuple[Any, ...], list[RuleSet]] = {}
        self._variables: Variables | None = None
        self._values: frozenset[tuple[str, tuple[str, ...]]] = frozenset()

    def __call__(
        self,
        scope: str,
        css: str,
        read_from: Any,
        *,
        variable_tokens: Variables,
        is_default_rules: bool,
        tie_breaker: int,
    ) -> list[RuleSet]:
        if variable_tokens is not self._variables:  # one stylesheet's, for all its texts
            self._variables = variable_tokens
            self._values = frozenset(
                (name, tuple(token.value for token in tokens)) for name, tokens in variable_tokens.items()
            )
        key = (scope, css, read_from, self._values, is_default_rules, tie_breaker)
        rules = self._parsed.get(key)
        if rules is None:
            rules = self._parsed[key] = list(
                parse(
                    scope,
                    css,
                    read_from,
                    variable_tokens=variable_tokens,
                    is_default_rules=is_default_rules,
                    tie_breaker=tie_breaker,
                )
            )
        return rules


class TokenizedOnce:
    """In the place of :func:`textual.css.tokenize.tokenize_values`. Nobody changes what it returns."""

    def __init__(self) -> None:
        self._tokenized: dict[frozenset[tuple[str, str]], Variables] = {}

    def __call__(self, values: dict[str, str]) -> Variables:
        key = frozenset(values.items())
        tokens = self._tokenized.get(key)
        if tokens is None:
            tokens = self._tokenized[key] = tokenize_values(values)
        return tokens


def share(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stylesheet, "parse", ParsedOnce())
    patch.setattr(stylesheet, "tokenize_values", TokenizedOnce())
