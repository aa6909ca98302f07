"""Which columns of a dump hold token ids and text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iscope.dump.dump import Dump
from iscope.dump.pairing import Pairing
from iscope.dump.resolve import canonical_overrides, missing_column, resolve, text_column
from iscope.dump.schema import TEXTS
from iscope.dump.table import Part, Table
from iscope.errors import DataError

NO_IDS = "the dump has no token ids"
NO_TEXT = "the dump has no column of text, and no tokenizer is loaded to decode token ids"
_SIDES = ("inference", "trainer", "current", "ref")


@dataclass(frozen=True)
class Column:
    """Where a column is.

    Attributes:
        table: the side that has it, or the dump whose rows hold both sides; None where it is nowhere.
        names: what each part of the table calls it, None where it has none.
        why: why it is nowhere.
    """

    table: Table | None = None
    names: tuple[str | None, ...] = ()
    why: str = ""


def columns_of(dump: Dump, named: Mapping[str, str] | None, *, text: bool) -> dict[str, Column]:
    """Return where the token ids of a dump are and, if asked for, its text: of several sides, the first that has them.

    Raises:
        DataError: when text is asked for and several columns could hold it, or the one named does not.
    """
    overrides = canonical_overrides(named)
    tables = _tables(dump)
    found = {"token_ids": _ids(tables, overrides)}
    for name in TEXTS if text else ():
        found[name] = _text(tables, name, overrides)
    return found


def _tables(dump: Dump) -> dict[str | None, Table]:
    if isinstance(dump.content, Pairing):
        return {side: dump.content.tables[side] for side in _SIDES if side in dump.content.tables}
    return {} if dump.content is None else {None: dump.content}


def _ids(tables: Mapping[str | None, Table], overrides: Mapping[str, str]) -> Column:
    why = NO_IDS
    for side, table in tables.items():
        try:
            names = tuple(_ids_in(part, side, overrides) for part in table.parts)
        except DataError as error:
            why = str(error).rstrip(".")
            continue
        if any(names):
            return Column(table, names)
    return Column(why=why)


def _ids_in(part: Part, side: str | None, overrides: Mapping[str, str]) -> str | None:
    if "token_ids" in part.columns:
        return part.columns["token_ids"]
    # Where sides were joined into one file, the ids may be under the name of one of them.
    for owner in (side,) if side is not None else (None, "inference", "trainer"):
        source = part.source
        found = resolve(source.name, source.schema, ["token_ids"], needed=(), overrides=overrides, side=owner)
        if found:
            return found["token_ids"]
    return None


def _text(tables: Mapping[str | None, Table], column: str, overrides: Mapping[str, str]) -> Column:
    parts = [part for table in tables.values() for part in table.parts]
    for table in tables.values():
        names = tuple(text_column(part.source.name, part.source.schema, column, overrides) for part in table.parts)
        if any(names):
            return Column(table, names)
    if parts and overrides.get(column):
        raise DataError(missing_column(parts[0].source.name, parts[0].source.schema.names, overrides[column]))
    return Column(why=NO_TEXT)
