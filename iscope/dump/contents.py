"""What an opened dump consists of: its files, the columns that were recognised, and those that were not."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from iscope.dump.dump import Dump
from iscope.dump.pairing import Pairing
from iscope.dump.resolve import is_list
from iscope.dump.schema import KEY
from iscope.dump.table import Table


@dataclass(frozen=True)
class ColumnUse:
    """A column that was recognised.

    Attributes:
        name: what it was taken for.
        source: what the file calls it.
        type: its Arrow type.
        side: the side it belongs to; empty where rows hold both sides.
    """

    name: str
    source: str
    type: str
    side: str


@dataclass(frozen=True)
class Contents:
    """What a dump consists of.

    Attributes:
        layout: ``one row per rollout``, ``paired sides`` or ``batches in memory``.
        columns: the recognised columns, each once per side.
        ignored: columns that mean nothing to iscope, by side.
    """

    layout: str
    columns: list[ColumnUse] = field(default_factory=list)
    ignored: dict[str, list[str]] = field(default_factory=dict)


def contents_of(dump: Dump) -> Contents:
    """Describe an opened dump; nothing but its footers has been read for it."""
    if isinstance(dump.content, Pairing):
        return _contents("paired sides", dict(dump.content.tables))
    if dump.content is None or not dump.content.parts:
        present = [ColumnUse(name, name, "in memory", "") for name in sorted(dump.present)]
        return Contents("batches in memory", present)
    return _contents("one row per rollout", {"": dump.content})


def _type(kind: pa.DataType) -> str:
    return f"list<{_type(kind.value_type)}>" if is_list(kind) else str(kind)


def _contents(layout: str, tables: dict[str, Table]) -> Contents:
    columns, ignored = [], {}
    for side, table in tables.items():
        used: dict[str, ColumnUse] = {}
        rest: dict[str, None] = {}
        for part in table.parts:
            for name, source in part.columns.items():
                if name != KEY:
                    used.setdefault(name, ColumnUse(name, source, _type(part.source.schema.field(source).type), side))
            rest |= dict.fromkeys(name for name in part.source.schema.names if name not in part.columns.values())
        columns += list(used.values())
        if rest:
            ignored[side] = list(rest)
    return Contents(layout, columns, ignored)
