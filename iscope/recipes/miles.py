"""miles' corrections and losses at commit 31f1ca961: those of slime, with the loss's ratio limited and in float32."""

from __future__ import annotations

from dataclasses import replace

from iscope.recipes.model import Constraint, Framework, LogClamp, Loss, Option, Pair, Recipe
from iscope.recipes.slime import FRAMEWORK as SLIME

_LIMITS = LogClamp(low=-20.0, high=20.0, float32=True)
_ON_POLICY = (
    "With skip_actor_forward_only the current logprobs stand in for the old ones: name them as the trainer's, and give "
    "no current ones."
)


def _renamed(text: str) -> str:
    return text.replace("624b824a", "31f1ca961").replace("slime", "miles")


def _recipe(row: Recipe) -> Recipe:
    notes = (*(_renamed(note) for note in row.notes), _ON_POLICY)
    return replace(row, name=_renamed(row.name), source=_renamed(row.source), notes=notes)


def _loss(loss: Loss) -> Loss:
    return replace(loss, clamp=replace(_LIMITS, of="token" if loss.level == "token" else "sum"))


def _option(option: Option) -> Option:
    doc = _renamed(option.doc.partition(" cispo: ")[0])
    for only_cispo in ("; cispo's lower cut", "; cispo's upper cut"):
        doc = doc.replace(only_cispo, "")
    return replace(option, doc=doc, choices=tuple(choice for choice in option.choices if choice != "cispo"))


FRAMEWORK = Framework(
    name="miles",
    title="miles",
    version="31f1ca961",
    recipes=tuple(_recipe(row) for row in SLIME.recipes),
    loss_options=tuple(_option(option) for option in SLIME.loss_options),
    losses=tuple((name, _loss(loss)) for name, loss in SLIME.losses if name != "cispo"),
    constraints=(Constraint("above_one", ("eps_clip_c",)),),
    sums=(*SLIME.sums, ("limited_k3", Pair.TRAINER_INFERENCE)),
)
