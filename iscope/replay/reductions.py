"""Compiled reductions of values [P] over the segments of a ragged layout: one value each [N], from offsets [N + 1]."""

from __future__ import annotations

from typing import Any

from iscope.replay.compiled import LANES, compiled, tokens_of


@compiled(LANES)
def sums(found: Any, offsets: Any, values: Any) -> None:
    """Sum each segment in the type of what is written to; 0 where it is empty."""
    for row in range(len(found)):
        total = found.dtype.type(0)
        for place in tokens_of(offsets, row):
            total += values[place]
        found[row] = total


@compiled()
def counts(found: Any, offsets: Any, flags: Any) -> None:
    """Count the flags that are set in each segment, int64."""
    for row in range(len(found)):
        count = 0
        for place in tokens_of(offsets, row):
            count += flags[place]
        found[row] = count


@compiled()
def largest(found: Any, offsets: Any, values: Any, empty: Any) -> None:
    """Take the largest of each segment, and ``empty``; NaN where one is."""
    for row in range(len(found)):
        top = empty
        for place in tokens_of(offsets, row):
            value = values[place]
            top = value if value > top or value != value else top
        found[row] = top


@compiled()
def smallest(found: Any, offsets: Any, values: Any, empty: Any) -> None:
    """Take the smallest of each segment, and ``empty``; NaN where one is."""
    for row in range(len(found)):
        low = empty
        for place in tokens_of(offsets, row):
            value = values[place]
            low = value if value < low or value != value else low
        found[row] = low
