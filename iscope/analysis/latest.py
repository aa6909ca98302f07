"""What figures of one recipe share and the next recipe's do not."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from iscope.analysis.rows import Rows

T = TypeVar("T")


def latest(rows: Rows, kind: str, name: Hashable, make: Callable[[], T]) -> T:
    """Return what ``make`` returns, held until another name of its kind is asked for.

    Arrays as long as the dump are to be shared, but not to be held for each of many recipes.
    """
    held: dict[Hashable, T] = rows.once(("latest", kind), dict)
    if name not in held:
        held.clear()
        held[name] = make()
    return held[name]
