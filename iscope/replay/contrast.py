"""The loss that sets the rollouts of a group against each other: what each of them adds to it, and its slope.

Source: ms-swift 4.6.0, loss_type real (REAL, arXiv 2602.05630). s is the mean log-ratio of a rollout, current over
trainer, t is real_tau. A group with rollouts of both signs has the loss
log(1 + sum over A <= 0 of exp(s / t)) + log(1 + sum over A > 0 of exp(-s / t)), another none. A rollout without loss
tokens, or whose tokens filters drop, stands on the side of A <= 0 with s = 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from iscope.recipes.model import Filter, Loss, Pair, bound_value
from iscope.replay.segments import Segments


@dataclass(frozen=True)
class Contrast:
    """What the shares of a loss depend on, beside the tokens.

    Attributes:
        pair: the policies of r.
        temperature: t, in nats.
        filters: those that drop tokens.
    """

    pair: Pair
    temperature: float
    filters: tuple[Filter, ...] = ()

    @classmethod
    def of(cls, loss: Loss, filters: tuple[Filter, ...] = ()) -> Contrast:
        """The contrast of a loss that couples the rollouts of a group, under these filters."""
        assert loss.temperature is not None
        temperature = bound_value(loss.temperature.positive)
        assert temperature is not None
        return cls(loss.pair, temperature, tuple(rule for rule in filters if rule.drops))


@dataclass(frozen=True)
class Shares:
    """What the loss of its group is to each of N rollouts.

    Attributes:
        value: float64 [N], its share of the loss: equal ones for the rollouts of the group that have tokens.
        slope: float64 [N], derivative of the loss by s.
    """

    value: Tensor
    slope: Tensor

    def to(self, device: torch.device) -> Shares:
        """Return them on a device."""
        return Shares(self.value.to(device), self.slope.to(device))

    def __getitem__(self, rows: slice | Tensor) -> Shares:
        """Return those of some rollouts."""
        return Shares(self.value[rows], self.slope[rows])


def _none(dtype: torch.dtype) -> list[Tensor]:
    return [torch.zeros(0, dtype=dtype)]


@dataclass
class GroupSums:
    """Collects the mean log-ratios of a dump's rollouts and finds their shares, on the CPU.

    Attributes:
        temperature: t.
    """

    temperature: float
    _score: list[Tensor] = field(default_factory=lambda: _none(torch.float64))
    _positive: list[Tensor] = field(default_factory=lambda: _none(torch.bool))
    _filled: list[Tensor] = field(default_factory=lambda: _none(torch.bool))
    _group: list[Tensor] = field(default_factory=lambda: _none(torch.int64))

    def add(self, score: Tensor, positive: Tensor, filled: Tensor, groups: Tensor) -> None:
        """Add N rollouts.

        Args:
            score: float64 [N], s, nats; 0 for one without tokens.
            positive: bool [N], whether it has tokens and A > 0.
            filled: bool [N], whether it has tokens.
            groups: int64 [N].
        """
        for parts, values in zip(
            (self._score, self._positive, self._filled, self._group), (score, positive, filled, groups), strict=True
        ):
            parts.append(values.cpu())

    def shares(self) -> Shares:
        """Return the shares of every rollout added, in their order; the same bits whatever that is."""
        score, positive = torch.cat(self._score) / self.temperature, torch.cat(self._positive)
        group, filled = torch.cat(self._group), torch.cat(self._filled)
        order = torch.from_numpy(np.lexsort((positive.numpy(), score.numpy(), group.numpy())))
        found = _shares(score[order], positive[order], filled[order], group[order], self.temperature)
        value, slope = torch.empty_like(score), torch.empty_like(score)
        value[order], slope[order] = found
        return Shares(value, slope)


def _shares(
    scaled: Tensor, positive: Tensor, filled: Tensor, group: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Value and slope of N rollouts that are sorted by group."""
    offsets = torch.zeros(int(group.max()) + 2 if group.numel() else 1, dtype=torch.int64)
    torch.cumsum(torch.bincount(group, minlength=offsets.numel() - 1), 0, out=offsets[1:])
    groups = Segments(offsets)
    whole = groups.count(positive)
    contrasted = (whole > 0) & (whole < groups.lengths)
    logs = torch.where(positive, -scaled, scaled)
    below, above = _log_one_plus(groups, logs, ~positive), _log_one_plus(groups, logs, positive)
    own = torch.where(positive, groups.expand(above), groups.expand(below))
    slope = (logs - own).exp() / temperature * torch.where(positive, -1.0, 1.0)
    value = groups.expand((below + above) / groups.count(filled).clamp(min=1)).masked_fill(~filled, 0.0)
    lost = ~groups.expand(contrasted)
    return value.masked_fill(lost, 0.0), slope.masked_fill(lost, 0.0)


def _log_one_plus(groups: Segments, logs: Tensor, chosen: Tensor) -> Tensor:
    """log(1 + sum of exp of the chosen logs) of each group."""
    logs = logs.masked_fill(~chosen, float("-inf"))
    top = groups.max(logs).clamp(min=0.0)
    return top + ((-top).exp() + groups.sum((logs - groups.expand(top)).exp())).log()
