"""The sources a user named, and the sides they make up."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from iscope.dump.dump import PathOrFrame, Sides
from iscope.dump.files import identity
from iscope.dump.frames import FrameSource
from iscope.dump.importers.named import Opener, open_named
from iscope.dump.importers.opened import open_table as open_long
from iscope.dump.pairing import SHARED, Pairing
from iscope.dump.schema import LOGPROBS_OF, SIDES, TEXTS
from iscope.dump.source import RowSource
from iscope.dump.table import Table, open_table
from iscope.errors import DataError, UsageError


def sources_of(
    items: Sequence[PathOrFrame], label: str, named: str | None = None, opener: Opener | None = None
) -> list[RowSource]:
    """Open every file and table named, each file once.

    Args:
        items: files, folders, globs and tables.
        label: what a table in memory is called.
        named: the format that files have; None finds out.
        opener: finds and opens the files.
    """
    found: dict[Any, RowSource] = {}
    frames = sum(isinstance(item, pl.DataFrame | pa.Table) for item in items)
    for index, item in enumerate(items):
        if isinstance(item, pl.DataFrame | pa.Table):
            frame = FrameSource.of(item, label if frames == 1 else f"{label}{index}")
            found[index] = open_long(frame.table, frame.name) or frame
        elif isinstance(item, str | os.PathLike):
            for path, source in open_named(item, named, whole=label == "frame", opener=opener):
                found.setdefault(identity(path), source)
        else:
            raise UsageError(
                f"A dump is a path, a polars DataFrame, a pyarrow Table or a RolloutBatch, not a {type(item).__name__}."
            )
    return list(found.values())


def open_sides(
    sides: Sides,
    overrides: Mapping[str, str],
    carry: Sequence[str],
    *,
    strict: bool,
    named: str | None = None,
    opener: Opener | None = None,
) -> Pairing:
    """Open the files of each side.

    Raises:
        UsageError: when the trainer or the inference side is not given.
        DataError: when a side is empty or its columns cannot be recognised.
    """
    sources = {side: sources_of(_listed(getattr(sides, side)), side, named, opener) for side in SIDES}
    for side, other in (("trainer", "inference"), ("inference", "trainer")):
        if not sources[side]:
            given = f"the {other} side was given without" if sources[other] else "sides need"
            option = "--vllm" if side == "inference" else "--trainer"
            raise UsageError(f"Pairing needs two sides: {given} the {side} side ({option}).")
    given_sides = [side for side in SIDES if sources[side]]
    tables = {side: _open_side(side, sources[side], given_sides, sides.on, overrides, carry) for side in given_sides}
    _check_overrides(tables, overrides)
    return Pairing(tables, sides.on, strict)


def _listed(side: PathOrFrame | Sequence[PathOrFrame]) -> Sequence[PathOrFrame]:
    return [side] if isinstance(side, str | os.PathLike | pl.DataFrame | pa.Table) else list(side)


def _open_side(
    side: str,
    sources: Sequence[RowSource],
    given: Sequence[str],
    on: str,
    overrides: Mapping[str, str],
    carry: Sequence[str],
) -> Table:
    own = LOGPROBS_OF[side]
    wanted = [own, "token_ids", "rollout_id"]
    if side == "trainer":
        wanted += [LOGPROBS_OF[extra] for extra in ("current", "ref") if extra not in given]
    if side in ("trainer", "inference"):
        wanted += SHARED
    table = open_table(
        sources,
        wanted,
        anchor=own,
        needed=[own],
        overrides=overrides,
        carry=carry if side in ("trainer", "inference") else (),
        side=side,
        key=on,
    )
    if not table.rows:
        raise DataError(
            f"{sources[0].name}: the {side} side is empty, it has no rollouts; check that the run wrote any."
        )
    return table


def _check_overrides(tables: Mapping[str, Table], overrides: Mapping[str, str]) -> None:
    used = {pair for table in tables.values() for part in table.parts for pair in part.columns.items()}
    for column, name in overrides.items():
        if name and column not in TEXTS and (column, name) not in used:
            raise DataError(f"--columns {column}={name}: no file of the side it would belong to has a column {name!r}.")
