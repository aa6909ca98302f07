"""What a loss that logs its lag does at its limits: flags and log-ratios of each token [P]."""

from __future__ import annotations

from torch import Tensor

from iscope.recipes.model import Loss, bound_value
from iscope.replay.losses.divergence import within
from iscope.replay.losses.geometric import cut_flags
from iscope.replay.losses.shared import loss_ratio
from iscope.replay.losses.surrogates import dual_clipped
from iscope.replay.view import TokenView
from iscope.replay.weights import clamp_log


def lag(view: TokenView, loss: Loss) -> Tensor:
    """-log r of each token, float64 [P], nats, within the loss's limits of a token (verl 0.9.1, actor/ppo_kl)."""
    log = view.exact(loss.pair)
    return -(clamp_log(log, loss.clamp) if loss.level == "token" else log)


def limit_flags(view: TokenView, signal: Tensor, loss: Loss) -> dict[str, Tensor]:
    """Where a loss type stops, bool [P] each.

    Source: verl 0.9.1, actor/pg_clipfrac and actor/pg_clipfrac_lower. ``dual_clipped``: A < 0 and r above the dual
    clip. ``diverged``: outside the trust region of dppo; ``truncated``: inside it, r above delta. ``cut_positive`` and
    ``cut_negative``: log r outside the limits of geo_mean, by sign of A. ``limited``: r of cispo outside its bounds.
    """
    if loss.type == "geo_mean":
        cut = cut_flags(view, loss)
        return {"cut_positive": cut & (signal > 0), "cut_negative": cut & (signal < 0)}
    if loss.type == "dppo":
        inside, delta = within(view, signal, loss), bound_value(loss.delta)
        flags = {"diverged": ~inside}
        return flags if delta is None else flags | {"truncated": inside & (loss_ratio(view, loss)[0] > delta)}
    if loss.type == "cispo":
        ratio = loss_ratio(view, loss)[0]
        return {"limited": ratio != ratio.clamp(bound_value(loss.low), bound_value(loss.high))}
    if loss.dual is not None:
        return {"dual_clipped": (signal < 0) & dual_clipped(loss_ratio(view, loss)[0], loss)}
    return {}
