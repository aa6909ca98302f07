"""What findings are judged on: the ledger's rows and sample, the figures, and what was found before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from iscope.analysis.figures.lag import lag, versions_differ, why_no_lag
from iscope.analysis.findings.tokens import Tokens
from iscope.analysis.levels import Levels
from iscope.analysis.numbers import Array
from iscope.analysis.recipe_rows import RecipeRows
from iscope.analysis.rows import Rows
from iscope.dump.supplied import Supplied
from iscope.ledger.kernels.tokens import BUCKETS
from iscope.model import Coverage, Figure, Figures, Finding, RecipeReport

# Below this k3 a log-ratio is the rounding of two implementations, and no shape of it means anything.
ROUNDING_K3 = 1e-6
# What the variance ratio is taken again without: the rollouts that carry most of it.
_HEAVIEST = 3


@dataclass(frozen=True)
class Evidence:
    """Everything a judge may look at.

    Attributes:
        rows: the rollouts with a scored token, of the whole dump.
        tokens: the scored tokens of the sample.
        coverage: what was read.
        mismatch: the figures of the mismatch.
        recipes: what each replayed recipe did, per rollout.
        reports: the figures of the same recipes.
        supplied: ratios that the dump brings along.
        levels: what is healthy.
        earlier: the findings made so far, by code.
    """

    rows: Rows
    tokens: Tokens
    coverage: Coverage
    mismatch: Figures
    recipes: Sequence[RecipeRows] = ()
    reports: Sequence[RecipeReport] = ()
    supplied: Sequence[Supplied] = ()
    levels: Levels = field(default_factory=Levels)
    earlier: dict[str, Finding] = field(default_factory=dict)

    def found(self, *codes: str) -> bool:
        """Whether a finding with one of these codes was made."""
        return any(code in self.earlier for code in codes)

    @cached_property
    def k3(self) -> float:
        """k3 over all scored tokens, nats per token; 0 without any."""
        figure = self.mismatch.get("k3")
        return float(figure.value) if isinstance(figure, Figure) and figure.value is not None else 0.0

    @property
    def is_rounding(self) -> bool:
        """Whether the two policies differ by no more than rounding."""
        return self.k3 < ROUNDING_K3

    @cached_property
    def clusters(self) -> Array:
        """int64 [N], the group of each rollout."""
        return self.rows.cluster_codes

    @cached_property
    def lags(self) -> Array | None:
        """float64 [N], trainer version - policy version, NaN where not recorded; None where no rollout has both."""
        if why_no_lag(self.rows):
            return None
        found = lag(self.rows)
        return found if np.isfinite(found).any() else None

    @cached_property
    def lagging(self) -> Array:
        """bool [N], whether the trainer's logprobs are recorded to be of another version than the sampler's."""
        return versions_differ(self.rows)[0]

    @cached_property
    def in_step(self) -> Array:
        """bool [N], whether both versions are recorded and the same."""
        differ, known = versions_differ(self.rows)
        return known & ~differ

    @cached_property
    def versions_known(self) -> bool:
        """Whether any rollout has both versions recorded."""
        return bool(versions_differ(self.rows)[1].any())

    def column(self, name: str) -> Array | None:
        """A numeric rollout column as float64 [N], NaN where missing; None where there is none."""
        if name not in self.rows or not self.rows.frame[name].dtype.is_numeric():
            return None
        return np.asarray(self.rows.frame[name].cast(float).to_numpy())

    def k3_of(self, chosen: Array) -> float:
        """k3 over the tokens of some rollouts, bool [N]; 0 without any."""
        tokens = int(self.rows.n[chosen].sum())
        return float(self.rows.pair("k3_sum")[chosen].sum()) / tokens if tokens else 0.0

    @cached_property
    def variance_ratios(self) -> tuple[float, float]:
        """Sum of squared rollout sums of rho - 1 over the sum of its squares, and without the heaviest rollouts."""
        squares = self.rows.pair("excess_sum") ** 2
        own = self.rows.pair("excess_sq")
        most = min(_HEAVIEST, squares.size)
        heavy = np.flatnonzero(squares >= np.partition(squares, -most)[-most])
        light = np.ones(squares.size, dtype=bool)
        light[heavy[np.argsort(-squares[heavy], kind="stable")][:most]] = False
        return _over(squares, own), _over(squares[light], own[light])

    @cached_property
    def relative_gap(self) -> tuple[Array, Array]:
        """Sum of abs(d) of each rollout [N], and what the dump's mean by bucket of q lets expect.

        Their ratio does not move with how peaked the sampling is.
        """
        observed = np.zeros(self.rows.rollouts)
        expected = np.zeros(self.rows.rollouts)
        for bucket in range(BUCKETS):
            tokens, size = self.rows[f"p{bucket}:tokens"], self.rows[f"p{bucket}:abs"]
            observed += size
            expected += tokens * (float(size.sum()) / max(float(tokens.sum()), 1.0))
        return observed, expected


def _over(part: Array, whole: Array) -> float:
    total = float(whole.sum())
    return float(part.sum()) / total if total > 0 else 0.0
