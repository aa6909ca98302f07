"""Staleness: what each recipe leaves at each lag, and what of the mismatch there is engine and what lag."""

from __future__ import annotations

from collections.abc import Sequence

from iscope.analysis.breakdown import lag_key
from iscope.analysis.figures.lag import ON_POLICY, why_no_lag
from iscope.analysis.intervals import closed
from iscope.analysis.parts import Parts
from iscope.analysis.rows import Rows
from iscope.model import Figure, Figures, Node
from iscope.recipes.model import Pair

_PARTS = {"engine": Pair.TRAINER_INFERENCE, "lag": Pair.CURRENT_TRAINER, "total": Pair.CURRENT_INFERENCE}
_FRESH_ONLY = "the trainer column is another version than the sampler's here: engine and lag in one"


def staleness(rows: Rows, by_lag: Sequence[Figures]) -> list[Node]:
    """One row per lag of the dump, none for a lag that is not in it; empty where there are no two lags.

    Each has the row of the breakdown by lag, its recipes included, and ``k3_parts``: k3 of ``engine`` (trainer over
    inference), ``lag`` (current over trainer) and ``total`` (current over inference), nats per token. Without current
    logprobs the engine's is known at lag 0 alone.
    """
    if why_no_lag(rows) is not None or len(by_lag) < 2:
        return []
    parts = Parts.of(lag_key(rows), rows.cluster_codes)
    split = all(rows.resolve(pair) is pair for pair in _PARTS.values())
    tokens, *sums = parts.sums_of([rows.n, *(rows.pair("k3_sum", pair) for pair in _PARTS.values())])
    columns = {name: closed(parts.ratios(k3, tokens)) for name, k3 in zip(_PARTS, sums, strict=True)}
    found: list[Node] = []
    for place, row in enumerate(by_lag):
        own: Figures = {name: values[place] for name, values in columns.items()} if split else _unsplit(row)
        found.append({**row, "k3_parts": own})
    return found


def _unsplit(row: Figures) -> Figures:
    fresh = row.get("value") == 0
    k3 = row["k3"]
    return {
        "engine": k3 if fresh else Figure.absent(_FRESH_ONLY),
        "lag": Figure.absent(ON_POLICY if fresh else _FRESH_ONLY),
        "total": k3,
    }
