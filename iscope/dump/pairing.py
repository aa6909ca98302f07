"""Two or more sides joined into blocks that hold every policy of a rollout in one row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iscope.dump.matching import match
from iscope.dump.ragged import Flags, Int64s, bits, lengths_of, numbers, offsets_of, rows_with, values_of
from iscope.dump.resolve import is_list
from iscope.dump.schema import KEY, SCALARS, SETTINGS
from iscope.dump.screen import null_faults
from iscope.dump.table import Block, Table
from iscope.dump.tally import Fault, Tally, leave_out
from iscope.dump.verdicts import verdicts
from iscope.dump.where import Where
from iscope.dump.window import alongside
from iscope.rollouts import LOGPROBS

# Shared columns that the inference side knows best; on all others the trainer side wins.
INFERENCE_WINS = ("policy_version", "group_id", *SETTINGS)
SHARED = ("loss_mask", "advantage", *(column for column in SCALARS if column != "rollout_id"))


@dataclass(frozen=True)
class Pairing:
    """The sides of a dump, and how they are joined.

    Attributes:
        tables: side to its table; trainer and inference at least, in the order of ``SIDES``.
        on: the column they are paired on.
        strict: whether a row that cannot be used is an error.
    """

    tables: Mapping[str, Table]
    on: str
    strict: bool

    @property
    def columns(self) -> frozenset[str]:
        """The canonical and carried columns that a joined row has."""
        names = frozenset(("rollout_id",)).union(*(table.columns for table in self.tables.values()))
        return names - {KEY, "token_ids"}

    @property
    def assumptions(self) -> list[str]:
        """What was done to pair the sides, in one sentence."""
        lacking = [side for side, table in self.tables.items() if "token_ids" not in table.columns]
        compared = "their token ids were compared"
        if lacking:
            compared = f"token ids were not compared for all of them, since there are none on: {', '.join(lacking)}"
        return [f"The sides {', '.join(self.tables)} were paired on {self.on}; {compared}."]

    def nothing(self) -> Block:
        """Return a block of no rows that has every column of a joined row."""
        sides = {side: table.nothing() for side, table in self.tables.items()}
        return Block("", sides["inference"].rows, _columns({side: block.arrays for side, block in sides.items()}))

    def blocks(self, batch_tokens: int, tally: Tally, where: Where | None = None) -> Iterator[Block]:
        """Yield joined rows in the order of the inference side; rows that cannot be joined are counted, not zipped."""
        found = match(self.tables, self.on, batch_tokens, strict=self.strict)
        tally.rollouts_read += found.rollouts
        for reason, rollouts in found.excluded.items():
            tally.exclude(reason, rollouts)
        partners = found.partners if where is None else self._selected(found.partners, where, tally)
        windows = {side: alongside(self.tables[side], rows[rows >= 0], batch_tokens) for side, rows in partners.items()}
        for block in self.tables["inference"].blocks(batch_tokens, wanted=partners["trainer"] >= 0):
            rows = block.start + block.rows
            keep = partners["trainer"][rows] >= 0
            if not keep.any():
                continue
            sides = {"inference": (block if keep.all() else block.filter(keep)).arrays}
            for side, window in windows.items():
                sides[side] = window.take(partners[side][rows[keep]])
            joined = Block(block.file, block.rows[keep], _columns(sides))
            chosen = joined.where(where)
            tally.deselect(len(joined) - len(chosen))
            if len(chosen):
                yield self._join(chosen, tally)

    def _selected(self, partners: Mapping[str, Int64s], where: Where, tally: Tally) -> dict[str, Int64s]:
        """Partners without those that are known not to meet a condition, by the side whose value counts."""
        possible = partners["trainer"] >= 0
        paired = int(possible.sum())
        possible &= self.tables["inference"].possible(where, self._decided_by("inference"))
        on_trainer = self.tables["trainer"].possible(where, self._decided_by("trainer"))
        possible[possible] = on_trainer[partners["trainer"][possible]]
        tally.deselect(paired - int(possible.sum()))
        return {side: np.where(possible, rows, -1) for side, rows in partners.items()}

    def _decided_by(self, side: str) -> frozenset[str]:
        """The columns of a joined row that come from this side, trainer or inference."""
        other = self.tables["inference" if side == "trainer" else "trainer"].columns
        wins = {name for name in self.tables[side].columns if (name in INFERENCE_WINS) == (side == "inference")}
        return frozenset(self.tables[side].columns - other | wins) - {"rollout_id"}

    def _join(self, block: Block, tally: Tally) -> Block:
        block = leave_out(block, null_faults(block), tally, strict=self.strict)
        tally.compared(verdicts(block))
        for faults in (_lengths, _token_ids):
            block = leave_out(block, faults(block), tally, strict=self.strict)
        for name in [name for name in block.arrays if name.startswith("other:")]:
            column = name.removeprefix("other:")
            tally.conflict(column, _conflicts(block.arrays[column], block.arrays[name]))
        return block


def _columns(sides: Mapping[str, Mapping[str, pa.Array]]) -> dict[str, pa.Array]:
    """Merge the sides' columns; the loser of a shared column is kept as ``other:NAME``, to count conflicts."""
    merged = {"rollout_id": sides["inference"][KEY]}
    for side, arrays in sides.items():
        if "token_ids" in arrays:
            merged[f"{side}_token_ids"] = arrays["token_ids"]
    trainer, inference = sides["trainer"], sides["inference"]
    for name in dict.fromkeys((*trainer, *inference)):
        if name in (KEY, "rollout_id", "token_ids"):
            continue
        winner, loser = (inference, trainer) if name in INFERENCE_WINS else (trainer, inference)
        merged[name] = winner[name] if name in winner else loser[name]
        if name in SHARED and name in winner and name in loser:
            merged[f"other:{name}"] = loser[name]
    for side in ("current", "ref"):
        merged |= {name: array for name, array in sides.get(side, {}).items() if name in LOGPROBS}
    return merged


