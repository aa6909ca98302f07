"""Which rollouts are read: a SQL expression on their columns, and what of it Parquet statistics can decide."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from iscope.dump.ragged import Flags
from iscope.errors import UsageError
from iscope.rollouts import LOGPROBS

_TOKEN_COLUMNS = (*LOGPROBS, "loss_mask", "token_ids")
# Rollouts are judged one by one, so nothing may look at several of them.
_SEVERAL = re.compile(
    r"\b(avg|count|first|last|max|median|min|quantile_\w+|std\w*|sum|var(?:iance|_\w+)?|array_agg|corr|covar\w*|over)\s*\(",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_TOKEN = re.compile(rf"{_QUOTED.pattern}|\w+|\S")
_COMPARISON = re.compile(r"(\"?)(\w+)\1\s*(<=|>=|<|>|=)\s*(-?\d{1,15}|'[^']*')")
_REVERSED = re.compile(r"(-?\d{1,15}|'[^']*')\s*(<=|>=|<|>|=)\s*(\"?)(\w+)\3")
_MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
# With one of these outside parentheses, AND need not separate conditions that must all hold; the others start
# comments or quotes that this module does not read.
_NOT_A_CONJUNCTION = ("or", "xor", "between", "case")
_UNREAD = ("--", "/*", "`", "$", "\\", "#")

_MET = "condition met"


@dataclass(frozen=True)
class Bound:
    """A condition that every selected rollout meets: column, operator, constant.

    Attributes:
        column: its name.
        operator: how its value compares with the constant.
        value: the constant. Fractions are left to the full expression: their comparison depends on the column's type.
    """

    column: str
    operator: str
    value: int | str

    def excludes(self, low: object, high: object) -> bool:
        """Return whether no value from ``low`` to ``high`` meets the condition; False where that cannot be told."""
        value = self.value
        if isinstance(value, int) and isinstance(low, int) and isinstance(high, int):
            return _outside(self.operator, value, low, high)
        if isinstance(value, str) and isinstance(low, str) and isinstance(high, str):
            return _outside(self.operator, value, low, high)
        return False


@dataclass(frozen=True)
class Where:
    """A condition on rollouts.

    Attributes:
        text: the SQL expression as it was written.
        expression: the same for polars.
        columns: the columns that it names.
        bounds: conditions that follow from it.
    """

    text: str
    expression: pl.Expr
    columns: tuple[str, ...]
    bounds: tuple[Bound, ...]

    @classmethod
    def parse(cls, text: str) -> Where:
        """Read an expression.

        Raises:
            UsageError: when it is no SQL expression, or looks at more than one rollout or at tokens.
        """
        try:
            expression = pl.sql_expr(text)
        except pl.exceptions.PolarsError as error:
            example = "step >= 10 AND env = 'math'"
            raise UsageError(f"--where {text!r}: {_reason(error)}; write SQL such as {example}.") from None
        if found := _SEVERAL.search(_QUOTED.sub("''", text)):
            raise UsageError(
                f"--where {text!r}: {found[1].upper()} looks at several rollouts, but each is judged by itself."
            )
        columns = tuple(dict.fromkeys(expression.meta.root_names()))
        for column in columns:
            if column in _TOKEN_COLUMNS:
                raise UsageError(f"--where {text!r}: {column} has a value per token; name columns of rollouts.")
        bounds = tuple(bound for bound in _bounds(text) if bound.column in columns)
        return cls(text, expression, columns, bounds)

    def bounds_of(self, columns: Mapping[str, str]) -> list[Bound]:
        """Return the bounds on a file, under its own column names; ``columns`` is canonical name to file's."""
        return [replace(bound, column=columns[bound.column]) for bound in self.bounds if bound.column in columns]

    def flags(self, frame: pl.DataFrame) -> Flags:
        """Return bool [N]: which rows meet the condition; a null does not.

        Args:
            frame: the columns named, and at least one.

        Raises:
            UsageError: when the expression does not fit the columns' types or is no condition.
        """
        try:
            met = frame.with_columns(self.expression.alias(_MET))[_MET]
        except pl.exceptions.PolarsError as error:
            raise UsageError(f"--where {self.text!r}: {_reason(error)}.") from None
        if met.dtype not in (pl.Boolean, pl.Null):
            raise UsageError(f"--where {self.text!r} is {met.dtype}, neither true nor false; compare it to a value.")
        flags: Flags = met.cast(pl.Boolean).fill_null(False).to_numpy()
        return flags


def _outside(operator: str, value: Any, low: Any, high: Any) -> bool:
    outside: bool = {
        "=": value < low or value > high,
        "<": low >= value,
        "<=": low > value,
        ">": high <= value,
        ">=": high < value,
    }[operator]
    return outside


def _bounds(text: str) -> Iterator[Bound]:
    """The comparisons of a column with a constant that an expression is a conjunction of, other parts left aside."""
    for part in _conjuncts(text):
        if found := _COMPARISON.fullmatch(part):
            yield Bound(found[2], found[3], _constant(found[4]))
        elif found := _REVERSED.fullmatch(part):
            yield Bound(found[4], _MIRROR[found[2]], _constant(found[1]))


def _constant(text: str) -> int | str:
    return text[1:-1] if text.startswith("'") else int(text)


def _conjuncts(text: str) -> list[str]:
    """Split at every AND outside parentheses; nothing where that would not be a split into conditions."""
    if any(mark in text for mark in _UNREAD):
        return []
    parts, depth, start = [], 0, 0
    for token in _TOKEN.finditer(text):
        word = token[0].lower()
        depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
        if depth == 0 and word in _NOT_A_CONJUNCTION:
            return []
        if depth == 0 and word == "and":
            parts.append(text[start : token.start()].strip())
            start = token.end()
    return [*parts, text[start:].strip()]


def _reason(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")
