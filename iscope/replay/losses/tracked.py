"""What AReaL logs of a loss and of its behaviour weight, token by token: values, and the tokens they are over."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from iscope.recipes.model import BoundRecipe, Level, Loss, Pair, bound_value
from iscope.replay.aggregation import dropped_tokens
from iscope.replay.correction import Correction, correct
from iscope.replay.losses import loss_terms, signal_of
from iscope.replay.losses.shared import loss_ratio
from iscope.replay.losses.surrogates import dual_clipped
from iscope.replay.segments import expm1, sigmoid
from iscope.replay.view import TokenView


@dataclass(frozen=True)
class Tracked:
    """Quantities of P tokens.

    Attributes:
        counts: sets of tokens, bool [P].
        values: float64 [P], and the set of tokens that each is over.
    """

    counts: dict[str, Tensor]
    values: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)


def tracked(view: TokenView, recipe: BoundRecipe) -> Tracked:
    """Compute what AReaL 1.0.4 (grpo_loss_fn) hands to its stats_tracker.

    ``n_valid_tokens``: what m2_threshold leaves. ``filtered``: those of them that rejection sampling rejects, or whose
    weight it cuts. Without current logprobs or advantages these are all.

    Args:
        view: the tokens of whole rollouts.
        recipe: the recipe, values only.
    """
    correction = correct(view, recipe)
    dropped, kept = dropped_tokens(view, recipe, correction), correction.keep(view)
    valid = torch.ones_like(kept) if dropped is None else ~dropped
    counts = {"n_valid_tokens": valid, "filtered": valid & (~kept | _cut(view, correction))}
    if view.current is None or view.advantage is None:
        return Tracked(counts)
    acting, values = valid, {}
    if weighs_behaviour(recipe):
        weight = correction.applied_weight(view)
        acting = kept & (weight.float() > 0)
        counts["unclipped_behave_tokens"] = acting
        values["behave_imp_weight"] = weight, acting
        values["behave_approx_kl"] = view.exact(Pair.TRAINER_INFERENCE), acting
    ratio, flags, gates = _of_left(view.only(kept), recipe.loss)
    clipped, dual = (_scatter(flag, kept) for flag in flags)
    counts |= {"clipped_tokens": clipped, "dual_clipped_tokens": dual, "acting": acting}
    new, old = view.policy.double(), view.inference.double()
    values |= {
        "importance_weight": (_scatter(ratio, kept), valid),
        "approx_kl": (view.exact(recipe.loss.pair), valid),
        "new_logp": (new, valid),
        "old_logp": (old, valid),
        "actor_loss": (loss_terms(view, recipe, correction).policy, valid),
        **{name: (_scatter(gate, kept), valid) for name, gate in gates.items()},
        **_drift(view, recipe.loss, acting),
    }
    if recipe.loss.type != "sapo":
        values |= {"clipped_new_logp": (new, clipped), "clipped_old_logp": (old, clipped)}
    return Tracked(counts, values)


def weighs_behaviour(recipe: BoundRecipe) -> bool:
    """Whether a weight of trainer over inference stands beside the loss's own ratio: rejection sampling is on."""
    return recipe.weight.level is not Level.NONE and recipe.loss.uses_ratio


def _cut(view: TokenView, correction: Correction) -> Tensor:
    weight = correction.weight
    flags = weight.low | weight.high
    return flags if weight.per_token else view.segments.expand(flags)


def _of_left(left: TokenView, loss: Loss) -> tuple[Tensor, tuple[Tensor, Tensor], dict[str, Tensor]]:
    """The loss's ratio of the tokens left, where it is clipped and dual clipped, and SAPO's gates."""
    signal, (decided, ratio) = signal_of(left, loss), loss_ratio(left, loss)
    none = torch.zeros_like(decided, dtype=torch.bool)
    if loss.type == "sapo":
        return ratio, (none, none), _gates(ratio, signal, loss)
    low, high = bound_value(loss.low), bound_value(loss.high)
    assert low is not None
    assert high is not None
    clipped = ((signal < 0) & (decided < low)) | ((signal > 0) & (decided > high))
    dual = none if loss.dual is None else (signal < 0) & dual_clipped(decided, loss)
    return ratio, (clipped, dual), {}


def _gates(ratio: Tensor, signal: Tensor, loss: Loss) -> dict[str, Tensor]:
    assert loss.temperature is not None
    positive, negative = bound_value(loss.temperature.positive), bound_value(loss.temperature.negative)
    assert positive is not None
    assert negative is not None
    for_positive = sigmoid(positive * (ratio - 1)) * 4 / positive
    for_negative = sigmoid(negative * (ratio - 1)) * 4 / negative
    return {
        "sapo_scaled_gate_pos": for_positive,
        "sapo_scaled_gate_neg": for_negative,
        "sapo_soft_gate": torch.where(signal > 0, for_positive, for_negative),
    }


def _drift(view: TokenView, loss: Loss, acting: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """The logprob that stands for the old policy's, and three estimates of KL(inference, current)."""
    d = view.exact(Pair.CURRENT_INFERENCE)
    return {
        "compute_logp/prox_logp_gt": (view.denominator(loss.pair).double(), acting),
        "compute_logp/kl_div_direct": (-d, acting),
        "compute_logp/kl_div_taylor": (d * d / 2, acting),
        "compute_logp/kl_div_dual": (expm1(d) - d, acting),
    }


def _scatter(values: Tensor, kept: Tensor) -> Tensor:
    """Values of the tokens kept, with 0 for the others [P]."""
    return values.new_zeros(kept.numel()).masked_scatter_(kept, values)
