"""A test of whether tokens were sampled from the logged probabilities, by how often rollouts of one prompt agree.

While the rollouts of a group share every token so far, their next tokens are draws from one distribution mu. For two of
them the chance that the second equals the first, given the first, is mu of it, which is logged. So

    sum over draws of (share of the other draws that are equal to it) - q

has mean 0 if q = mu, and a positive one if mu is sharper than what was logged. Equal tokens are told by equal logprobs,
so no token ids are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iscope.analysis.findings.statistics import Estimate, ratio

if TYPE_CHECKING:
    from iscope.analysis.findings.tokens import Tokens
    from iscope.analysis.numbers import Array

_SAME_TOKEN = 0.02  # nats; two runs of an engine over one context differ by less, two tokens hardly ever
_MOST_POSITIONS = 256


@dataclass(frozen=True)
class Agreement:
    """How much more rollouts agree than the logged probabilities say.

    Attributes:
        excess: mean over draws of (share of equal draws) - q, by group.
        draws: how many draws shared their context with another.
    """

    excess: Estimate
    draws: int


def agreement(tokens: Tokens, chosen: Array) -> Agreement:
    """Compare the shared beginnings of the rollouts of each group.

    Args:
        tokens: the sample; only rollouts scored from their first loss token on are looked at.
        chosen: bool [N], the rollouts to look at.
    """
    excess, draws = np.zeros(tokens.rollouts), np.zeros(tokens.rollouts)
    rows = np.flatnonzero(chosen & tokens.from_the_start)
    node = tokens.clusters[rows]
    for position in range(_MOST_POSITIONS):
        there = tokens.lengths[rows] > position
        rows, node = rows[there], node[there]
        if not rows.size:
            break
        logprob = tokens.inference[tokens.starts[rows] + position]
        order = np.lexsort((logprob, node))
        rows, node, logprob = rows[order], node[order], logprob[order]
        splits = np.diff(node, prepend=-1) != 0
        in_node = _sizes(splits)
        branches = splits | (np.diff(logprob, prepend=np.inf) > _SAME_TOKEN)
        in_branch = _sizes(branches)
        shared = in_node > 1
        excess[rows[shared]] += (in_branch[shared] - 1) / (in_node[shared] - 1) - np.exp(logprob[shared])
        draws[rows[shared]] += 1
        kept = in_branch > 1
        rows, node = rows[kept], np.cumsum(branches)[kept]
    known = draws > 0
    return Agreement(ratio(excess[known], draws[known], tokens.clusters[known]), int(draws.sum()))


def _sizes(begins: Array) -> Array:
    """Size of the run that each element is in, given where runs begin."""
    places = np.flatnonzero(begins)
    lengths = np.diff(np.append(places, begins.size))
    return np.repeat(lengths, lengths)
