"""What one recipe did to the rows of a ledger, as arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any

import numpy as np
import torch

from iscope.analysis.numbers import Array, log_of, read_only
from iscope.analysis.ratio_summary import Moments
from iscope.analysis.rows import Rows
from iscope.ledger.histogram import Counts
from iscope.ledger.ledger import Ledger
from iscope.recipes.model import BoundRecipe, Level
from iscope.replay.compiled import compiled
from iscope.replay.normalisation import mean_parts, mean_weight
from iscope.replay.segments import Segments


def recipe_rows(ledger: Ledger, rows: Rows, index: int) -> RecipeRows:
    """What a recipe of the ledger's plan did to these rows."""
    recipe = ledger.plan.recipes[index]
    return RecipeRows(rows, index, recipe, ledger.plan.base_of[index])


def _recent(make: Callable[[RecipeRows], Array]) -> Callable[[RecipeRows], Array]:
    """An array [N] that is kept while there is room, and else made again."""

    @wraps(make)
    def get(rows: RecipeRows) -> Array:
        return rows.rows.recent((make.__name__, rows.index), lambda: make(rows))

    return get


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

    def __contains__(self, name: str) -> bool:
        """Whether the recipe has this column."""
        return f"recipe{self.index}:{name}" in self.rows

    def get(self, name: str) -> Array | None:
        """Return one of the recipe's columns; None where it has none of this name."""
        if name not in self:
            return None
        return self[name]

    @cached_property
    def batch_means(self) -> Array:
        """What batch normalisation divides the weights of each batch by [K]; 1 where it does not."""
        rule, batches = self.recipe.weight, self.rows.batches
        if not rule.normalises:
            return np.ones(batches)
        frame, places = self.rows.batch_frame, self.rows.batch_places
        weights = torch.tensor(frame[f"recipe{self.index}:logged.weight_sum"].to_numpy())
        parts = mean_parts(rule, weights, torch.tensor(frame["scored"].to_numpy()))
        offsets = np.zeros(batches + 1, dtype=np.int64)
        np.cumsum(np.bincount(places, minlength=batches), out=offsets[1:])
        order, segments = np.argsort(places, kind="stable"), Segments(torch.from_numpy(offsets))
        means: Array = mean_weight(rule, *(segments.sum(part[order]) for part in parts)).numpy()
        return means

    @property
    def mean_weight(self) -> float:
        """The same where all rollouts are one batch."""
        return float(self.batch_means[0])

    @property
    def histogram(self) -> Counts | None:
        """Counts of the applied log-weights, before batch normalisation; None where each batch has its own mean."""
        alike = (self.batch_means == self.mean_weight).all()
        return self.rows.histograms.get(f"recipe{self.index}") if alike else None

    def _divided(self, name: str, values: Array) -> Array:
        """A column of the weights w as it is of w / m, m the mean weight."""
        mean: Array = self.batch_means[self.rows.batch_places[: self.rows.rollouts]]
        n = self.rows.n
        if name.startswith("log_weight"):
            values = values - np.log(mean)
        elif name in ("weight_sum", "gradient_positive", "gradient_negative"):
            values = values / mean
        elif name == "weight_sq":
            values = values / mean**2
        elif name == "excess_sum":
            values = (values + n * (1 - mean)) / mean
        elif name == "excess_sq":
            first = self.rows[f"recipe{self.index}:excess_sum"]
            values = (values + 2 * (1 - mean) * first + n * (1 - mean) ** 2) / mean**2
        return values

    @property
    def replayed(self) -> bool:
        """Whether the dump held everything that the recipe looks at."""
        loss = self.recipe.loss
        if (loss.needs_groups and "group_id" not in self.rows) or (loss.needs_reward and "reward" not in self.rows):
            return False
        return "log_weight" in self or "excess_sum" in self

    @property
    def per_token(self) -> bool:
        """Whether weights or decisions differ within a rollout."""
        return "excess_sum" in self

    @property
    def level(self) -> Level:
        """Over what the recipe's ratio is taken."""
        assert isinstance(self.recipe.weight.level, Level)
        return self.recipe.weight.level

    @property
    @_recent
    def _of_rollouts(self) -> Array:
        """Tokens kept, raised, cut and modified of a recipe that treats a rollout's tokens alike, int32 [4, N]."""
        found = np.empty((4, self.rows.rollouts), dtype=np.int32)
        kept = self["kept"] if "kept" in self else np.ones(self.rows.rollouts, dtype=np.bool_)
        spread_decisions(found, *map(read_only, (self.rows.n, kept, self["truncated"]), (np.int32, np.bool_, np.int8)))
        return found

    @property
    def kept(self) -> Array:
        """Tokens that were not rejected."""
        return self["kept"] if self.per_token else self._of_rollouts[0]

    @property
    @_recent
    def masked(self) -> Array:
        """Tokens that were rejected."""
        return self.rows.n - self.kept

    @property
    def dropped(self) -> Array:
        """Tokens that a filter took out of the loss mask itself."""
        return self["logged.dropped"] if "logged.dropped" in self else np.zeros(self.rows.rollouts, dtype=np.int64)

    @property
    def truncated_low(self) -> Array:
        """Tokens whose weight was raised to the lower bound."""
        return self["truncated_low"] if self.per_token else self._of_rollouts[1]

    @property
    def truncated_high(self) -> Array:
        """Tokens whose weight was cut to the upper bound."""
        return self["truncated_high"] if self.per_token else self._of_rollouts[2]

    @property
    def modified(self) -> Array:
        """Tokens that were truncated or rejected."""
        return self["modified"] if self.per_token else self._of_rollouts[3]

    def rejected(self, filter_index: int) -> tuple[Array, Array]:
        """Tokens that a filter found below and above its bounds."""
        if self.per_token:
            return self[f"rejected{filter_index}_low"], self[f"rejected{filter_index}_high"]
        return _below_and_above(self.rows.n, self[f"rejected{filter_index}"])

    def counts_rejected(self, filter_index: int) -> tuple[int, int, int, int]:
        """How many tokens a filter found below and above its bounds, and how many rollouts with such tokens."""
        if self.per_token:
            low, high = self.rejected(filter_index)
        else:
            fired = self[f"rejected{filter_index}"]
            places = np.flatnonzero(fired != 0)
            low, high = _below_and_above(self.rows.n[places], fired[places])
        return int(low.sum()), int(high.sum()), int(np.count_nonzero(low)), int(np.count_nonzero(high))

    def passed(self, filter_index: int | None) -> Array:
        """Whether a filter found nothing of a rollout outside its bounds [N]; None is for those of the weight."""
        if not self.per_token:
            return np.equal(self["truncated" if filter_index is None else f"rejected{filter_index}"], 0)
        low, high = (self.truncated_low, self.truncated_high) if filter_index is None else self.rejected(filter_index)
        return np.equal(low, 0) & np.equal(high, 0)

    @property
    @_recent
    def log_mean_weight(self) -> Array:
        """Log of abs(W), W the mean applied weight of each rollout's scored tokens (rejected: 0)."""
        if not self.per_token:
            return self["log_weight"]
        return log_of(np.abs(self["weight_sum"]) / np.maximum(self.rows.n, 1))

    @property
    def moments(self) -> Moments:
        """Sums of the applied token weights, of a recipe that works per token."""
        names = ("weight_sum", "weight_sq", "excess_sum", "excess_sq")
        return Moments(self.rows.clusters, self.rows.n, *(self[name] for name in names))

    def log_gradient(self, sign: str) -> Array | None:
        """Log of g, the gradient of each rollout's tokens with this sign of A (``positive``, ``negative``).

        None without advantages. A rollout's weight multiplies what the uncorrected loss has.
        """
        if self.per_token:
            return log_of(self[f"gradient_{sign}"]) if f"gradient_{sign}" in self else None
        base = self.log_base_gradient(sign)
        return None if base is None else base + self["log_weight"]

    def log_base_gradient(self, sign: str) -> Array | None:
        """Log of g of the same loss at weight 1, everything kept."""
        name = f"base{self.base}:gradient_{sign}"
        return self.rows.recent(name, lambda: log_of(self.rows[name])) if name in self.rows else None

    @property
    @_recent
    def k3_kept(self) -> Array:
        """K3 over the kept tokens, nats."""
        if self.per_token:
            return self["k3_kept"]
        return np.where(self.kept > 0, self.rows.pair("k3_sum", self.recipe.weight.pair), 0.0)

    @property
    @_recent
    def k3_masked(self) -> Array:
        """K3 over the rejected tokens, nats."""
        if self.per_token:
            return self["k3_masked"]
        return np.where(self.masked > 0, self.rows.pair("k3_sum", self.recipe.weight.pair), 0.0)


def _below_and_above(n: Array, fired: Array) -> tuple[Array, Array]:
    """Tokens of rollouts [N] that a filter found below its bounds (-1) and above (1); at 2 some below, some above."""
    return n * ((fired < 0) | (fired == 2)), n * (fired > 0)


@compiled()
def spread_decisions(found: Any, n: Any, kept: Any, truncated: Any) -> None:
    """Write how many tokens of each rollout are kept, raised to a lower bound, cut to an upper one, and modified.

    Args:
        found: where to write, int32 [4, N].
        n: scored tokens of each rollout, int32 [N], read only, as all that follow.
        kept: whether it is not rejected, bool [N].
        truncated: int8 [N], below 0 where its weight was raised, above where it was cut.
    """
    for row in range(len(n)):
        tokens, cut = n[row], truncated[row]
        found[0, row] = tokens if kept[row] else 0
        found[1, row] = tokens if cut < 0 else 0
        found[2, row] = tokens if cut > 0 else 0
        found[3, row] = tokens if (cut != 0) | (not kept[row]) else 0
