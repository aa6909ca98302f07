"""What the tokens before a token say of it."""

from __future__ import annotations

import torch
from torch import Tensor

from iscope.recipes.model import Pair
from iscope.replay.segments import Segments
from iscope.replay.view import TokenView


def smallest_before(view: TokenView, pair: Pair) -> Tensor:
    """Smallest log-ratio of the tokens before each token of its rollout, float64 [P], nats; 0 for the first one.

    Source: Lei, Cheng and Tao, arXiv 2601.22718 (MinPRO): the minimum of the token ratios of the preceding prefix.
    """
    whole = view.rollouts
    smallest = exclusive_minimum(whole.exact(pair), whole.segments)
    if whole is view:
        return smallest
    assert isinstance(view.taken, Tensor)
    return smallest[view.taken]


def exclusive_minimum(values: Tensor, segments: Segments) -> Tensor:
    """Smallest of the values [P] before each one in its segment; 0 for the first of a segment.

    Running minima over whole numbers, the ranks of the values, of which those of later segments are all lower: exact,
    whatever stands beside a segment.
    """
    if not segments.tokens:
        return values.clone()
    order = values.argsort(stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(segments.tokens, device=segments.device)
    start = segments.tokens * segments.expand(torch.arange(segments.rows, device=segments.device))
    running = values[order[(rank - start).cummin(0).values + start]]
    before = torch.zeros_like(values)
    before[1:] = running[:-1]
    first = segments.offsets[:-1][segments.lengths > 0]
    before[first] = 0.0
    return before
