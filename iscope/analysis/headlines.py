"""What recipes leave of each part of the dump: the figures that decide between them, for all parts at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iscope.analysis.figures.gradient import EMPTY, NO_ADVANTAGE, Gradients, gradients
from iscope.analysis.figures.weights import weights_of
from iscope.analysis.numbers import Array, share
from iscope.analysis.parts import Asked, Parts, Weighed
from iscope.analysis.rows import RecipeRows
from iscope.model import Figure, Figures


@dataclass(frozen=True)
class Headline:
    """Effective batch size, gradient left, kept and share of masked rollouts of every part under one recipe.

    Attributes:
        spec: the recipe.
        asked: effective batch size, the base's, and gradient left, of all and by sign; without advantages the first.
        tokens: int64 [K], tokens kept in each part.
        kept: int64 [K], rollouts kept.
        rollouts: int64 [K], rollouts.
    """

    spec: str
    asked: tuple[Asked, ...]
    tokens: Array
    kept: Array
    rollouts: Array

    def entries(self, bounded: Sequence[Sequence[Figure]]) -> list[Figures]:
        """Return one entry per part, given what was asked for with its intervals."""
        counts = zip(self.tokens.tolist(), self.kept.tolist(), self.rollouts.tolist(), strict=True)
        return [
            {
                "spec": self.spec,
                **(_gradient(figures) if len(figures) > 1 else _weights(figures[0], rollouts)),
                "kept": {"tokens": tokens, "rollouts": kept},
                "masked": {"rollout_fraction": share(rollouts - kept, rollouts)},
            }
            for figures, (tokens, kept, rollouts) in zip(zip(*bounded, strict=True), counts, strict=True)
        ]


@dataclass(frozen=True)
class _Sides:
    """Gradients with their sums over the parts: all and by sign, and the effective batch size."""

    of: Gradients
    sums: dict[str, Weighed]
    size: Asked

    @classmethod
    def over(cls, of: Gradients, parts: Parts) -> _Sides:
        weights = [*of.scaled.values()]
        *sums, squares = parts.blocks_of([*(one.values for one in weights), of.scaled["all"].squares])
        weighed = dict(zip(of.scaled, map(parts.weighed, weights, sums), strict=True))
        return cls(of, weighed, parts.ask_size(weighed["all"], squares))


class Headlines:
    """The headlines of recipes, one after the other, over the same parts."""

    def __init__(self, parts: Parts) -> None:
        """Start without a recipe."""
        self._added: list[Headline] = []
        self._entries: list[list[Figures]] = []
        self._parts = parts
        self._base: _Sides | None = None  # of the latest recipe: the next one mostly has the same

    def add(self, rows: RecipeRows) -> None:
        """Add a recipe, which must have been replayed; its figures are those of its report over each part."""
        parts, sides = self._parts, gradients(rows)
        if sides is None:
            asked: tuple[Asked, ...] = (parts.ask_size(parts.weighed(weights_of(rows))),)
        else:
            if self._base is None or self._base.of is not sides[1]:
                self._base = _Sides.over(sides[1], parts)
            asked = _asked(_Sides.over(sides[0], parts), self._base, parts)
        kept = parts.sum(rows.kept > 0)
        self._added.append(Headline(rows.recipe.spec, asked, parts.sum(rows.kept), kept, parts.sizes))

    def bound(self) -> None:
        """Give the recipes that were added since the last time their intervals; others may be added meanwhile."""
        new = self._added[len(self._entries) :]
        bounded = iter(self._parts.bounded([one for headline in new for one in headline.asked]))
        self._entries += [headline.entries([next(bounded) for _ in headline.asked]) for headline in new]

    def entries(self) -> list[list[Figures]]:
        """Return one entry per part of each recipe that was added."""
        self.bound()
        return self._entries


def _asked(kept: _Sides, base: _Sides, parts: Parts) -> tuple[Asked, ...]:
    left = parts.ask_log_ratios(*((kept.sums[name], base.sums[name], why) for name, why in EMPTY.items()))
    return (kept.size, base.size, *left)


def _gradient(figures: Sequence[Figure]) -> Figures:
    size, base, *left = figures
    return {
        "effective_batch_size": {**size.to_dict(), "basis": "gradient", "base": base},
        "gradient_left": dict(zip(EMPTY, left, strict=True)),
    }


def _weights(size: Figure, rollouts: int) -> Figures:
    return {
        "effective_batch_size": {**size.to_dict(), "basis": "weights", "base": Figure(float(rollouts))},
        "gradient_left": dict.fromkeys(EMPTY, Figure.absent(NO_ADVANTAGE)),
    }
