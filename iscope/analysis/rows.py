"""What figures read: the rows of a ledger, of one policy pair, and of one recipe, as arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
import torch

from iscope.analysis.numbers import Array, log_of
from iscope.analysis.ratio_summary import Moments
from iscope.ledger.histogram import Counts
from iscope.ledger.ledger import Ledger
from iscope.recipes.model import BoundRecipe, Level, Pair
from iscope.replay.normalisation import mean_parts, mean_weight


@dataclass(frozen=True)
class Rows:
    """Rollouts of a ledger.

    Attributes:
        frame: the rows, one per rollout.
        histograms: counts over the tokens of these rows; empty for a part of a dump.
        without: rollouts of the batch that have no scored token and so no row here, and their loss tokens: a
            framework's denominators count them.
    """

    frame: pl.DataFrame
    histograms: dict[str, Counts]
    without: tuple[int, int] = (0, 0)

    @property
    def rollouts(self) -> int:
        """N."""
        return self.frame.height

    @cached_property
    def n(self) -> Array:
        """Scored tokens of each rollout."""
        return self["scored"]

    @cached_property
    def tokens(self) -> int:
        """Scored tokens in all."""
        return int(self.n.sum())

    @property
    def batch_rollouts(self) -> int:
        """Rollouts of the batch, empty ones included."""
        return self.rollouts + self.without[0]

    @property
    def batch_loss_tokens(self) -> int:
        """Loss tokens of the batch, scored or not."""
        return int(self["loss_tokens"].sum()) + self.without[1]

    def __getitem__(self, name: str) -> Array:
        """Return a column as an array."""
        return self.frame[name].to_numpy()

    def __contains__(self, name: str) -> bool:
        """Whether the rows have this column."""
        return name in self.frame.columns

    def resolve(self, pair: Pair) -> Pair:
        """The pair that was measured for this one: without current logprobs the trainer's stand in for them."""
        return pair if f"{pair}:log_ratio_sum" in self else Pair.TRAINER_INFERENCE

    def pair(self, name: str, pair: Pair = Pair.TRAINER_INFERENCE) -> Array:
        """Return a column of a policy pair."""
        return self[f"{self.resolve(pair)}:{name}"]

    def pair_total(self, name: str, pair: Pair = Pair.TRAINER_INFERENCE) -> float:
        """Sum of a column of a policy pair."""
        return float(self.pair(name, pair).sum())

    def log_ratio(self, level: str, pair: Pair = Pair.TRAINER_INFERENCE) -> Array:
        """S (``sequence``) or G = S / n (``geometric``) of each rollout, nats."""
        total = self.pair("log_ratio_sum", pair)
        return total / np.maximum(self.n, 1) if level == "geometric" else total


def scored_rows(ledger: Ledger) -> Rows:
    """Rollouts with at least one scored token: what every figure of the report is over."""
    rest = ledger.rows.filter(pl.col("scored") == 0)
    without = (rest.height, int(rest["loss_tokens"].cast(pl.Int64).sum()))
    return Rows(ledger.rows.filter(pl.col("scored") > 0), ledger.histograms, without)


def recipe_rows(ledger: Ledger, rows: Rows, index: int) -> RecipeRows:
    """What a recipe of the ledger's plan did to these rows."""
    recipe = ledger.plan.recipes[index]
    return RecipeRows(rows, index, recipe, ledger.plan.base_of[index])


def trained_rows(ledger: Ledger) -> Rows:
    """Every rollout as its framework saw it: empty ones in, unscored loss tokens by the framework's convention."""
    untouched = ledger.rows.filter(pl.col("loss_tokens") == pl.col("usable_tokens"))
    return Rows(pl.concat([untouched, ledger.trained], how="diagonal_relaxed"), {})


