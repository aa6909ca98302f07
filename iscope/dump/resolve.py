"""Which column of a file holds which canonical column, and whether it can."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from iscope.dump.schema import ALIASES, AMBIGUOUS, CANONICAL, IDS, LOGPROBS_OF, PLAIN, STRICT, TEXTS
from iscope.errors import DataError, UsageError, did_you_mean
from iscope.rollouts import LOGPROBS

_SHOWN = 12
_SHORT = {"mask": "loss_mask"} | LOGPROBS_OF


def canonical_overrides(columns: Mapping[str, str] | None) -> dict[str, str]:
    """Return ``--columns`` pairs under canonical names; ``trainer`` is short for ``trainer_logprobs`` and so on.

    Raises:
        UsageError: when a left-hand side is no column of a dump.
    """
    overrides = {_SHORT.get(name, name): source for name, source in (columns or {}).items()}
    for name in overrides:
        if name not in CANONICAL and name not in TEXTS:
            known = [*_SHORT, *CANONICAL, *TEXTS]
            raise UsageError(f"--columns: {name!r} is not a column of a dump.{did_you_mean(name, known)}")
    return overrides


def resolve(
    file: str,
    schema: pa.Schema,
    wanted: Iterable[str],
    *,
    needed: Sequence[str],
    overrides: Mapping[str, str],
    side: str | None = None,
) -> dict[str, str]:
    """Map canonical columns to the columns of one file.

    Args:
        file: what errors call the file.
        schema: its columns.
        wanted: the canonical columns to look for.
        needed: those that must be there.
        overrides: canonical column to column of the file; an empty name leaves the column out.
        side: the side the whole file belongs to, if it belongs to one.

    Raises:
        DataError: when a needed column is missing, two columns could be the same one, or a type is wrong.
    """
    _refuse_doubled_names(file, schema.names)
    found = {}
    for column in wanted:
        name = _find(file, schema.names, column, overrides, side)
        if name is None or (pa.types.is_null(schema.field(name).type) and column not in needed):
            if column in needed:
                raise DataError(_missing(file, schema.names, column, side))
            continue
        check_type(file, column, name, schema.field(name).type)
        found[column] = name
    return found


def text_column(file: str, schema: pa.Schema, column: str, overrides: Mapping[str, str]) -> str | None:
    """Return which column of a file holds the text of tokens (``token_texts``) or of rollouts (``completion``).

    Raises:
        DataError: when several could, or the one that the user named does not.
    """
    fitting = [name for name in schema.names if _is_text(column, schema.field(name).type)]
    if column in overrides:
        name = overrides[column]
        if name in schema.names and name not in fitting:
            words = "a list of strings" if column == "token_texts" else "a string or a list of messages"
            raise DataError(f"{file}: column {name!r} is {schema.field(name).type}, but {column} must be {words}.")
        return name if name in fitting else None
    found = [name for name in (column, *TEXTS[column]) if name in fitting]
    if len(found) > 1 and found[0] != column:
        listed = " and ".join(repr(name) for name in found)
        raise DataError(f"{file}: columns {listed} could each be {column}; choose with --columns {column}=NAME.")
    return found[0] if found else None


def is_list(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is one of the list types that can hold tokens."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def check_type(file: str, column: str, name: str, kind: pa.DataType) -> None:
    """Raise DataError when a column of this Arrow type cannot be the canonical column."""
    problem = _problem(column, kind)
    if problem:
        shown = repr(name) if name == column else f"{name!r} (read as {column})"
        short = next((short for short, full in _SHORT.items() if full == column), column)
        raise DataError(f"{file}: column {shown} is {kind}, {problem}; name another with --columns {short}=NAME.")


def missing_column(file: str, names: Sequence[str], column: str, near: Sequence[str] | None = None) -> str:
    """Return the sentence for a column that a file does not have.

    Args:
        file: what errors call it.
        names: its columns.
        column: the one that is missing.
        near: names that may have been meant; None is those of ``names`` that are not known to mean anything else.
    """
    hint = _closest(column, names) if near is None else did_you_mean(column, [*near, *names])
    shown = (name if name.isprintable() else repr(name) for name in names[:_SHOWN])
    listed = ", ".join(shown) + (", ..." if len(names) > _SHOWN else "")
    return f"{file}: there is no column {column!r}.{hint} Its columns are: {listed}."


def _closest(column: str, names: Sequence[str]) -> str:
    taken = {*CANONICAL, *(alias for aliases in ALIASES.values() for alias in aliases)}
    free = [name for name in names if name not in taken]
    hints = (did_you_mean(word, free) for word in (column, *ALIASES.get(column, ())))
    return next(filter(None, hints), "")


def _find(file: str, names: Sequence[str], column: str, overrides: Mapping[str, str], side: str | None) -> str | None:
    if column in overrides:
        name = overrides[column]
        if name and name not in names and (side is None or column == LOGPROBS_OF[side]):
            raise DataError(missing_column(file, names, name))
        return name if name in names else None
    own = (f"{side}_{column}",) if side and column == "token_ids" else ()
    found = [name for name in (*own, column, *ALIASES.get(column, ())) if name in names]
    if not found and side and column == LOGPROBS_OF[side]:
        found = [name for name in PLAIN if name in names]
    if len(found) > 1 and (column in STRICT or found[0] not in (*own, column)):
        listed = " and ".join(repr(name) for name in found)
        raise DataError(f"{file}: columns {listed} could each be {column}; choose with --columns {column}=NAME.")
    return found[0] if found else None


def _missing(file: str, names: Sequence[str], column: str, side: str | None) -> str:
    short = next((short for short, full in _SHORT.items() if full == column), column)
    unclear = [name for name in AMBIGUOUS if name in names]
    if unclear and column in LOGPROBS:
        return (
            f"{file}: no column is known to be {column}, and {unclear[0]!r} means different policies in different "
            f"frameworks; say which with --columns trainer=NAME,inference=NAME."
        )
    plain = [name for name in PLAIN if name in names]
    if plain and column in LOGPROBS and side is None:
        return (
            f"{file}: no column is known to be {column}, and {plain[0]!r} does not say whose logprobs it holds; "
            f"say so with --columns {short}={plain[0]}, or pair two files with --trainer and --vllm."
        )
    return f"{missing_column(file, names, column)[:-1]}; name it with --columns {short}=NAME."


def _is_text(column: str, kind: pa.DataType) -> bool:
    if column == "token_texts":
        return is_list(kind) and _is_string(kind.value_type)
    messages = is_list(kind) and pa.types.is_struct(kind.value_type) and kind.value_type.get_field_index("content") >= 0
    return _is_string(kind) or (messages and _is_string(kind.value_type.field("content").type))


def _is_string(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_string(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _problem(column: str, kind: pa.DataType) -> str | None:
    element = kind.value_type if is_list(kind) else None
    if column in (*LOGPROBS, "loss_mask", "token_ids"):
        words = {"loss_mask": "bool or int", "token_ids": "int"}.get(column, "float")
        if element is None:
            hint = ", not one value per row" if _is_number(kind) else ""
            return f"but it must be a list of {words} for each rollout{hint}"
        return None if _fits(column, element) else f"but its lists must hold {words}"
    if column == "advantage":
        fits = _is_number(kind if element is None else element) or (element is not None and pa.types.is_null(element))
        return None if fits else "but it must be a float, or a list of floats, for each rollout"
    if column == "reward":
        return None if _is_number(kind) or pa.types.is_boolean(kind) else "but it must be a float for each rollout"
    if column in (*IDS, "step") and pa.types.is_nested(kind):
        return "but it must be one value for each rollout"
    return None


def _fits(column: str, element: pa.DataType) -> bool:
    if pa.types.is_null(element):
        return True
    if column == "token_ids":
        return bool(pa.types.is_integer(element))
    return _is_number(element) or (column == "loss_mask" and bool(pa.types.is_boolean(element)))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _refuse_doubled_names(file: str, names: Sequence[str]) -> None:
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise DataError(f"{file}: there are two columns named {doubled[0]!r}; rename one of them.")
