"""IS024: a ratio in the dump that the logprobs beside it contradict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from iscope.analysis.findings.kind import Kind
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.numbers import Array
    from iscope.dump.supplied import Supplied
    from iscope.model import Finding

KIND = Kind(
    code="IS024",
    title="A supplied ratio contradicts the logprobs",
    meaning=(
        "The dump brings a column of ratios, and they are not those of any pair of its logprob columns: not of a "
        "token, nor the product or the geometric mean of a rollout, whole or truncated at a bound."
    ),
    consistent_with=(
        "a ratio taken from other logprobs than those that were written, before or after an update",
        "a log-ratio clamped before it was exponentiated",
        "a ratio upside down, inference over trainer",
        "a sum of exponentials in place of the exponential of a sum",
    ),
    no_evidence_of="wrong logprobs; iscope computes its ratios from them and never reads this column",
    action="compare what the framework logs with the logprobs it saves at the same point of the step",
    method=(
        "Of the first 200,000 tokens of a dump that holds both sides in one row: columns named ratio, log_ratio, "
        "importance_ratio and the like are compared with exp(d) of every pair at the loss tokens, at token level, as "
        "product and as geometric mean of the rollout. Reported where more than 0.1% of the tokens differ by more "
        "than 1% from each of them and are no common bound."
    ),
    sources=("PrimeIntellect-ai/prime-rl#2973", "PrimeIntellect-ai/prime-rl#1329", "unslothai/unsloth-zoo#870"),
)

_CLOSE = 0.01
_FEW = 1e-3
_CLAMPS = (10.0, 20.0)
_LARGEST = 700.0
_PAIRS = (
    ("trainer", "inference"),
    ("current", "inference"),
    ("current", "trainer"),
    ("current", "ref"),
    ("trainer", "ref"),
)


@dataclass(frozen=True)
class Contradiction:
    """A column, the share of loss tokens that no pair explains, the first of them, and what it looks like instead."""

    column: Supplied
    share: float
    tokens: int
    places: Array
    cause: str


def judge(_: Any, evidence: Evidence) -> Finding | None:
    """Report the column that is off most."""
    found = [c for column in evidence.supplied if (c := _contradiction(column)) is not None]
    if not found:
        return None
    worst = max(found, key=lambda one: one.share)
    column = worst.column
    return KIND.finding(
        "warning",
        f"Column {column.name!r} differs from the ratio of every pair of logprob columns by more than 1% at "
        f"{worst.share:.1%} of {int(column.loss.sum()):,} loss tokens.",
        consistent_with=worst.cause,
        tokens=worst.tokens,
        examples=list(_examples(worst)),
        evidence={"column": column.name, "share": Figure(worst.share)},
    )


def _contradiction(column: Supplied) -> Contradiction | None:
    chosen = np.flatnonzero(column.loss & np.isfinite(column.values))
    logs = {pair: d for pair in _PAIRS if (d := _log_ratio(column, *pair)) is not None}
    if not chosen.size or not logs:
        return None
    is_log = "log" in column.name
    levels = [
        log for d in logs.values() for log in (d, _of_rollout(column, d, mean=False), _of_rollout(column, d, mean=True))
    ]
    misses = [_misses(column.values, log, chosen, is_log=is_log) for log in levels]
    best = min(misses, key=lambda off: off.size)
    if best.size <= _FEW * chosen.size:
        return None
    return Contradiction(column, best.size / chosen.size, int(best.size), best, _cause(column, logs, chosen, is_log))


def _log_ratio(column: Supplied, above: str, below: str) -> Array | None:
    sides = [column.logprobs.get(f"{side}_logprobs") for side in (above, below)]
    if sides[0] is None or sides[1] is None:
        return None
    with np.errstate(invalid="ignore"):
        d = np.where(column.loss, sides[0] - sides[1], 0.0)
    return np.asarray(np.clip(np.nan_to_num(d, nan=0.0), -_LARGEST, _LARGEST))


def _of_rollout(column: Supplied, d: Array, *, mean: bool) -> Array:
    """S or G of each token's rollout."""
    row = np.repeat(np.arange(column.offsets.size - 1), np.diff(column.offsets))
    total = np.bincount(row, d, column.offsets.size - 1)
    count = np.maximum(np.bincount(row, column.loss, column.offsets.size - 1), 1)
    return np.clip((total / count if mean else total)[row], -_LARGEST, _LARGEST)


def _misses(values: Array, log: Array, chosen: Array, *, is_log: bool) -> Array:
    """Places where a column is neither the ratio nor a bound that it was cut to."""
    due = log[chosen] if is_log else np.exp(log[chosen])
    given = values[chosen]
    scale = 1.0 if is_log else np.abs(due)
    off = np.abs(given - due) > _CLOSE * np.maximum(scale, 1e-30)
    low, high = given.min(), given.max()
    cut = ((given == high) & (due > high)) | ((given == low) & (due < low))
    return np.asarray(chosen[off & ~cut])


def _cause(column: Supplied, logs: dict[tuple[str, str], Array], chosen: Array, is_log: bool) -> str:
    """The first known mistake that explains the column."""

    def explains(log: Array, *, as_log: bool = is_log) -> bool:
        return _misses(column.values, log, chosen, is_log=as_log).size <= _FEW * chosen.size

    for d in logs.values():
        if any(explains(np.clip(d, -clamp, clamp)) for clamp in _CLAMPS):
            return KIND.consistent_with[1]
        if explains(-d):
            return KIND.consistent_with[2]
        if explains(d, as_log=not is_log):
            return "a ratio written where its logarithm belongs, or the other way round"
        row = np.repeat(np.arange(column.offsets.size - 1), np.diff(column.offsets))
        sums = np.bincount(row, np.where(column.loss, np.exp(d), 0.0), column.offsets.size - 1)[row]
        if explains(np.log(np.maximum(sums, 1e-300))):
            return KIND.consistent_with[3]
    return KIND.consistent_with[0]


def _examples(found: Contradiction) -> Iterator[dict[str, Any]]:
    column = found.column
    for place in found.places[:5].tolist():
        row = int(np.searchsorted(column.offsets, place, side="right")) - 1
        start = int(column.offsets[row])
        first = start + int(np.argmax(column.loss[start : int(column.offsets[row + 1])]))
        rollout = f"#{row}" if column.ids is None else column.ids[row]
        yield {"rollout_id": str(rollout), "position": place - first}
