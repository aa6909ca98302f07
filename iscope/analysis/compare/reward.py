"""Off-policy reward: what the trainer's policy would have earned, by the product weights; only where they tell."""

from __future__ import annotations

import numpy as np

from iscope.analysis.figures.tail import sequence_tail
from iscope.analysis.figures.variance_ratio import variance_ratio
from iscope.analysis.intervals import closed, ratio
from iscope.analysis.numbers import NO_TOKENS, Scaled
from iscope.analysis.rows import Rows
from iscope.model import Figure
from iscope.recipes.model import Pair

MOST_KHAT, LEAST_SIZE, MOST_VARIANCE, MOST_SHARE = 0.7, 100.0, 2.0, 0.1


def off_policy_reward(rows: Rows) -> Figure:
    """Sum of exp(S) r over the sum of exp(S), trainer over inference, over the rollouts with a reward.

    Source: self-normalised importance sampling. Absent with the reason where k-hat of exp(S) is 0.7 or more, its
    effective sample size below 100 rollouts, the variance ratio 2 or more, or one rollout holds 10% of all exp(S).
    Advantages are no rewards: those of a group are normalised, and average to nothing whatever the policy.
    """
    if "reward" not in rows:
        return Figure.absent("the dump has no reward column")
    reward = rows["reward"].astype(np.float64)
    known = np.isfinite(reward)
    weights = Scaled(np.where(known, rows.log_ratio("sequence"), -np.inf))
    if not known.any():
        return Figure.absent(NO_TOKENS if not rows.rollouts else "every reward is missing")
    why = _untold(rows, weights)
    if why is not None:
        return Figure.absent(f"withheld: {why}")
    return closed(ratio(rows.clusters, weights.values * np.where(known, reward, 0.0), weights.values))


def _untold(rows: Rows, weights: Scaled) -> str | None:
    """Why the product weights do not tell; None where they do."""
    share = float(weights.values.max() / weights.values.sum())
    if share >= MOST_SHARE:
        return f"one rollout holds {share:.0%} of all exp(S)"
    khat = sequence_tail(rows, Pair.TRAINER_INFERENCE).khat.value
    if khat is None or khat >= MOST_KHAT:
        return "k-hat of exp(S) is not known" if khat is None else f"k-hat of exp(S) is {khat:.2f}, not below 0.7"
    size = weights.effective_size()
    if size < LEAST_SIZE:
        return f"exp(S) is worth {size:.0f} rollouts, fewer than 100"
    found = variance_ratio(rows)
    if found.value is not None and found.value >= MOST_VARIANCE:
        return f"the variance ratio is {found.value:.1f}, not below 2: the trainer has seen these rollouts"
    return None
