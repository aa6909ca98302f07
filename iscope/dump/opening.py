"""open_dump: from what a user names to a dump that is ready to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import pyarrow as pa
import torch

from iscope.dump.convert import Layout
from iscope.dump.dump import Dump, DumpFile, Sides, Source, described
from iscope.dump.importers.imported import ImportedSource
from iscope.dump.importers.named import Opener
from iscope.dump.pairing import Pairing
from iscope.dump.resolve import canonical_overrides, missing_column
from iscope.dump.schema import CANONICAL, SCALARS, STRICT
from iscope.dump.sides import open_sides, sources_of
from iscope.dump.source import RowSource
from iscope.dump.table import Table, open_table
from iscope.dump.where import Where
from iscope.errors import DataError, UsageError
from iscope.rollouts import RolloutBatch

_DTYPES = {"float32": torch.float32, "float64": torch.float64}
_NEEDED = ("trainer_logprobs", "inference_logprobs")
_VERSIONS = ("policy_version", "trainer_version")  # may differ from token to token


def open_dump(
    sources: Sequence[Source] = (),
    *,
    sides: Sides | None = None,
    columns: Mapping[str, str] | None = None,
    carry: Sequence[str] = (),
    precision: Literal["float32", "float64"] = "float32",
    strict: bool = False,
    batch_tokens: int = 2**20,
    where: str | None = None,
    from_format: str | None = None,
    token_ids: bool = False,
    opener: Opener | None = None,
) -> Dump:
    """Open a dump: read the footers, recognise the columns, and refuse what cannot be read.

    Args:
        sources: files, folders, globs, tables or batches whose rows hold both policies; batches are read last.
        sides: instead of ``sources``, one set of files per policy.
        columns: canonical column (``trainer`` is short for ``trainer_logprobs``, ...) to the dump's own column.
        carry: further columns to keep beside the canonical ones.
        precision: of the logprobs.
        strict: make a row that cannot be used an error instead of leaving it out.
        batch_tokens: tokens a batch has at most, unless a single rollout has more.
        where: SQL expression on the columns of rollouts; those that do not meet it are not read.
        from_format: the format that files have, as a framework's name; None finds out for each.
        token_ids: whether a dump that holds both sides is read with its token ids, which no figure needs.
        opener: finds and opens the files; None takes all that is there.

    Raises:
        UsageError: when the arguments contradict each other, or ``where`` is no condition on rollouts.
        DataError: when there is no dump there, or none that can be used.
    """
    overrides = canonical_overrides(columns)
    condition = None if where is None else Where.parse(where)
    looked_at = (*carry, *(condition.columns if condition else ()))
    ready = [source for source in sources if isinstance(source, RolloutBatch)]
    rest = [source for source in sources if not isinstance(source, RolloutBatch)]
    content: Table | Pairing
    if sides is None:
        wanted = [column for column in CANONICAL if token_ids or column != "token_ids"]
        found = sources_of(rest, "frame", from_format, opener)
        content = _open_whole(found, ready, wanted, overrides, looked_at)
        tables = {"": content}
    else:
        _refuse_both(sources)
        content = open_sides(sides, overrides, looked_at, strict=strict, named=from_format, opener=opener)
        tables = dict(content.tables)
    _check_carried(content, tables, ready, looked_at)
    _check_single(content, tables, carry)
    if condition is not None:
        _try_condition(condition, content, ready)
    present = frozenset(name for name in content.columns if name in CANONICAL).union(*map(_present, ready))
    return Dump(
        files=[file for side, table in tables.items() for file in _files(side, table)],
        present=present,
        assumptions=_assumptions(present, content, condition),
        carried=tuple(dict.fromkeys(carry)),
        content=content,
        ready=ready,
        layout=Layout(_DTYPES[precision], _kept(content, carry)),
        batch_tokens=batch_tokens,
        strict=strict,
        where=condition,
    )


def _open_whole(
    found: Sequence[RowSource],
    ready: Sequence[RolloutBatch],
    wanted: Sequence[str],
    overrides: Mapping[str, str],
    carry: Sequence[str],
) -> Table:
    if not found and not ready:
        raise UsageError("No dump was given: name at least one Parquet file, folder or quoted glob.")
    table = open_table(found, wanted, anchor=_NEEDED[0], needed=_NEEDED, overrides=overrides, carry=carry)
    if not table.rows and not any(len(batch) for batch in ready):
        name = found[0].name if found else "the batch given"
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        raise DataError(f"{name}{more}: the dump is empty, it has no rollouts; check that the run wrote any.")
    _check_alike(table, ready)
    return table


def _refuse_both(sources: Sequence[Source]) -> None:
    if sources:
        named = f"{str(sources[0])!r}" if not isinstance(sources[0], RolloutBatch) else "a batch"
        raise UsageError(
            f"Both a dump ({named}) and sides (--trainer, --vllm) were given; if a glob was meant for one side, "
            f"quote it so that the shell does not expand it, or repeat the option for each file."
        )


def _check_alike(table: Table, ready: Sequence[RolloutBatch]) -> None:
    found = [frozenset(table.types)] if table.parts else []
    found += [_present(batch) for batch in ready]
    for column in STRICT:
        if len({column in columns for columns in found}) > 1:
            raise DataError(f"Some of the sources have {column} and others do not; read them apart.")


def _check_carried(
    content: Table | Pairing, tables: Mapping[str, Table], ready: Sequence[RolloutBatch], carry: Sequence[str]
) -> None:
    parts = [part for table in tables.values() for part in table.parts]
    for name in carry:
        if parts and name not in (*content.columns, "rollout_id"):
            source = parts[0].source
            raise DataError(missing_column(source.name, source.schema.names, name, near=sorted(content.columns)))
        for batch in ready:
            columns = described(batch).columns
            if name not in columns:
                raise DataError(missing_column("the batch given", columns, name, near=columns))


def _check_single(content: Table | Pairing, tables: Mapping[str, Table], carry: Sequence[str]) -> None:
    kinds = {name: array.type for name, array in content.nothing().arrays.items()}
    for name in carry:
        if name in kinds and name not in _VERSIONS and pa.types.is_nested(kinds[name]):
            file = next(part.source.name for table in tables.values() for part in table.parts)
            raise DataError(f"{file}: column {name!r} is {kinds[name]}; name one with a single value for each rollout.")


def _try_condition(condition: Where, content: Table | Pairing, ready: Sequence[RolloutBatch]) -> None:
    """Evaluate a condition on no rows: what does not fit the columns' types is told before anything is read."""
    if content.columns:
        condition.flags(content.nothing().frame(condition.columns))
    for batch in ready:
        condition.flags(described(batch).clear())


