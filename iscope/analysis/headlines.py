"""What a recipe leaves of each part of the dump: the figures that decide between recipes, for all parts at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from iscope.analysis.figures.gradient import EMPTY, Gradients, gradients
from iscope.analysis.figures.weights import weights_of
from iscope.analysis.intervals import closed
from iscope.analysis.numbers import NO_ADVANTAGE, share
from iscope.analysis.parts import Parts, PartWeights
from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figure, Figures, Node


@dataclass(frozen=True)
class _Sides:
    """Gradients with their sums over the parts, all and by sign, and their effective batch sizes."""

    of: Gradients
    sums: dict[str, PartWeights]
    sizes: list[Figure]

    @classmethod
    def over(cls, of: Gradients, parts: Parts) -> _Sides:
        weighed, squares = parts.weighed(*of.scaled.values())
        sums = dict(zip(of.scaled, weighed, strict=True))
        return cls(of, sums, parts.effective_sizes(sums["all"], squares))


class Headlines:
    """The headlines of recipes, one after the other, over the same parts."""

    def __init__(self, parts: Parts) -> None:
        """Take the parts."""
        self._parts = parts
        self._base: _Sides | None = None  # of the latest recipe: the next one mostly has the same

    def of(self, rows: RecipeRows) -> list[Figures]:
        """Return one entry per part of a recipe that was replayed: the figures of its report over the part.

        Effective batch size, gradient left, kept and share of masked rollouts; they wait for their intervals.
        """
        rollouts, (tokens, kept) = self._parts.sizes.tolist(), self._parts.counts(rows.kept).tolist()
        sides = gradients(rows)
        own = self._weights(rows, rollouts) if sides is None else self._gradient(*sides)
        return [
            {
                "spec": rows.recipe.spec,
                **figures,
                "kept": {"tokens": of_tokens, "rollouts": of_kept},
                "masked": {"rollout_fraction": share(of_all - of_kept, of_all)},
            }
            for figures, of_tokens, of_kept, of_all in zip(own, tokens, kept, rollouts, strict=True)
        ]

    def _gradient(self, kept: Gradients, base: Gradients) -> list[Figures]:
        if self._base is None or self._base.of is not base:
            # Recipes share their base: their sizes get their intervals once.
            sides = _Sides.over(base, self._parts)
            self._base = replace(sides, sizes=closed(sides.sizes))
        after, before = _Sides.over(kept, self._parts), self._base
        left = [self._parts.weight_ratios(after.sums[name], before.sums[name], why) for name, why in EMPTY.items()]
        return [
            _entry(size, "gradient", whole, dict(zip(EMPTY, of_part, strict=True)))
            for size, whole, *of_part in zip(after.sizes, before.sizes, *left, strict=True)
        ]

    def _weights(self, rows: RecipeRows, rollouts: list[int]) -> list[Figures]:
        (weights,), squares = self._parts.weighed(weights_of(rows))
        sizes, nothing = self._parts.effective_sizes(weights, squares), Figure.absent(NO_ADVANTAGE)
        return [
            _entry(size, "weights", Figure(float(of_part)), dict.fromkeys(EMPTY, nothing))
            for size, of_part in zip(sizes, rollouts, strict=True)
        ]


def _entry(size: Figure, basis: str, base: Figure, left: Mapping[str, Node]) -> Figures:
    return {"effective_batch_size": {"value": size, "basis": basis, "base": base}, "gradient_left": {**left}}
