"""Which logprobs can be scored, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from iscope.replay import chosen
from iscope.replay.segments import on_cpu
from iscope.rollouts import LOGPROBS, RolloutBatch

SENTINEL = -9000.0  # vLLM writes -9999.0 for -inf, several frameworks for "missing"
MAX_POSITIVE = 0.2  # a low-precision log-softmax rounds to as much; above it the value is no logprob

KINDS = ("null", "nan", "pos_inf", "neg_inf", "sentinel", "positive")
SIDES = {name: name.removesuffix("_logprobs") for name in LOGPROBS}
# The side a token's unusable value is counted on when several have one.
_PRECEDENCE = ("inference_logprobs", "trainer_logprobs", "current_logprobs", "ref_logprobs")


@dataclass(frozen=True)
class Usable:
    """What can be scored of a batch.

    Attributes:
        scored: bool [P], loss mask true and every present policy's logprob usable; None when all tokens are.
        unscored: unusable values at loss tokens, by side and kind; a token counts once.
        rounded_positive: scored logprobs in (0, 0.2], which are rounding.
        nan: bool [P], loss tokens where some policy's logprob is NaN or null; None when there are none.
    """

    scored: Tensor | None
    unscored: dict[str, dict[str, int]]
    rounded_positive: int
    nan: Tensor | None


def usable(batch: RolloutBatch) -> Usable:
    """Tell the scored tokens of a batch from those that are masked or hold an unusable value."""
    columns = {name: column for name in _PRECEDENCE if (column := getattr(batch, name)) is not None}
    found = {name: _unusable_or_positive(column) for name, column in columns.items()}
    suspects = {name: column for name, column in columns.items() if found[name][0]}
    above = [column for name, column in columns.items() if found[name][1]]
    if not suspects:
        return Usable(batch.loss_mask, {}, _rounded_positive(above, batch.loss_mask), None)
    open_tokens = _every_token(batch) if batch.loss_mask is None else batch.loss_mask.clone()
    unscored: dict[str, dict[str, int]] = {}
    nan = torch.zeros_like(open_tokens)
    loss = open_tokens.clone()
    for name, column in suspects.items():
        nan |= column.isnan() & loss
        for kind in KINDS:
            hit = _is_kind(kind, column, batch.nulls.get(name)) & open_tokens
            if count := int(hit.sum()):
                unscored.setdefault(SIDES[name], {})[kind] = count
                open_tokens &= ~hit
    positive = _rounded_positive(above, open_tokens)
    return Usable(open_tokens, unscored, positive, nan if bool(nan.any()) else None)


def added_up(parts: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """Return unusable values by side and kind of several parts of a dump together, both in alphabetical order."""
    total: dict[str, dict[str, int]] = {}
    for part in parts:
        for side, kinds in part.items():
            of_side = total.setdefault(side, {})
            for kind, count in kinds.items():
                of_side[kind] = of_side.get(kind, 0) + count
    return {side: dict(sorted(kinds.items())) for side, kinds in sorted(total.items())}


def _every_token(batch: RolloutBatch) -> Tensor:
    return torch.ones_like(batch.trainer_logprobs, dtype=torch.bool)


def is_usable(column: Tensor) -> Tensor:
    """Bool [P], whether each value can be a logprob."""
    return (column > SENTINEL) & (column <= MAX_POSITIVE)


def _rounded_positive(columns: Iterable[Tensor], scored: Tensor | None) -> int:
    """Values above 0 among the scored tokens [P] of some columns."""
    return sum(int((column > 0 if scored is None else (column > 0) & scored).sum()) for column in columns)


def _unusable_or_positive(column: Tensor) -> tuple[bool, bool]:
    """Whether a column [P] holds a value that is unusable, and one above 0."""
    if not on_cpu(column):
        return not bool(is_usable(column).all()), bool((column > 0).any())
    values = column.numpy()
    return chosen.unusable_or_positive(values, values.dtype.type(SENTINEL), values.dtype.type(MAX_POSITIVE))


def _is_kind(kind: str, column: Tensor, null: Tensor | None) -> Tensor:
    if kind == "null":
        return torch.zeros_like(column, dtype=torch.bool) if null is None else null
    if kind == "nan":
        return column.isnan()
    if kind == "pos_inf":
        return column == float("inf")
    if kind == "neg_inf":
        return column == float("-inf")
    return column <= SENTINEL if kind == "sentinel" else column > MAX_POSITIVE
