"""Compiled loops over the tokens of a batch that say which of them are meant, and take them out."""

from __future__ import annotations

from typing import Any

from iscope.replay.compiled import compiled, tokens_of


@compiled()
def take(found: Any, values: Any, flags: Any) -> None:
    """Write the values [B] whose flag is set to [P + 1]; the last place is of no meaning."""
    place = 0
    for token in range(len(flags)):
        found[place] = values[token]
        place += flags[token]


@compiled()
def places(found: Any, flags: Any) -> int:
    """Write where flags [B] are set to the front of int64 [B + 1], in rising order, and return how many are."""
    place = 0
    for token in range(len(flags)):
        found[place] = token
        place += flags[token]
    return place


@compiled()
def offsets_left(found: Any, offsets: Any, flags: Any) -> None:
    """Write the offsets, int64 [N + 1], of segments from which the tokens [B] without a flag are taken out."""
    place = 0
    found[0] = place
    for row in range(len(offsets) - 1):
        count = 0
        for token in tokens_of(offsets, row):
            count += flags[token]
        place += count
        found[row + 1] = place


@compiled()
def unusable_or_positive(values: Any, lowest: Any, highest: Any) -> tuple[bool, bool]:
    """Whether some value [B] is not in (``lowest``, ``highest``], NaN among them, and whether some is above 0."""
    wrong = positive = False
    for token in range(len(values)):
        wrong |= not ((values[token] > lowest) & (values[token] <= highest))
        positive |= values[token] > 0
    return wrong, positive
