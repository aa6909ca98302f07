"""Raw importance ratios at the three levels."""

from __future__ import annotations

from iscope.analysis.figures.tail import withhold
from iscope.analysis.numbers import Scaled, share
from iscope.analysis.ratio_summary import Moments, rollout_summary, token_summary
from iscope.analysis.rows import Rows
from iscope.ledger.histogram import Counts
from iscope.model import Figure, Figures
from iscope.recipes.model import Level, Pair


def figures(rows: Rows) -> Figures:
    """Trainer over inference, per token, per rollout as a product, and per rollout as a geometric mean."""
    levels = (Level.TOKEN, Level.SEQUENCE, Level.GEOMETRIC)
    return {"ratio": {level.value: raw_ratio(rows, level, Pair.TRAINER_INFERENCE) for level in levels}}


def raw_ratio(rows: Rows, level: Level, pair: Pair) -> Figures:
    """Summary of exp(d), exp(S) or exp(G), with its own effective sample size."""
    return {**rows.once(("raw ratio", level, rows.resolve(pair)), lambda: _summary(rows, level, pair))}


def _summary(rows: Rows, level: Level, pair: Pair) -> Figures:
    if level is not Level.TOKEN:
        ratios = Scaled(rows.log_ratio(level, pair))
        summary, size = rollout_summary(ratios), ratios.effective_size()
        return {
            "unit": "rollouts",
            **(withhold(summary, rows, pair) if level is Level.SEQUENCE else summary),
            "ess": Figure(size),
            "ess_fraction": share(size, rows.rollouts),
        }
    moments = pair_moments(rows, pair)
    whole, part = moments.effective_size()
    counts: Counts | None = rows.histograms.get(str(rows.resolve(pair)))
    summary = token_summary(
        moments=moments,
        log_range=(rows.pair("log_ratio_min", pair), rows.pair("log_ratio_max", pair)),
        outside=rows.pair("below_half", pair) + rows.pair("above_two", pair),
        counts=counts,
    )
    return {"unit": "tokens", **summary, "ess": whole, "ess_fraction": part}


def pair_moments(rows: Rows, pair: Pair) -> Moments:
    """Sums of a pair's token ratios."""
    names = ("weight_sum", "weight_sq", "excess_sum", "excess_sq")
    return Moments(rows.clusters, rows.n, *(rows.pair(name, pair) for name in names))
