"""Any dump as one Parquet file of the canonical columns, its sides joined."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from iscope.dump.dump import Dump, Sides, Source
from iscope.dump.opening import open_dump
from iscope.dump.schema import CANONICAL
from iscope.dump.table import Block
from iscope.dump.writer import output_path, parquet_file
from iscope.errors import DataError, UsageError
from iscope.rollouts import LOGPROBS, RolloutBatch


@dataclass(frozen=True)
class Converted:
    """What was written.

    Attributes:
        path: the file.
        rollouts: its rows.
        tokens: their tokens, loss mask or not.
        excluded: rollouts of paired sides that could not be joined, by reason.
        assumptions: what had to be assumed, one sentence each.
    """

    path: str
    rollouts: int
    tokens: int
    excluded: dict[str, int]
    assumptions: list[str]


def convert(
    *dump: Source,
    output: str | os.PathLike[str],
    trainer: Any = (),
    vllm: Any = (),
    current: Any = (),
    ref: Any = (),
    on: str = "rollout_id",
    columns: Mapping[str, str] | None = None,
    from_format: str | None = None,
    where: str | None = None,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Converted:
    """Write a dump as one Parquet file of the canonical columns, one row per rollout, row group by row group.

    Rows that no figure can use are kept, so that the file gives the same report as the dump. Sides are joined.

    Args:
        *dump: files, folders, globs or tables that hold both sides.
        output: the file; it appears whole or not at all, and one that is there is replaced.
        trainer: in place of ``dump``, the trainer's side.
        vllm: in place of ``dump``, the inference engine's side.
        current: a side with the current policy's logprobs.
        ref: a side with the reference policy's logprobs.
        on: the column that pairs the sides.
        columns: which column of the dump holds what, for names that are not recognised.
        from_format: the framework whose format files have; None finds out for each.
        where: SQL expression on columns of rollouts; only those that meet it are written.
        strict: make a bad row an error.
        progress: called with the rollouts and tokens of each batch that is written.

    Raises:
        UsageError: a contradiction, or a file that cannot be written.
        DataError: a dump that cannot be used.
    """
    if any(isinstance(source, RolloutBatch) for source in dump):
        raise UsageError("convert reads files and tables, not a RolloutBatch.")
    named = (trainer, vllm, current, ref)
    given = any(not isinstance(side, tuple | list) or side for side in named)
    sides = Sides(trainer, vllm, current, ref, on) if given else None
    source = open_dump(
        dump,
        sides=sides,
        columns=columns,
        from_format=from_format,
        where=where,
        strict=strict,
        token_ids=True,
    )
    path = output_path(output, (file.path for file in source.files))
    rollouts = tokens = 0
    names = _names(source)
    schema = _schema(source, names)
    with parquet_file(path, schema) as write:
        for block in source.blocks():
            batch = _batch(block, names, schema)
            write(batch)
            read = _tokens(batch)
            rollouts, tokens = rollouts + len(block), tokens + read
            if progress is not None:
                progress(len(block), read)
    if not rollouts and source.tally.excluded:
        path.unlink(missing_ok=True)
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(source.tally.excluded.items()))
        raise DataError(f"No rollout could be joined: {reasons}; nothing was written.")
    return Converted(str(output), rollouts, tokens, dict(source.tally.excluded), source.assumptions)


def _names(source: Dump) -> dict[str, str]:
    """The columns of the file to those of the blocks."""
    assert source.content is not None
    there = source.content.nothing().arrays
    found = {name: name for name in CANONICAL if name in there and name != "rollout_id"}
    ids = next((name for name in ("token_ids", "inference_token_ids", "trainer_token_ids") if name in there), None)
    return {"rollout_id": "rollout_id", **found, **({"token_ids": ids} if ids else {})}


def _schema(source: Dump, names: Mapping[str, str]) -> pa.Schema:
    assert source.content is not None
    there = source.content.nothing().arrays
    kinds = {name: pa.large_string() if own == "rollout_id" else there[own].type for name, own in names.items()}
    about = {"files": [file.path for file in source.files], "assumptions": source.assumptions}
    return pa.schema(list(kinds.items()), metadata={"iscope": json.dumps(about)})


def _batch(block: Block, names: Mapping[str, str], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [block.ids() if own == "rollout_id" else block.arrays[own] for own in names.values()]
    # Sides that were joined have lists with 64-bit offsets.
    return pa.record_batch([array.cast(kind) for array, kind in zip(arrays, schema.types, strict=True)], schema=schema)


def _tokens(batch: pa.RecordBatch) -> int:
    lists = batch.column(batch.schema.get_field_index(next(name for name in LOGPROBS if name in batch.schema.names)))
    return len(lists.flatten())
