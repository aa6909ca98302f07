"""What verl's recipes are made of: weight rules, rejection filters, and the notes on them (verl 0.9.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from iscope.recipes.model import (
    Filter,
    FilterList,
    Level,
    LogClamp,
    Pair,
    Quantity,
    Reduction,
    Ref,
    WeightRule,
)
from iscope.recipes.verl_losses import COUNT_EPSILON, LIMITS

ICEPOP = "icepop"
OF_SUM = replace(LIMITS, of="sum")
_KS = {"k1": Quantity.K1, "k2": Quantity.K2, "k3": Quantity.K3}
_TWO_SIDED = ("token_k1", "seq_sum_k1", "seq_mean_k1")
RS_OPTIONS = (
    *(f"{level}_{k}" for level in ("token", "seq_sum", "seq_mean") for k in _KS),
    "seq_max_k2",
    "seq_max_k3",
)
_REDUCTIONS = {
    "token": Reduction.TOKEN,
    "seq_sum": Reduction.SUM,
    "seq_mean": Reduction.MEAN,
    "seq_max": Reduction.MAX,
}
DECOUPLED, BYPASS = Pair.TRAINER_INFERENCE, Pair.CURRENT_INFERENCE


def _rejection(name: str, pair: Pair) -> Filter:
    reduction, _, k = name.rpartition("_")
    return Filter(
        name,
        _KS[k],
        _REDUCTIONS[reduction],
        pair=pair,
        space="log" if k == "k1" else "plain",
        acts_on="token" if reduction == "token" else "rollout",
        drops=True,
        spares_penalty=pair is BYPASS,  # it happens inside the policy loss there
        nan_kept=False,
        clamp=LIMITS,
        logged=True,
    )


_REJECTIONS = {pair: tuple(_rejection(name, pair) for name in RS_OPTIONS) for pair in (DECOUPLED, BYPASS)}


def rejections(names: Ref | tuple[str, ...], bounds: str, pair: Pair = DECOUPLED) -> FilterList:
    """Return the rejections that an option, or these names, list; ``bounds`` is the option with their bounds."""
    return FilterList(names, Ref(bounds), _REJECTIONS[pair], _TWO_SIDED)


def weight(level: Level | Ref, bound: str, pair: Pair = DECOUPLED, clamp: LogClamp = LIMITS) -> WeightRule:
    """Return the weight rule whose upper truncation is the option ``bound`` where that holds no pair."""
    high = Ref(bound, part="single")
    return WeightRule(level, pair, clamp, high=high, count_epsilon=COUNT_EPSILON, logged=True)


def unweighted(pair: Pair = DECOUPLED) -> WeightRule:
    """Return the weight rule of no weight; its pair is what the metrics are of."""
    return WeightRule(pair=pair, clamp=LIMITS, count_epsilon=COUNT_EPSILON, logged=True)


def icepop(level: Literal["token", "sequence"], bound: str, pair: Pair = DECOUPLED) -> Filter:
    """Weight 0 outside a pair of bounds; there is none with a bound alone."""
    of_rollout = level == "sequence"
    return Filter(
        ICEPOP,
        reduction=Reduction.SUM if of_rollout else Reduction.TOKEN,
        low=Ref(bound, part="low"),
        high=Ref(bound, part="high"),
        pair=pair,
        acts_on="rollout" if of_rollout else "token",
        nan_kept=False,
        clamp=OF_SUM if of_rollout else LIMITS,
    )


VERSION = "verl 0.9.1"
CONFIG = f"{VERSION}, algorithm.rollout_correction"
RHO = {
    DECOUPLED: "d_t = trainer_t - inference_t",
    BYPASS: "d_t = current_t - inference_t",
}
LIMITS_TEXT = "exponents within +-20"
LEVELS = f"rho_t = exp(d_t) with level=token, exp(sum_t d_t) of the rollout with level=sequence, {LIMITS_TEXT}"
KS_TEXT = (
    "k1 = -d_t, k2 = d_t^2 / 2, k3 = exp(d_t) - 1 - d_t with d_t within +-20; per token, or as sum, mean or maximum of "
    "the rollout; keep where ln(L) <= k1 <= ln(U), k2 <= U, k3 <= U"
)

INVERTED = (
    "The bounds of k1 are inverted: the statistic is -log rho but the bounds are ln(L) and ln(U), so L_U keeps "
    "1/U <= rho <= 1/L. 0.5_1.2 keeps rho 1.5 and rejects 0.7; with bounds that are each other's reciprocal nothing "
    "shows."
)
AND = "Each option sees the original loss mask; what any of them rejects is rejected."
DROPPED = (
    "Rejected tokens leave the loss mask: with use_v1=true they still count in token-mean's denominator, with "
    "use_v1=false they do not; the seq-mean modes divide by global_batch_size either way, and a rollout's own mean is "
    "over what remains."
)
NO_LOWER = "With one bound there is no lower one: a tiny weight stays as it is; metrics take 1/threshold for low."
ZEROED = "With a pair (IcePop) a weight outside is 0, but the token stays in the loss mask and its denominators."
NORMALISED = (
    "batch_normalize divides by the mean after the bounds, so that a weight can exceed threshold; the mean is over the "
    "whole batch, rejected tokens included. It does not go together with geo_mean here: verl adds 1e-10 to each weight "
    "before it takes the log, and that depends on the mean."
)
LOGGED = (
    "Logged metrics are before rejection and batch normalisation. rollout_corr/rollout_is_max is after truncation at "
    "level token but before it at level sequence."
)
DEFAULTS = "The options are verl's class defaults; its YAML leaves rollout_is and rollout_rs null, which is verl/none."
RS_DEFAULTS = "verl leaves rollout_rs null; the defaults here are those of its preset decoupled_seq_is_rs."
MICRO_BATCH = (
    "verl does this per micro-batch in each rank and averages the metrics; a dump does not hold that layout, so here "
    "the batch is one micro-batch, and the metrics, named actor/rollout_corr there, are those of the whole batch."
)
CLIP_ONLY = "No weight is applied on top: the clipped ratio current/inference is the correction."
