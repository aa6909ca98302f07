"""What the figures of the page mean: a glossary, one click away from each of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Definition:
    """A term of the glossary.

    Attributes:
        title: the term, as headings write it.
        text: estimator, level, denominator, unit, and how to read it.
    """

    title: str
    text: str


DEFINITIONS: dict[str, Definition] = {
    "log_ratio": Definition(
        "d, S, G",
        "d = trainer logprob - inference logprob of a sampled token, nats; rho = exp(d). S is the sum of d over a "
        "rollout's scored tokens, G = S / n their mean. Always trainer over inference, unless a figure says current "
        "over inference.",
    ),
    "scored": Definition(
        "scored token",
        "A token whose loss mask is true and on which every policy's logprob is usable. Unusable ones (NaN, null, "
        "infinite, sentinels, positive) are counted by kind and are part of no figure.",
    ),
    "k3": Definition(
        "mismatch KL: k1, k2, k3",
        "Estimators of KL(inference || trainer), nats per scored token, pooled over tokens: k1 = mean(-d), k2 = "
        "mean(d²)/2, k3 = mean(exp(d) - 1 - d). k3 is never negative and is the one to watch; it also moves with how "
        "peaked the sampling is, see the breakdown by p.",
    ),
    "gap": Definition(
        "gap",
        "Median of |d| / (1 - q) over scored tokens with q < .999, nats: the mismatch with its dependence on how "
        "peaked the sampling is taken out. q = exp(inference logprob).",
    ),
    "by_p": Definition(
        "by p",
        "Scored tokens in buckets of q = exp(inference logprob): share of the tokens, of the sum of k3 and of the "
        "uncorrected gradient |A| (1 - p).",
    ),
    "variance_ratio": Definition(
        "variance ratio",
        "sum over rollouts of (sum of (rho - 1))², over the sum over tokens of (rho - 1)². 1 on fresh rollouts "
        "whatever the engine or the lag; far above 1 when the numerator was trained on these very rollouts, or when "
        "the logged policy is not the sampler.",
    ),
    "khat": Definition(
        "Pareto k-hat",
        "Shape of the upper tail of the raw ratios, fitted as in Pareto smoothed importance sampling. Below 0.5 they "
        "have a variance, from 1 on no mean; above the threshold so few draws tell no mean reliably.",
    ),
    "ratio": Definition(
        "ratio: token, sequence, geometric",
        "Trainer over inference: exp(d) of each scored token, exp(S) of each rollout, exp(G) of each rollout, before "
        "any correction. The unit (tokens or rollouts) stands beside each figure.",
    ),
    "bounds": Definition(
        "bounds",
        "What a rule lets pass unchanged: ratios not below its lower and not above its upper bound. A truncation "
        "changes the weight of the others, a filter rejects the token or the rollout.",
    ),
    "modified": Definition(
        "modified",
        "Share of the scored tokens, and of the rollouts with at least one, that the recipe's bounds truncate (change "
        "the weight) or mask (reject). Batch normalisation does not count.",
    ),
    "gradient_left": Definition(
        "gradient left",
        "Sum of g over that of the same loss at weight 1 with everything kept, where g is a rollout's sum of |c| (1 - "
        "p): c the derivative of the loss by the current logprob, policy term. Given for all rollouts, for advantage "
        "> 0 and for advantage < 0. Above 1 where weights add gradient.",
    ),
    "effective_batch_size": Definition(
        "effective batch size",
        "How many rollouts carry the gradient: (Σg)² / Σg² with g a rollout's gradient, beside the same figure at "
        "weight 1 with everything kept. Without advantages g is the rollout's mean applied weight.",
    ),
    "groups": Definition(
        "groups with both signs",
        "Groups with gradient of both signs of the advantage left, of those that had both before the correction.",
    ),
    "product_left": Definition(
        "product left",
        "Share of the kept gradient in rollouts whose weight differs from the unbiased product weight exp(S) by more "
        "than a factor of 2. 0% is unbiased as far as that goes; weight 1 on far-off rollouts is near 100%.",
    ),
    "kept_k3": Definition(
        "k3 kept, k3 masked",
        "k3 = mean(exp(d) - 1 - d) of the recipe's policy pair over the tokens that it keeps, and over those that it "
        "masks, pooled over tokens, nats.",
    ),
    "keep": Definition(
        "keep(T)",
        "The chance that a bound on S or G holds at T scored tokens. Observed: the share of the rollouts of that "
        "length, as replayed. Predicted: from the drift (mean d) and the noise (standard deviation of d) of this dump.",
    ),
    "position": Definition("position", "Index of a token from its rollout's first loss token, which is 0."),
    "lag": Definition(
        "lag", "Trainer (or current) version minus the version that sampled the rollout, in policy versions."
    ),
    "onset": Definition(
        "onset",
        "The first of three steps in a row at which a figure is away from its level over the first fifth of the "
        "steps, by more than 4 median absolute deviations and 25%. Needs ten steps.",
    ),
    "interval": Definition(
        "95% interval",
        "Cluster bootstrap over groups (rollouts where there are no groups), BCa, seeded. None for quantiles, maxima "
        "and k-hat, nor for fewer than ten clusters.",
    ),
}
