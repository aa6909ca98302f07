"""What a column of an imported file holds, told by its name, and its values as Arrow arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iscope.dump.importers.scalars import text
from iscope.dump.schema import ALIASES, AMBIGUOUS, PLAIN, STRICT, TEXTS
from iscope.rollouts import LOGPROBS

_BY_CANONICAL = {
    **dict.fromkeys((*LOGPROBS, "advantage"), "floats"),
    "loss_mask": "mask",
    "token_ids": "ids",
    "policy_version": "versions",
    "trainer_version": "versions",
}
KIND_OF = {
    **_BY_CANONICAL,
    **{alias: _BY_CANONICAL[name] for name, aliases in ALIASES.items() if name in _BY_CANONICAL for alias in aliases},
    **dict.fromkeys((*AMBIGUOUS, *PLAIN), "floats"),
    "inference_token_ids": "ids",
    "trainer_token_ids": "ids",
}
CANONICAL_OF = {alias: name for name, aliases in ALIASES.items() for alias in aliases}

# Lists of strings are kept where they may be the text of tokens; one that holds something else is nothing known.
_TEXTS = frozenset({"token_texts", *TEXTS["token_texts"]} - KIND_OF.keys())
_TYPES = {"mask": pa.bool_(), "ids": pa.int64(), "versions": pa.int64(), "texts": pa.string()}


def kind_of(name: str) -> str:
    """Return what lists under this name hold: floats, mask, ids, versions or texts; floats where it is not known."""
    return "texts" if name in _TEXTS else KIND_OF.get(name, "floats")


def is_known(name: str) -> bool:
    """Return whether lists under this name mean something to iscope."""
    return name in KIND_OF


def is_strict(name: str) -> bool:
    """Return whether a column under this name changes the figures, so that rows may not come and go with it."""
    return CANONICAL_OF.get(name, name) in STRICT


def is_tokens(value: object) -> bool:
    """Return whether a value is a list with one value per token."""
    return isinstance(value, list | tuple | pa.Array) or (isinstance(value, np.ndarray) and value.ndim == 1)


def element_type(name: str, floats: pa.DataType) -> pa.DataType:
    """Return the Arrow type of the values of lists under a name; ``floats`` is that of logprobs."""
    return _TYPES.get(kind_of(name), floats)


def tokens_of(name: str, values: Sequence[Any] | pa.Array, floats: pa.DataType) -> pa.Array:
    """Return the values [T] of one rollout; None is null and NaN stays NaN.

    Raises:
        ValueError: when they are not of the kind that the name says.
    """
    kind = kind_of(name)
    try:
        if kind == "mask":
            return _mask(_array(values))
        if kind == "floats":
            return _floats(values, floats)
        if kind == "texts":
            return _strings(values)
        return _array(values, pa.int64())
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise ValueError(" ".join(str(error).split())[:160]) from None


def _array(values: Sequence[Any] | pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    if isinstance(values, pa.Array):
        return values if kind is None else values.cast(kind)
    return pa.array(values, kind, from_pandas=False)


def _strings(values: Sequence[Any] | pa.Array) -> pa.Array:
    if isinstance(values, pa.Array):
        return values.cast(pa.string())
    if not all(value is None or isinstance(value, str) for value in values):
        raise ValueError("something else where strings are expected")
    return pa.array([None if value is None else text(value) for value in values], pa.string())


def _floats(values: Sequence[Any] | pa.Array, floats: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array | np.ndarray):
        found = _array(values)
        if not (pa.types.is_floating(found.type) or pa.types.is_integer(found.type) or pa.types.is_null(found.type)):
            raise ValueError(f"{found.type} where numbers are expected")
        return found.cast(floats, safe=False)
    return pa.array(values, pa.float64(), from_pandas=False).cast(floats, safe=False)


def _mask(values: pa.Array) -> pa.Array:
    """Return bool: true where a value is true or not zero, null where it is null or NaN."""
    if pa.types.is_boolean(values.type) or pa.types.is_null(values.type):
        return values.cast(pa.bool_())
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise ValueError(f"{values.type} where true and false are expected")
    flags = pc.not_equal(values, pa.scalar(0, values.type))
    if pa.types.is_floating(values.type):
        return pc.if_else(pc.is_nan(values), pa.scalar(None, pa.bool_()), flags)
    return flags


def only_advantage(tokens: Mapping[str, pa.Array]) -> float | Literal[False] | None:
    """Return the one advantage that a rollout has at its loss tokens, 0 where it has none of them.

    Args:
        tokens: its token columns [T] by canonical name.

    Returns:
        None where it is null at all of them, False where there are two.
    """
    values, mask = tokens.get("advantage"), tokens.get("loss_mask")
    if values is None:
        return None
    if mask is not None and len(mask) == len(values):
        values = values.filter(mask)
    if not len(values):
        return 0.0
    first = values[0].as_py()
    same = values.null_count == len(values) if first is None else pc.all(pc.equal(values, first)).as_py()
    return first if same and values.null_count in (0, len(values)) else False
