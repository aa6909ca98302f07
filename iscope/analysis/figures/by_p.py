"""The mismatch by the probability q of the sampled token, and the gap that takes this dependence out."""

from __future__ import annotations

from iscope.analysis.figures.gradient import NO_ADVANTAGE
from iscope.analysis.numbers import NO_TOKENS, share
from iscope.analysis.rows import Rows
from iscope.ledger import histogram
from iscope.ledger.by_p import BUCKETS, EDGES
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
    return [_bucket(rows, index) for index in range(BUCKETS)]


def _bucket(rows: Rows, index: int) -> Figures:
    tokens = int(rows[f"p{index}:tokens"].sum())
    empty = "no scored tokens in this bucket" if rows.tokens else NO_TOKENS
    return {
        "low": _BOUNDS[index],
        "high": _BOUNDS[index + 1],
        "tokens": tokens,
        "token_share": share(tokens, rows.tokens),
        "k3": share(float(rows[f"p{index}:k3"].sum()), tokens, empty),
        "k3_share": _share_of_all(rows, index, "k3", "k3 is 0 everywhere"),
        "abs_mean": share(float(rows[f"p{index}:abs"].sum()), tokens, empty),
        "gradient_share": _gradient_share(rows, index),
    }


def _share_of_all(rows: Rows, index: int, name: str, none: str) -> Figure:
    sums = [float(rows[f"p{bucket}:{name}"].sum()) for bucket in range(BUCKETS)]
    return share(sums[index], sum(sums), none if rows.tokens else NO_TOKENS)


def _gradient_share(rows: Rows, index: int) -> Figure:
    if f"p{index}:gradient" not in rows:
        return Figure.absent(NO_ADVANTAGE)
    return _share_of_all(rows, index, "gradient", "no token has a gradient")


def _gap(rows: Rows) -> Figure:
    counts = rows.histograms.get("gap")
    if counts is None:
        return Figure.absent("the gap is kept for the whole dump only")
    if not counts.sum():
        return Figure.absent("no scored token has q below 0.999" if rows.tokens else NO_TOKENS)
    low, high = histogram.edges(histogram.quantile_bin(counts, 0.5))
    low = max(low, 0.0)  # the bin around zero reaches below it, a gap never does
    return Figure((low + high) / 2, bin=(low, high))
