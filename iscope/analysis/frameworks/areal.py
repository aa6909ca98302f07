"""AReaL's metrics (1.0.4, grpo_loss_fn and its stats_tracker), the whole batch as one micro-batch.

``entropy`` and the vocabulary logits are left out: no dump has them. A count, and ``/avg``, ``/min`` and ``/max`` of
what is over no token, are absent. AReaL sums in float32: what overflows there may have a value here.
"""

from __future__ import annotations

from iscope.analysis.numbers import figure, share
from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figure, Figures
from iscope.replay.losses.tracked import weighs_behaviour

_NO_TOKENS = "no loss tokens"
_OF_VALID = ("importance_weight", "approx_kl", "new_logp", "old_logp", "actor_loss")
_OF_ACTING = ("prox_logp_gt", "kl_div_direct", "kl_div_taylor", "kl_div_dual")
_GATES = ("sapo_soft_gate", "sapo_scaled_gate_pos", "sapo_scaled_gate_neg")


def metrics(rows: RecipeRows) -> Figures:
    """rs_filtered_fraction and n_valid_tokens; with current logprobs and advantages all that AReaL tracks."""
    valid = _count(rows, "n_valid_tokens")
    found: Figures = {"n_valid_tokens": Figure(valid)}
    if weighs_behaviour(rows.recipe):
        found["rs_filtered_fraction"] = share(_count(rows, "filtered"), valid, _NO_TOKENS)
    if "tracked.acting" in rows:
        found |= _tracked(rows, valid)
    nan = int(rows.rows["nan_tokens"].sum())
    if nan:
        absent = Figure.absent(f"AReaL's own is NaN or an error: {nan} loss tokens have a NaN logprob")
        return dict.fromkeys(found, absent)
    return found


def _tracked(rows: RecipeRows, valid: int) -> Figures:
    sapo, acting = rows.recipe.loss.type == "sapo", _count(rows, "acting")
    found: Figures = {"compute_logp/n_valid_tokens": Figure(acting)}
    for name in (*_OF_VALID, *(_GATES if sapo else ())):
        found |= _stat(rows, name, valid)
    for name in _OF_ACTING:
        found |= _stat(rows, f"compute_logp/{name}", acting)
    for flag in ("clip", "dual_clip"):
        flagged = _count(rows, f"{flag}ped_tokens")
        found[f"{flag}ped_tokens"] = Figure(flagged)
        found |= _indicator(f"{flag}_ratio", flagged, valid)
    if not sapo:
        clipped = _count(rows, "clipped_tokens")
        found |= _stat(rows, "clipped_new_logp", clipped) | _stat(rows, "clipped_old_logp", clipped)
    if weighs_behaviour(rows.recipe):
        found["unclipped_behave_tokens"] = Figure(acting)
        found |= _stat(rows, "behave_imp_weight", acting) | _stat(rows, "behave_approx_kl", acting)
    return found


def _count(rows: RecipeRows, name: str) -> int:
    return int(rows[f"tracked.{name}"].sum())


def _stat(rows: RecipeRows, name: str, tokens: int) -> Figures:
    if not tokens:
        return {f"{name}/{stat}": Figure.absent("no such tokens") for stat in ("avg", "min", "max")}
    return {
        f"{name}/avg": share(float(rows[f"tracked.{name}_sum"].sum()), tokens),
        f"{name}/min": figure(float(rows[f"tracked.{name}_min"].min())),
        f"{name}/max": figure(float(rows[f"tracked.{name}_max"].max())),
    }


def _indicator(name: str, flagged: int, tokens: int) -> Figures:
    if not tokens:
        return {f"{name}/{stat}": Figure.absent(_NO_TOKENS) for stat in ("avg", "min", "max")}
    return {
        f"{name}/avg": share(flagged, tokens),
        f"{name}/min": Figure(float(flagged == tokens)),
        f"{name}/max": Figure(float(flagged > 0)),
    }
