"""What tells whether rollouts of two dumps are the same: their token ids and their prompts, as hashes."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pyarrow as pa

from iscope.dump.dump import Dump
from iscope.dump.pairing import Pairing
from iscope.dump.resolve import is_list
from iscope.dump.schema import ALIASES, KEY
from iscope.dump.source import RowSource
from iscope.dump.table import Part, Table

# What a dump may say of a rollout's prompt, the most telling first.
PROMPTS = ("prompt_token_ids", "prompt_ids", "prompt", "prompts", "prompt_text")
_TOKENS = ("token_ids", "inference_token_ids", *ALIASES["token_ids"])
_BATCH_TOKENS = 2**20
_SCHEMA = {"rollout_id": pl.String, "tokens": pl.UInt64, "prompt": pl.UInt64}


def identities(dump: Dump) -> pl.DataFrame:
    """Return ``rollout_id`` and hashes of ``tokens`` and ``prompt`` of each rollout, null where it has none.

    The ids are those that the inference engine wrote, where a dump has two sides. Rollouts of batches in memory, and
    those without a ``rollout_id``, are left out.
    """
    frames = [frame for part in _parts(dump) for frame in _read(part)]
    if not frames:
        return pl.DataFrame(schema=_SCHEMA)
    return pl.concat(frames).unique("rollout_id", keep="none")


def _parts(dump: Dump) -> tuple[Part, ...]:
    if isinstance(dump.content, Pairing):
        return tuple(dump.content.tables["inference"].parts)
    return tuple(dump.content.parts) if isinstance(dump.content, Table) else ()


def _read(part: Part) -> Iterator[pl.DataFrame]:
    source: RowSource = part.source
    key = part.columns.get(KEY) or part.columns.get("rollout_id")
    names = source.schema.names
    tokens = next((name for name in _TOKENS if name in names and is_list(source.schema.field(name).type)), None)
    prompt = next((name for name in PROMPTS if name in names), None)
    if key is None or (tokens is None and prompt is None):
        return
    columns = {"rollout_id": key} | ({"tokens": tokens} if tokens else {}) | ({"prompt": prompt} if prompt else {})
    anchor = next(name for name in part.columns.values() if is_list(source.schema.field(name).type))
    for _, arrays in source.read(columns, anchor, _BATCH_TOKENS):
        yield _hashed(arrays)


def _hashed(arrays: dict[str, pa.Array]) -> pl.DataFrame:
    found = {"rollout_id": pl.Series(arrays["rollout_id"]).cast(pl.String)}
    for name in ("tokens", "prompt"):
        if name in arrays:
            values = pl.Series(arrays[name])
            found[name] = values.hash(seed=0).set(values.is_null(), None)
        else:
            found[name] = pl.Series(name, [None] * len(found["rollout_id"]), dtype=pl.UInt64)
    return pl.DataFrame(found)
