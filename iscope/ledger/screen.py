"""The screen: the band of log-ratios inside which no recipe of a plan acts on a single token.

Inside it every token keeps its plain weight, so such tokens are summed once for all recipes; only the few outside are
replayed per recipe. Tokens near the edge of a band are left outside: there the recipe's own float32 expression decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from iscope.ledger.plan import Plan

# The widest screen: ratios within [1/2, 2], which the reports count on either side.
_WIDEST = math.log(2.0)
# A recipe that acts closer to d = 0 than this would leave most tokens outside; it is replayed on every token instead.
_NARROWEST = 0.05
# Distance from a bound at which rounding could change a decision, relative and absolute.
_MARGIN = 1e-5

COUNTED = (_MARGIN - _WIDEST, _WIDEST - _MARGIN)
"""The band of a pair that no recipe reads token by token: ratios outside [1/2, 2] are counted of every pair."""


@dataclass(frozen=True)
class Screen:
    """Where a plan's recipes can act.

    Attributes:
        low: lower edge of the band, nats.
        high: upper edge of the band, nats.
        dense: indices of the recipes that must see every token.
    """

    low: float
    high: float
    dense: frozenset[int]


def screen_of(plan: Plan) -> Screen:
    """Intersect the quiet bands of a plan's recipes; it holds for every policy pair that the plan reads."""
    low, high = -_WIDEST, _WIDEST
    dense = set()
    for index, band in enumerate(plan.quiet_bands):
        if band is None or band[0] > -_NARROWEST or band[1] < _NARROWEST:
            dense.add(index)
        else:
            low, high = max(low, band[0]), min(high, band[1])
    return Screen(low + _MARGIN, high - _MARGIN, frozenset(dense))