def _present(batch: RolloutBatch) -> frozenset[str]:
    tokens = {name for name in STRICT if getattr(batch, name) is not None}
    return frozenset(tokens | {name for name in batch.columns.columns if name in SCALARS})


def _kept(content: Table | Pairing, carry: Sequence[str]) -> list[str]:
    names = (*SCALARS, *carry)
    return [name for name in dict.fromkeys(names) if name in content.columns and name != "rollout_id"]


def _files(side: str, table: Table) -> list[DumpFile]:
    return [
        DumpFile(str(part.source.name), part.source.size, part.source.rows, side, part.columns) for part in table.parts
    ]


def _assumptions(present: frozenset[str], content: Table | Pairing, condition: Where | None) -> list[str]:
    said = content.assumptions if isinstance(content, Pairing) else []
    tables = content.tables.values() if isinstance(content, Pairing) else [content]
    sources = [part.source for table in tables for part in table.parts]
    said = [*said, *(text for source in sources if isinstance(source, ImportedSource) for text in source.said)]
    said = list(dict.fromkeys(said))
    if condition is not None:
        said = [*said, f"Only rollouts that meet {condition.text!r} are looked at."]
    if "loss_mask" not in present:
        said = [*said, "The dump has no loss_mask: every token is taken as trained, prompt and tool tokens included."]
    return said