def _lengths(block: Block) -> Iterator[Fault]:
    for suffix in ("logprobs", "token_ids"):
        expected = block.arrays.get(f"inference_{suffix}")
        for side in ("trainer", "current", "ref"):
            array = block.arrays.get(f"{side}_{suffix}")
            if array is not None and expected is not None:
                differ = bits(pc.not_equal(_lengths_of(array), _lengths_of(expected)))
                message = f"{side}_{suffix} and inference_{suffix} of this rollout differ in length"
                yield Fault("lengths_differ", differ, message)


def _token_ids(block: Block) -> Iterator[Fault]:
    expected = block.arrays.get("inference_token_ids")
    for side in ("trainer", "current", "ref"):
        array = block.arrays.get(f"{side}_token_ids")
        if array is not None and expected is not None:
            message = f"{side}_token_ids and inference_token_ids of this rollout differ"
            yield Fault("token_ids_differ", _lists_differ(array, expected), message)


def _conflicts(kept: pa.Array, other: pa.Array) -> int:
    """Return on how many rows both sides say something, and not the same."""
    if is_list(kept.type) != is_list(other.type):
        return len(kept)
    if not is_list(kept.type):
        return int(pc.sum(_values_differ(kept, other)).as_py() or 0)
    said = bits(pc.and_(kept.is_valid(), other.is_valid()))
    same = bits(pc.equal(_lengths_of(kept), _lengths_of(other)).fill_null(False))
    if not same.all():
        kept, other = kept.filter(pa.array(same)), other.filter(pa.array(same))
    return int((said & ~same).sum() + _lists_differ(kept, other).sum())


def _lengths_of(lists: pa.Array) -> pa.Array:
    return lengths_of(lists).cast(pa.int64())


def _lists_differ(one: pa.Array, other: pa.Array) -> Flags:
    """Return bool [N]: which of N lists of equal lengths hold different values."""
    a, b = values_of(one), values_of(other)
    return rows_with(_flags_differ(a, b), offsets_of(one))


def _flags_differ(a: pa.Array, b: pa.Array) -> Flags:
    whole = not (a.null_count or b.null_count)
    if whole and all(pa.types.is_boolean(x.type) or pa.types.is_integer(x.type) for x in (a, b)):
        one, other = (bits(x) if pa.types.is_boolean(x.type) else numbers(x).numpy() for x in (a, b))
        different: Flags = one != other
        return different
    return bits(_values_differ(a, b).fill_null(False))


def _values_differ(a: pa.Array, b: pa.Array) -> pa.Array:
    """Return bool [P], null where either is null: values compared in the coarser of the two types."""
    if pa.types.is_nested(a.type) or pa.types.is_nested(b.type):
        a, b = (_as_text(x) for x in (a, b))
    if any(pa.types.is_floating(x.type) for x in (a, b)):
        a, b = (x.cast(pa.float32(), safe=False) if _countable(x.type) else x for x in (a, b))
    if pa.types.is_boolean(a.type) != pa.types.is_boolean(b.type):
        a, b = (x.cast(pa.int64()) if _countable(x.type) else x for x in (a, b))
    if a.type != b.type and not (_countable(a.type) and _countable(b.type)):
        a, b = a.cast(pa.large_string()), b.cast(pa.large_string())
    return pc.not_equal(a, b)


def _as_text(nested: pa.Array) -> pa.Array:
    return pa.array([None if item is None else str(item) for item in nested.to_pylist()], pa.large_string())


def _countable(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))
