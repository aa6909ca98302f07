"""A replayed batch as Arrow rows: what was done to every token, null where it is not scored."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import torch
from torch import Tensor

from iscope.replay.outcome import Outcome
from iscope.rollouts import RolloutBatch

_NUMBERS = {torch.float32: pa.float32(), torch.float64: pa.float64()}


def schema(dtype: torch.dtype, about: dict[str, str]) -> pa.Schema:
    """Return the schema of the rows.

    Args:
        dtype: of the weights and coefficients, float32 or float64.
        about: what the rows are the result of, kept beside them.
    """
    number = _NUMBERS[dtype]
    tokens = {"weight": number, "keep": pa.bool_(), "coefficient": number}
    return pa.schema(
        {"rollout_id": pa.large_string()} | {name: pa.large_list(kind) for name, kind in tokens.items()}, about
    )


def rows(batch: RolloutBatch, outcome: Outcome, coefficient: Tensor | None, schema: pa.Schema) -> pa.RecordBatch:
    """Return one row per rollout, its lists as long as the dump's.

    Args:
        batch: N rollouts.
        outcome: what the recipe does to them.
        coefficient: float64 [Q], derivative of the whole loss by each scored token's current logprob, or None.
        schema: of the rows.
    """
    values = {"weight": outcome.weight, "keep": outcome.keep, "coefficient": coefficient}
    ids = batch.columns["rollout_id"].cast(pl.String).to_arrow().cast(pa.large_string())
    lists = [_lists(batch, outcome.scored, tokens, schema.field(name).type) for name, tokens in values.items()]
    return pa.RecordBatch.from_arrays([ids, *lists], schema=schema)


def _lists(batch: RolloutBatch, scored: Tensor | None, values: Tensor | None, kind: pa.DataType) -> pa.Array:
    """Values of the scored tokens, None for no values at all, as lists over every token."""
    element = kind.value_type
    if values is None:
        flat = pa.nulls(batch.tokens, element)
    else:
        values = values.float() if element == pa.float32() else values
        flat = pa.array(_spread(values, scored).numpy(), element, mask=None if scored is None else ~scored.numpy())
    return pa.LargeListArray.from_arrays(pa.array(batch.offsets.numpy()), flat)


def _spread(values: Tensor, scored: Tensor | None) -> Tensor:
    if scored is None:
        return values
    everywhere = torch.zeros(scored.numel(), dtype=values.dtype)
    everywhere[scored] = values
    return everywhere
