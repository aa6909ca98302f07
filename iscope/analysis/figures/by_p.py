"""The mismatch by the probability q of the sampled token, and the gap that takes this dependence out."""

from __future__ import annotations

from iscope.analysis.intervals import fraction, ratio
from iscope.analysis.numbers import NO_ADVANTAGE, NO_TOKENS, Array, share
from iscope.analysis.rows import Rows
from iscope.ledger import histogram
from iscope.ledger.kernels.tokens import BUCKETS, EDGES
from iscope.model import Figure, Figures, Node

_BOUNDS = (0.0, *EDGES, 1.0)


def figures(rows: Rows) -> Figures:
    """``by_p``, one row per bucket of q, and ``gap``.

    k3 alone moves with how peaked the sampling is: tokens of a high q differ by little. The gap is the median of
    abs(d) / (1 - q), nats, over scored tokens with q < 0.999.
    """
    buckets: list[Node] = [*by_p(rows)]
    return {"by_p": buckets, "gap": _gap(rows)}


def by_p(rows: Rows) -> list[Figures]:
    """Tokens, k3, abs(d) and uncorrected gradient abs(A) (1 - p) of the tokens with low <= q < high, per bucket.

    ``k3`` and ``abs_mean`` are nats per token of the bucket; the shares are of the sums over all buckets.
    """
    k3 = [float(rows[f"p{bucket}:k3"].sum()) for bucket in range(BUCKETS)]
    gradient = _gradients(rows)
    return [_bucket(rows, index, k3, gradient) for index in range(BUCKETS)]


def _bucket(rows: Rows, index: int, k3: list[float], gradient: Array | None) -> Figures:
    tokens = rows[f"p{index}:tokens"]
    empty = "no scored tokens in this bucket" if rows.tokens else NO_TOKENS
    return {
        "low": _BOUNDS[index],
        "high": _BOUNDS[index + 1],
        "tokens": int(tokens.sum()),
        "token_share": fraction(rows.clusters, tokens, rows.n),
        "k3": ratio(rows.clusters, rows[f"p{index}:k3"], tokens, empty),
        "k3_share": share(k3[index], sum(k3), "k3 is 0 everywhere" if rows.tokens else NO_TOKENS),
        "abs_mean": ratio(rows.clusters, rows[f"p{index}:abs"], tokens, empty),
        "gradient_share": _gradient_share(rows, index, gradient),
    }


def _gradients(rows: Rows) -> Array | None:
    """Uncorrected gradient of each rollout [N], over all buckets; None where there is none."""
    if "p0:gradient" not in rows:
        return None
    total = rows["p0:gradient"].copy()
    for bucket in range(1, BUCKETS):
        total += rows[f"p{bucket}:gradient"]
    return total


def _gradient_share(rows: Rows, index: int, whole: Array | None) -> Figure:
    if whole is None:
        return Figure.absent(NO_ADVANTAGE)
    empty = "no token has a gradient" if rows.tokens else NO_TOKENS
    return fraction(rows.clusters, rows[f"p{index}:gradient"], whole, empty)


def _gap(rows: Rows) -> Figure:
    counts = rows.histograms.get("gap")
    if counts is None:
        return Figure.absent("the gap is kept for the whole dump only")
    if not counts.sum():
        return Figure.absent("no scored token has q below 0.999" if rows.tokens else NO_TOKENS)
    low, high = histogram.edges(histogram.quantile_bin(counts, 0.5))
    if low < 0:  # the bin around zero, where policies that agree are
        return Figure(0.0, bin=(0.0, high))
    return Figure((low + high) / 2, bin=(low, high))
