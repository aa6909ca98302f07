"""Ratios that a dump brings along, as its framework computed them: a look at the first rollouts that have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from iscope.dump.dump import Dump
from iscope.dump.ragged import booleans, floats, offsets_of, values_of
from iscope.dump.resolve import is_list
from iscope.dump.table import Part, Table
from iscope.rollouts import LOGPROBS

Array = np.ndarray[Any, np.dtype[Any]]

# Columns that are a ratio of two policies, or the log of one. Weights are left out: they may be truncated.
NAMES = (
    "importance_sampling_ratio",
    "importance_ratio",
    "importance_ratios",
    "is_ratio",
    "is_ratios",
    "rollout_is_ratio",
    "ratio",
    "ratios",
    "rho",
    "log_ratio",
    "log_ratios",
    "log_importance_ratio",
)
_TOKENS = 200_000


@dataclass(frozen=True)
class Supplied:
    """A supplied column of N rollouts with P tokens in all.

    Attributes:
        name: what the file calls it.
        values: float64 [P].
        logprobs: float64 [P], by canonical name.
        loss: bool [P], the loss mask.
        offsets: int64 [N + 1].
        ids: the rollout ids, where the dump has them.
    """

    name: str
    values: Array
    logprobs: dict[str, Array]
    loss: Array
    offsets: Array
    ids: list[Any] | None


def supplied_ratios(dump: Dump) -> list[Supplied]:
    """Read the ratios of the first rollouts of a dump that holds both sides in one row; most dumps have none."""
    if not isinstance(dump.content, Table):
        return []
    found: dict[str, Supplied] = {}
    for part in dump.content.parts:
        for name in NAMES:
            if name not in found and _is_ratio(part, name):
                read = _read(part, name)
                if read is not None:
                    found[name] = read
    return list(found.values())


def _is_ratio(part: Part, name: str) -> bool:
    schema = part.source.schema
    if name not in schema.names or name in part.columns.values():
        return False
    kind = schema.field(name).type
    return is_list(kind) and pa.types.is_floating(kind.value_type)


def _read(part: Part, name: str) -> Supplied | None:
    """The first rows whose lists are whole and of one length; None where there are none."""
    own = ("rollout_id", "loss_mask", *LOGPROBS)
    columns = {key: part.columns[key] for key in own if key in part.columns} | {name: name}
    _, arrays = next(part.source.read(columns, part.columns["trainer_logprobs"], _TOKENS))
    lists = [key for key in arrays if key != "rollout_id"]
    lengths = [pc.list_value_length(arrays[key]).cast(pa.int64()) for key in lists]
    whole = np.ones(len(arrays[name]), dtype=np.bool_)
    for length in lengths:
        whole &= pc.equal(length, lengths[0]).fill_null(False).to_numpy(zero_copy_only=False)
    arrays = {key: array.filter(pa.array(whole)) for key, array in arrays.items()}
    if not len(arrays[name]):
        return None
    tokens = {key: values_of(arrays[key]) for key in lists}
    mask = tokens.pop("loss_mask", None)
    numbers = {key: floats(values, torch.float64)[0].numpy() for key, values in tokens.items()}
    values = numbers.pop(name)
    return Supplied(
        name=name,
        values=values,
        logprobs=numbers,
        loss=np.ones(values.size, dtype=np.bool_)
        if mask is None
        else booleans(mask.fill_null(pa.scalar(0).cast(mask.type))).numpy(),
        offsets=offsets_of(arrays[name]),
        ids=arrays["rollout_id"].to_pylist() if "rollout_id" in arrays else None,
    )
