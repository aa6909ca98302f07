"""The gap of a dump's tokens step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

from iscope.analysis.findings.tokens import Tokens
from iscope.analysis.order_statistics import median

_GAP_BELOW = float(np.log(0.999))

# The median gap by step.
Gaps = dict[Any, float]


def gaps_by_step(tokens: Tokens) -> Gaps | None:
    """Return the median of abs(d) / (1 - q) over the tokens with q < .999, by step; None where no step is known."""
    if "step" not in tokens.frame.columns or not tokens.size:
        return None
    below = tokens.inference < _GAP_BELOW
    counts = np.add.reduceat(below, tokens.starts, dtype=np.int64)
    uncertain = np.flatnonzero(below)
    gaps = tokens.magnitude[uncertain] / -np.expm1(tokens.inference[uncertain])
    frame = tokens.frame["step"]
    code = frame.rank("dense").fill_null(0).cast(int).to_numpy()
    # Rollouts are put in order, and their tokens with them: far fewer than there are tokens.
    order = np.argsort(code, kind="stable")
    order = order[counts[order] > 0]
    if not order.size:
        return {}
    first = np.flatnonzero(np.diff(code[order], prepend=-1))
    ends = np.cumsum(counts[order])
    shift = (np.cumsum(counts) - counts)[order] - (ends - counts[order])
    ordered = gaps[np.repeat(shift, counts[order]) + np.arange(gaps.size)]
    medians = [median(part) for part in np.split(ordered, ends[first[1:] - 1])]
    return dict(zip(frame.gather(order[first]).to_list(), medians, strict=True))
