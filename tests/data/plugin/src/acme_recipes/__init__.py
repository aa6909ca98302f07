"""Recipes of a package of someone else's: data and a function."""

from __future__ import annotations

from iscope.recipes.model import Filter, Level, Option, Recipe, Ref, WeightRule
from iscope.recipes.own.function import recipe


@recipe("acme/damped")
def damped(view, rate: float = 0.25):
    """Token weight that decays with the square of the log-ratio; nothing is masked."""
    from iscope.recipes.model import Pair

    d = view.exact(Pair.TRAINER_INFERENCE)
    return (d - rate * d * d).exp()


RECIPES = [
    Recipe(
        name="acme/token_mask",
        summary="Token ratio as weight; tokens outside the bounds get weight 0.",
        formula="w_t = rho_t if clip_min <= rho_t <= clip_max, else 0",
        source="acme 1.2",
        options=(
            Option(
                "vllm_importance_sampling_clip_min",
                "clip_min",
                "float",
                None,
                "Lower bound of the token ratio, inclusive.",
                nullable=True,
            ),
            Option(
                "vllm_importance_sampling_clip_max",
                "clip_max",
                "float",
                3,
                "Upper bound of the token ratio, inclusive.",
                nullable=True,
            ),
        ),
        weight=WeightRule(Level.TOKEN),
        filters=(Filter("token_mask", low=Ref("clip_min"), high=Ref("clip_max")),),
        framework="trl",
    ),
    damped,
]
