"""The tokens of a batch in two: those that no recipe touches, and the others."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from iscope.ledger.bulk import Bulk
from iscope.ledger.histogram import Counts
from iscope.recipes.model import Pair
from iscope.replay.view import TokenView

Columns = dict[str, Tensor]


@dataclass(frozen=True)
class Split:
    """The tokens of a batch: those that no recipe touches, summed up, and the others.

    Attributes:
        bulk: sums over the tokens inside the screen.
        rest: the tokens outside.
        raw: histogram of the log-ratios of all tokens, by pair.
    """

    bulk: Bulk
    rest: TokenView
    raw: dict[Pair, Counts]
