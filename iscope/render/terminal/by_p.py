"""The mismatch by the probability of the sampled token, in a line or two."""

from __future__ import annotations

from rich.text import Text

from iscope.model import Node, Report
from iscope.render.nodes import at, figure
from iscope.render.numbers import number, percent
from iscope.render.terminal.page import flow, wrap

_HEAD = "BY p"
_LEGEND = " q of the sampled token: shares of scored tokens, of the sum of k3, of the gradient |A|(1-p)"
_MEAN = "; k3 of the bucket in nats/token"
_SHARES = (("token_share", "tokens"), ("k3_share", "k3"), ("gradient_share", "gradient"))


def by_p(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """Return one piece per bucket of q; nothing where the report has no buckets."""
    found = at(report.mismatch, "by_p")
    buckets = found if isinstance(found, list) else report.breakdowns.get("p", [])
    pieces = [_bucket(bucket, verbose=verbose) for bucket in buckets if isinstance(bucket, dict)]
    if not pieces:
        return []
    lines = wrap(_HEAD + _LEGEND + (_MEAN if verbose else ""), width, 2)
    lines[0].stylize("bold", 0, len(_HEAD))
    return lines + flow(pieces, width)


def _bucket(bucket: dict[str, Node], *, verbose: bool) -> str:
    low, high = (_plain(bucket.get(end)) for end in ("low", "high"))
    name = f"q<{high:g}" if low == 0 else f"q>={low:g}" if high == 1 else f"q {low:g}-{high:g}"
    shares = [f"{percent(value)} {word}" for key, word in _SHARES if (value := _value(bucket.get(key))) is not None]
    k3 = _value(bucket.get("k3")) if verbose else None
    return f"{name}: {', '.join([*shares, *([] if k3 is None else [f'k3 {number(k3)}'])]) or '-'}"


def _value(node: Node) -> float | None:
    found = figure(node)
    return None if found is None else found.value


def _plain(node: Node) -> float:
    return _value(node) or 0.0