@dataclass(frozen=True)
class RecipeRows:
    """What one recipe did to the rollouts; every array is per rollout.

    Attributes:
        rows: the rollouts.
        index: the recipe's place in the plan.
        recipe: the recipe.
        base: index of the uncorrected loss it is compared with.
    """

    rows: Rows
    index: int
    recipe: BoundRecipe
    base: int

    def __getitem__(self, name: str) -> Array:
        """Return one of the recipe's columns; those of its applied weights after batch normalisation."""
        values = self.rows[f"recipe{self.index}:{name}"]
        return self._divided(name, values) if self.recipe.weight.normalises else values

    @cached_property
    def mean_weight(self) -> float:
        """What batch normalisation divides the weights by, the batch being these rows; 1 where it does not."""
        rule = self.recipe.weight
        if not rule.normalises:
            return 1.0
        weights = torch.tensor(self.rows[f"recipe{self.index}:logged.weight_sum"])
        total, count = (part.sum() for part in mean_parts(rule, weights, torch.tensor(self.rows.n)))
        if rule.counts_empty and rule.level is not Level.TOKEN:
            count = count + self.rows.without[0]
        return float(mean_weight(rule, total, count))

    def _divided(self, name: str, values: Array) -> Array:
        """A column of the weights w as it is of w / m, m the mean weight."""
        mean, n = self.mean_weight, self.rows.n
        if name.startswith("log_weight"):
            return values - math.log(mean)
        if name in ("weight_sum", "gradient_positive", "gradient_negative"):
            return values / mean
        if name == "weight_sq":
            return values / mean**2
        if name == "excess_sum":
            return (values + n * (1 - mean)) / mean
        if name == "excess_sq":
            first = self.rows[f"recipe{self.index}:excess_sum"]
            return (values + 2 * (1 - mean) * first + n * (1 - mean) ** 2) / mean**2
        return values

    @property
    def replayed(self) -> bool:
        """Whether the dump held everything that the recipe looks at."""
        return self._has("log_weight") or self._has("excess_sum")

    def _has(self, name: str) -> bool:
        return f"recipe{self.index}:{name}" in self.rows

    @property
    def per_token(self) -> bool:
        """Whether weights or decisions differ within a rollout."""
        return self._has("excess_sum")

    @property
    def level(self) -> Level:
        """Over what the recipe's ratio is taken."""
        assert isinstance(self.recipe.weight.level, Level)
        return self.recipe.weight.level

    @cached_property
    def kept(self) -> Array:
        """Tokens that were not rejected."""
        if self.per_token:
            return self["kept"]
        return self.rows.n * self["kept"] if self._has("kept") else self.rows.n

    @cached_property
    def masked(self) -> Array:
        """Tokens that were rejected."""
        return self.rows.n - self.kept

    @property
    def dropped(self) -> Array:
        """Tokens that a filter took out of the loss mask itself."""
        return self["logged.dropped"] if self._has("logged.dropped") else np.zeros(self.rows.rollouts, dtype=np.int64)

    @cached_property
    def truncated_low(self) -> Array:
        """Tokens whose weight was raised to the lower bound."""
        return self["truncated_low"] if self.per_token else self.rows.n * (self["truncated"] < 0)

    @cached_property
    def truncated_high(self) -> Array:
        """Tokens whose weight was cut to the upper bound."""
        return self["truncated_high"] if self.per_token else self.rows.n * (self["truncated"] > 0)

    @cached_property
    def modified(self) -> Array:
        """Tokens that were truncated or rejected."""
        if self.per_token:
            return self["modified"]
        return np.where(self["truncated"] != 0, self.rows.n, self.masked)

    def rejected(self, filter_index: int) -> tuple[Array, Array]:
        """Tokens that a filter found below and above its bounds."""
        if self.per_token:
            return self[f"rejected{filter_index}_low"], self[f"rejected{filter_index}_high"]
        fired = self[f"rejected{filter_index}"]  # -1: below, 1: above, 2: some token below and some above
        return self.rows.n * ((fired < 0) | (fired == 2)), self.rows.n * (fired > 0)

    @cached_property
    def log_mean_weight(self) -> Array:
        """Log of W, the mean applied weight of each rollout's scored tokens (rejected: 0)."""
        if not self.per_token:
            return self["log_weight"]
        return log_of(self["weight_sum"] / np.maximum(self.rows.n, 1))

    @property
    def moments(self) -> Moments:
        """Sums of the applied token weights, of a recipe that works per token."""
        names = ("weight_sum", "weight_sq", "excess_sum", "excess_sq")
        return Moments(self.rows.tokens, *(float(self[name].sum()) for name in names))

    def log_gradient(self, sign: str) -> Array | None:
        """Log of g, the gradient of each rollout's tokens with this sign of A (``positive``, ``negative``).

        None without advantages. A rollout's weight multiplies what the uncorrected loss has.
        """
        if self.per_token:
            return log_of(self[f"gradient_{sign}"]) if self._has(f"gradient_{sign}") else None
        base = self.log_base_gradient(sign)
        return None if base is None else base + self["log_weight"]

    def log_base_gradient(self, sign: str) -> Array | None:
        """Log of g of the same loss at weight 1, everything kept."""
        name = f"base{self.base}:gradient_{sign}"
        return log_of(self.rows[name]) if name in self.rows else None

    @cached_property
    def k3_kept(self) -> Array:
        """K3 over the kept tokens, nats."""
        if self.per_token:
            return self["k3_kept"]
        return np.where(self.kept > 0, self.rows.pair("k3_sum", self.recipe.weight.pair), 0.0)

    @cached_property
    def k3_masked(self) -> Array:
        """K3 over the rejected tokens, nats."""
        if self.per_token:
            return self["k3_masked"]
        return np.where(self.masked > 0, self.rows.pair("k3_sum", self.recipe.weight.pair), 0.0)
