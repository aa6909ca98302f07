"""The plan of a pass over the tokens: which recipes are replayed and which columns of the dump are carried along."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from iscope.ledger.quiet_band import quiet_band
from iscope.ledger.sweep.families import TokenFamily
from iscope.recipes.model import BoundRecipe, Denominator, Level, Loss, Pair, Reduction
from iscope.recipes.own.encode import to_json
from iscope.replay.own import identity

# The column with the number of each rollout's batch, where so many consecutive rollouts are one.
BATCH = "batch:number"
ROLLOUT_COLUMNS = ("group_id", "step", "policy_version", "trainer_version", "advantage", "reward")


def base_loss(recipe: BoundRecipe) -> Loss:
    """Return what is left of a recipe's loss at weight 1: what it makes of the trainer's own ratio."""
    loss = recipe.loss
    if loss.uses_ratio:
        plain, counted = Loss(), loss.denominator
        return replace(
            loss,
            penalty=None,
            positive_nll=None,
            aggregation=plain.aggregation,
            denominator=Denominator(epsilon=counted.epsilon, count_epsilon=counted.count_epsilon),
            logs=plain.logs,
            sees=plain.sees,
            weighted=False,
        )
    return Loss(signal=loss.signal, advantage_scale=loss.advantage_scale)


@dataclass(frozen=True)
class Plan:
    """What one pass measures.

    Attributes:
        recipes: the recipes to replay, in report order.
        carry: rollout columns kept beside the canonical ones, for breakdowns.
        precision: the precision of every decision.
        unscored: ``exclude`` leaves unusable tokens out, ``neutral`` gives them ratio 1.
        fit: the share of this very dump that recipes' fitted bounds keep; None where none was fitted.
        batch: the scope of every normaliser, batch-normalised weight and sort: ``all`` of the dump, each ``step``, or
            so many consecutive rollouts.
        families: settings of a sweep that are summed by interval, beside the recipe of theirs among ``recipes``.
    """

    recipes: tuple[BoundRecipe, ...]
    carry: tuple[str, ...] = ()
    precision: Literal["float32", "float64"] = "float32"
    unscored: Literal["exclude", "neutral"] = "exclude"
    fit: float | None = None
    batch: str | int = "all"
    families: tuple[TokenFamily, ...] = ()

    @property
    def batch_column(self) -> str | None:
        """The column of the ledger that tells batches apart; None where the dump is one."""
        if isinstance(self.batch, int):
            return BATCH
        return None if self.batch == "all" else self.batch

    @property
    def carried(self) -> tuple[str, ...]:
        """Rollout columns to read beside the canonical ones: those for breakdowns, and what tells batches apart."""
        return (*self.carry, "step") if self.batch == "step" else self.carry

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Policy pairs that are measured; trainer over inference always is."""
        used = {Pair.TRAINER_INFERENCE}
        for recipe in self.recipes:
            used |= {recipe.weight.pair, *(rule.pair for rule in recipe.filters)}
            if recipe.loss.signal == "ref":
                used.add(Pair.CURRENT_REF)
        return tuple(pair for pair in Pair if pair in used)

    @cached_property
    def screened_pairs(self) -> tuple[Pair, ...]:
        """Pairs whose log-ratio must lie inside the screen: trainer over inference, and those of token-level rules."""
        pairs = {Pair.TRAINER_INFERENCE}
        for recipe in self.recipes:
            if recipe.weight.level is Level.TOKEN:
                pairs.add(recipe.weight.pair)
            pairs |= {rule.pair for rule in recipe.filters if rule.reduction is Reduction.TOKEN}
        return tuple(pair for pair in Pair if pair in pairs and pair is not Pair.CURRENT_REF)

    @cached_property
    def quiet_bands(self) -> tuple[tuple[float, float] | None, ...]:
        """The quiet band of each recipe, nats; None where it must see every token."""
        return tuple(map(quiet_band, self.recipes))

    @cached_property
    def bases(self) -> tuple[Loss, ...]:
        """The distinct losses, uncorrected, that recipes are compared with."""
        return tuple(dict.fromkeys(base_loss(recipe) for recipe in self.recipes))

    @cached_property
    def base_of(self) -> tuple[int, ...]:
        """Index of each recipe's base."""
        return tuple(self.bases.index(base_loss(recipe)) for recipe in self.recipes)

    def to_dict(self) -> dict[str, Any]:
        """Return what identifies the plan, as JSON values."""
        return {
            "recipes": [recipe.spec for recipe in self.recipes],
            "named": [recipe.named for recipe in self.recipes],
            "like": [recipe.like for recipe in self.recipes],
            "fitted": [list(recipe.fitted) for recipe in self.recipes],
            "carry": list(self.carry),
            "precision": self.precision,
            "unscored": self.unscored,
            "fit": self.fit,
            "batch": self.batch,
        }

    def fingerprint(self) -> str:
        """Hash of the plan, rules of its recipes included: two ledgers can be merged only where it is the same."""
        rules = [to_json((recipe.weight, recipe.filters, recipe.loss), identity) for recipe in self.recipes]
        content = self.to_dict() | {"rules": rules}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
