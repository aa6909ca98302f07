"""What frameworks log of a loss per token: where it is clipped, VESPO's weight, the KL term before its factor."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from iscope.recipes.model import BoundRecipe, Loss, bound_value
from iscope.replay.correction import correct
from iscope.replay.filters import reject
from iscope.replay.losses import signal_of
from iscope.replay.losses.influence import future_kl, influence, unsafe
from iscope.replay.losses.limits import lag, limit_flags
from iscope.replay.losses.penalties import penalty_terms
from iscope.replay.losses.shared import loss_ratio
from iscope.replay.losses.soft import vespo_phi
from iscope.replay.view import TokenView


def indicators(view: TokenView, recipe: BoundRecipe) -> dict[str, Tensor]:
    """Compute the quantities that say what a recipe's loss does, [P] each, flags or float64.

    Source: TRL 1.16.0, clip_ratio/*, cispo_clip_ratio, vespo/phi_seq_mean and kl. ``clipped_low``: A < 0 and r below
    the lower bound; ``clipped_high``: A > 0 and r above the upper one, r after delta; ``capped``: A > 0 and r above
    CISPO's cap; ``phi``: VESPO's weight; ``kl``: the estimate in nats, times r where the penalty has that factor;
    ``gated``: rejected by the loss's own condition; ``ratio`` and ``outside``: CISPO's r, and whether it lies outside
    its bounds, whatever A (SkyRL a9564572, cispo/ratio_mean and clip_ratio); ``clipped_ratio``: r within its bounds
    (NeMo-RL, probs_ratio_clamped); ``nll``: -log pi, where the loss has a term of it (NeMo-RL, positive_nll_loss);
    ``future_kl``, ``influence`` and ``unsafe``: FIPO's sum of later log r in nats, its factor, and where that is held
    at most 1 (ms-swift 4.6.0, fipo/*). Where the loss clips the weight of a whole rollout, r is that weight.

    Args:
        view: the tokens of whole rollouts. Without current logprobs or advantages only ``kl`` and ``nll`` can be told.
        recipe: the recipe, values only.
    """
    found: dict[str, Tensor] = {}
    loss, penalty = recipe.loss, recipe.loss.penalty
    if view.current is not None and view.advantage is not None:
        signal = signal_of(view, loss)
        found |= _clipping(view, recipe, signal)
        if loss.logs.ratio and loss.uses_ratio:
            found["clipped_ratio"] = loss_ratio(view, loss)[1].clamp(bound_value(loss.low), bound_value(loss.high))
        if loss.logs.lag:
            found |= {"lag": lag(view, loss)} | limit_flags(view, signal, loss)
        if loss.gate is not None:
            found["gated"] = reject(view, loss.gate).out
        if loss.influence is not None:
            found |= {
                "future_kl": future_kl(view, loss, loss.influence),
                "influence": influence(view, signal, loss, loss.influence),
                "unsafe": unsafe(view, signal, loss, loss.influence),
            }
        if loss.type == "vespo":
            found["phi"] = vespo_phi(view, signal, correct(view, recipe).token_weight(view), loss)
    if penalty is not None and bound_value(penalty.coefficient):
        found["kl"] = penalty_terms(view, loss, replace(penalty, coefficient=1.0))[0]
    if loss.needs_reward:
        found["nll"] = -view.policy.double()
    return found


def _clipping(view: TokenView, recipe: BoundRecipe, signal: Tensor) -> dict[str, Tensor]:
    loss = recipe.loss
    low, high, delta = bound_value(loss.low), bound_value(loss.high), bound_value(loss.delta)
    if loss.type == "clipped_weight" and loss.level == "sequence":
        ratio = correct(view, recipe).token_weight(view).to(view.trainer.dtype)
    elif loss.type in ("clipped_surrogate", "cispo") or (loss.type == "clipped_weight" and loss.logs.lag):
        ratio = loss_ratio(view, loss)[0]
    else:
        return {}
    ratio = ratio if delta is None else ratio.clamp(max=delta)
    if loss.type == "cispo":
        return _capping(view, loss, ratio) | ({} if high is None else {"capped": (ratio > high) & (signal > 0)})
    flags = {} if low is None else {"clipped_low": (ratio < low) & (signal < 0)}
    return flags if high is None else flags | {"clipped_high": (ratio > high) & (signal > 0)}


def _capping(view: TokenView, loss: Loss, ratio: Tensor) -> dict[str, Tensor]:
    low, high = bound_value(loss.low), bound_value(loss.high)
    if low is None or high is None or not loss.logs.ratio:
        return {}
    return {"ratio": loss_ratio(view, loss)[1], "outside": (ratio < low) | (ratio > high)}
