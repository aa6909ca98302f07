"""A framework of someone else's, with a loss option of its own."""

from __future__ import annotations

from iscope.recipes.model import Constraint, Filter, Framework, Loss, Option, Recipe, Ref

FRAMEWORK = Framework(
    name="acme-rl",
    title="Acme RL",
    version="7",
    recipes=(
        Recipe(
            name="acme-rl/none",
            summary="No correction.",
            formula="w_t = 1",
            source="acme-rl 7",
        ),
        Recipe(
            name="acme-rl/band",
            summary="Tokens outside a band around 1 get weight 0.",
            formula="w_t = 1 if 1/reach <= rho_t <= reach, else 0",
            source="acme-rl 7, reach",
            options=(Option("band_reach", "reach", "float", 2, "How far the ratio may be from 1."),),
            filters=(Filter("band", low=Ref("reach", reciprocal=True), high=Ref("reach")),),
            constraints=(Constraint("above_one", ("reach",)),),
        ),
    ),
    loss_options=(Option("clip_eps", "clip_eps", "float", 0.2, "How far r is clipped from 1."),),
    losses=(
        ("", Loss("clipped_surrogate", low=Ref("clip_eps", scale=-1.0, offset=1.0), high=Ref("clip_eps", offset=1.0))),
    ),
    not_replayed=(("mystery", "its source is not published"),),
)
