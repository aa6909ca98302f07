"""How the token ids of two sides of a rollout compare."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from iscope.dump.ragged import numbers, offsets_of, values_of
from iscope.dump.table import Block

# In the order of the report: the same ids; one side's begin, or end, the other's (EOS, a stop string, the prompt on one
# side alone); other ids (another tokeniser, or rollouts that were mistaken for one another); no ids on some side.
VERDICTS = ("equal", "prefix", "suffix", "ids_differ", "ids_unknown")


def verdicts(block: Block) -> dict[str, int]:
    """Return how many of a block's N joined rows have which verdict, trainer against inference side."""
    one, other = (block.arrays.get(f"{side}_token_ids") for side in ("trainer", "inference"))
    if one is None or other is None:
        return {"ids_unknown": len(block)} if len(block) else {}
    known = _known(one) & _known(other)
    counts = dict.fromkeys(VERDICTS, 0) | {"ids_unknown": int((~known).sum())}
    if not known.all():
        flags = pa.array(known)
        one, other = one.filter(flags), other.filter(flags)
    edges = offsets_of(one), offsets_of(other)
    values = numbers(values_of(one)).numpy(), numbers(values_of(other)).numpy()
    for row in range(len(one)):
        a, b = (ids[edge[row] : edge[row + 1]] for ids, edge in zip(values, edges, strict=True))
        counts[_verdict(a, b)] += 1
    return {name: count for name, count in counts.items() if count}


def _known(lists: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(lists.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def _verdict(a: np.ndarray[tuple[int], np.dtype[np.int64]], b: np.ndarray[tuple[int], np.dtype[np.int64]]) -> str:
    if len(a) == len(b):
        return "equal" if np.array_equal(a, b) else "ids_differ"
    short, long = (a, b) if len(a) < len(b) else (b, a)
    if np.array_equal(short, long[: len(short)]):
        return "prefix"
    return "suffix" if np.array_equal(short, long[len(long) - len(short) :]) else "ids_differ"
