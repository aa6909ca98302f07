"""The gap of a dump's tokens step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

from iscope.analysis.findings.tokens import Tokens
from iscope.analysis.order_statistics import median
from iscope.replay.compiled import compiled
from iscope.replay.exponential import expm1_and_rest

_GAP_BELOW = float(np.log(0.999))

# The median gap by step.
Gaps = dict[Any, float]


def gaps_by_step(tokens: Tokens) -> Gaps | None:
    """Return the median of abs(d) / (1 - q) over the tokens with q < .999, by step; None where no step is known."""
    if "step" not in tokens.frame.columns or not tokens.size:
        return None
    frame = tokens.frame["step"]
    code = frame.rank("dense").fill_null(0).cast(int).to_numpy()
    order = np.argsort(code, kind="stable")
    gaps, counts = np.empty(tokens.size), np.empty(order.size, dtype=np.int64)
    fill_gaps(gaps, counts, order, tokens.starts, tokens.lengths, tokens.trainer, tokens.inference)
    first = np.flatnonzero(np.diff(code[order], prepend=-1))
    ends = np.cumsum(np.add.reduceat(counts, first))
    parts = zip(frame.gather(order[first]).to_list(), np.split(gaps[: ends[-1]], ends[:-1]), strict=True)
    return {step: median(part) for step, part in parts if part.size}


@compiled()
def fill_gaps(found: Any, counts: Any, order: Any, starts: Any, lengths: Any, trainer: Any, inference: Any) -> None:
    """Write the gap of each token with q < .999, rollout after rollout.

    Args:
        found: where to write, nats, float64 [P].
        counts: how many each rollout has, to be written, int64 [N], in the order of the rollouts.
        order: which rollout comes when, int64 [N].
        starts: where the tokens of each rollout begin, int64 [N].
        lengths: how many they are, int64 [N].
        trainer: float32 [P], nats.
        inference: float32 [P], nats.
    """
    end = 0
    for place in range(len(order)):
        begin, start = end, np.uint64(starts[order[place]])
        for token in range(start, start + np.uint64(lengths[order[place]])):
            q = float(inference[token])
            found[end] = abs(float(trainer[token]) - q) / -expm1_and_rest(q)[0]
            end += q < _GAP_BELOW
        counts[place] = end - begin
