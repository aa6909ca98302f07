"""TokenView: the tokens that count, with every intermediate that recipes share computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from iscope.recipes.model import Filter, Pair
from iscope.replay.contrast import Contrast, Shares
from iscope.replay.cuts import Cuts
from iscope.replay.segments import Segments, expm1
from iscope.replay.usable import Usable, is_usable
from iscope.rollouts import LOGPROBS, RolloutBatch

# exp of twice this still fits float64, so sums of squared ratios stay finite.
EXPONENT_LIMIT = 350.0

_ZERO = torch.zeros((), dtype=torch.float64)
_NO_PAIR = Pair.TRAINER_INFERENCE  # key of what depends on no pair

Convention = Literal["scored", "neutral", "trl"]
"""What becomes of a loss token whose log-ratio is unusable.

``scored``: it is left out. ``neutral``: ratio 1. ``trl``: NaN gives ratio 1, an infinity the largest finite float32
(TRL 1.16.0, nan_to_num of the masked log-ratio), anything else its own value.
"""


@dataclass
class TokenView:
    """Tokens of a batch laid out flat, masked ones already taken out.

    Attributes:
        segments: the layout, N rollouts with P tokens.
        trainer: float [P], nats, in the precision of the decisions.
        inference: float [P], nats.
        current: float [P], nats; None: on-policy, current = trainer.
        ref: float [P], nats, or None.
        advantage: float64 [N], or [P] where it differs per token (``advantage_per_token``), or None.
        repair: what to do with log-ratios that are not finite.
        unusable: bool [P], tokens that the ``neutral`` convention gives ratio 1; None when there are none.
        whole: where this view holds only some tokens of its rollouts, the view that holds all of them: what is decided
            per rollout is decided there.
        source: the view that this one holds tokens of; None where those come straight from a batch.
        taken: which tokens of the source or batch it holds; None for all.
        cuts: of filters that look at the whole batch, where they cut each rollout's; without them a view is a batch.
            Of losses that couple the rollouts of a group, each rollout's share.
    """

    segments: Segments
    trainer: Tensor
    inference: Tensor
    current: Tensor | None = None
    ref: Tensor | None = None
    advantage: Tensor | None = None
    advantage_per_token: bool = False
    repair: Convention = "scored"
    unusable: Tensor | None = None
    whole: TokenView | None = None
    source: TokenView | None = None
    taken: Tensor | slice | None = None
    cuts: dict[Filter | Contrast, Cuts | Shares] = field(default_factory=dict, repr=False)
    _cache: dict[tuple[Hashable, Pair], Any] = field(default_factory=dict, repr=False)

    @property
    def policy(self) -> Tensor:
        """Logprobs [P] of the policy that is differentiated, nats: the current one, else the trainer's."""
        return self.trainer if self.current is None else self.current

    def numerator(self, pair: Pair) -> Tensor:
        """Return the numerator policy's logprobs [P], nats."""
        return self.trainer if pair is Pair.TRAINER_INFERENCE else self.policy

    def denominator(self, pair: Pair) -> Tensor:
        """Return the denominator policy's logprobs [P], nats."""
        if pair is Pair.CURRENT_REF:
            if self.ref is None:
                raise ValueError("the view has no reference logprobs")
            return self.ref
        return self.trainer if pair is Pair.CURRENT_TRAINER else self.inference

    @property
    def token_advantage(self) -> Tensor:
        """The advantage of each token, float64 [P]."""
        advantage = self.advantage
        if advantage is None:
            raise ValueError("the view has no advantages")
        if self.advantage_per_token:
            return advantage
        return self._once("advantage", _NO_PAIR, lambda _: self.segments.expand(advantage))

    @property
    def uncertainty(self) -> Tensor:
        """1 - p [P], float64, p of the policy that is differentiated: size of the token's logit gradient; 0 at NaN."""
        return self._once("uncertainty", _NO_PAIR, lambda _: torch.fmax(-expm1(self.policy.double()), _ZERO))

    @property
    def position(self) -> Tensor:
        """Where each token stands among all tokens, of the loss mask or not, int64 [P]; from an arbitrary start."""
        return self._once("position", _NO_PAIR, lambda _: self._position())

    def log_ratio(self, pair: Pair) -> Tensor:
        """d [P], nats, in the precision of the decisions."""
        return self._once("log_ratio", self.resolve(pair), self._log_ratio)

    def ratio(self, pair: Pair) -> Tensor:
        """exp(d) [P], in the precision of the decisions."""
        return self._once("ratio", self.resolve(pair), lambda pair: self.log_ratio(pair).exp())

    def exact(self, pair: Pair) -> Tensor:
        """d [P] as float64, nats, within the exponents that figures can hold."""
        return self._once("exact", self.resolve(pair), self._exact)

    def excess(self, pair: Pair) -> Tensor:
        """rho - 1 [P], float64, by expm1."""
        return self._once("excess", self.resolve(pair), lambda pair: expm1(self.exact(pair)))

    def weight(self, pair: Pair) -> Tensor:
        """exp(d) [P], float64."""
        return self._once("weight", self.resolve(pair), lambda pair: self.exact(pair).exp())

    def k3(self, pair: Pair) -> Tensor:
        """expm1(d) - d [P], float64, nats."""
        return self._once("k3", self.resolve(pair), lambda pair: self.excess(pair) - self.exact(pair))

    def log_ratio_sum(self, pair: Pair) -> Tensor:
        """S = sum of d over each rollout [N], float64, nats."""
        return self._once("sum", self.resolve(pair), lambda pair: self.segments.sum(self.log_ratio(pair).double()))

    def remember_log_ratio_sum(self, pair: Pair, total: Tensor) -> None:
        """Take S [N] as computed elsewhere from the same tokens."""
        self._cache["sum", self.resolve(pair)] = total

    @property
    def rollouts(self) -> TokenView:
        """The view over which rollout-level statistics are taken."""
        return self if self.whole is None else self.whole

    def part(self, positions: Tensor) -> TokenView:
        """Return the view of some tokens only, int64 positions in rising order; rollouts keep their statistics."""
        return self._gather(self.segments.select(positions.numpy()), positions, whole=self)

    def only(self, kept: Tensor) -> TokenView:
        """Return the view of the tokens that a mask [P] keeps; what is decided per rollout is decided on them alone."""
        return self._gather(self.segments.select(np.flatnonzero(kept.numpy())), kept, whole=None)

    def _gather(self, segments: Segments, tokens: Tensor | slice, whole: TokenView | None) -> TokenView:
        def pick(column: Tensor | None) -> Tensor | None:
            return None if column is None else column[tokens]

        return replace(
            self,
            segments=segments,
            trainer=self.trainer[tokens],
            inference=self.inference[tokens],
            current=pick(self.current),
            ref=pick(self.ref),
            advantage=pick(self.advantage) if self.advantage_per_token else self.advantage,
            unusable=pick(self.unusable),
            whole=whole,
            source=self,
            taken=tokens,
            _cache={},
        )

    def resolve(self, pair: Pair) -> Pair:
        """The pair that stands for this one: without current logprobs the trainer's stand in for them."""
        on_policy = self.current is None and pair is Pair.CURRENT_INFERENCE
        return Pair.TRAINER_INFERENCE if on_policy else pair

    def once(self, what: Hashable, make: Callable[[], Any]) -> Any:
        """Return what ``make`` gives, which is made once for this view."""
        if (what, _NO_PAIR) not in self._cache:
            self._cache[what, _NO_PAIR] = make()
        return self._cache[what, _NO_PAIR]

    def _once(self, what: str, pair: Pair, make: Callable[[Pair], Tensor]) -> Tensor:
        if (what, pair) not in self._cache:
            self._cache[what, pair] = make(pair)
        found: Tensor = self._cache[what, pair]
        return found

    def _position(self) -> Tensor:
        if self.source is not None:
            every = self.source.position
        else:
            every = torch.arange(self.taken.numel() if isinstance(self.taken, Tensor) else self.segments.tokens)
        return every if self.taken is None else every[self.taken]

    def _log_ratio(self, pair: Pair) -> Tensor:
        d = self.numerator(pair) - self.denominator(pair)
        if self.repair == "trl":
            limit = torch.finfo(torch.float32).max
            return d.nan_to_num(nan=0.0, posinf=limit, neginf=-limit)
        return d if self.unusable is None else d.masked_fill(self.unusable, 0.0)

    def _exact(self, pair: Pair) -> Tensor:
        d = self.log_ratio(pair).double()
        if d.numel() and float(d.abs().max()) > EXPONENT_LIMIT:
            return d.clamp(-EXPONENT_LIMIT, EXPONENT_LIMIT)
        return d


def token_view(
    batch: RolloutBatch, tokens: Tensor | None, repair: Convention = "scored", unusable: Tensor | None = None
) -> TokenView:
    """Lay out the chosen tokens of a batch.

    Args:
        batch: the rollouts.
        tokens: bool [P], the tokens that count; None takes all.
        repair: what becomes of log-ratios that are not finite.
        unusable: bool [P] of the batch, tokens that get ratio 1 under ``neutral``.
    """
    segments = Segments(batch.offsets)
    trainer, inference, current, ref = (getattr(batch, name) for name in LOGPROBS)
    if unusable is not None:
        shared = _shared(policy for policy in (inference, trainer, current, ref) if policy is not None)
        trainer, inference = (torch.where(unusable, shared, policy) for policy in (trainer, inference))
        current, ref = (None if policy is None else torch.where(unusable, shared, policy) for policy in (current, ref))

    # Positions once and a gather per column: several times faster than indexing each column with the flags.
    places = None if tokens is None else np.flatnonzero(tokens.numpy())
    positions = None if places is None else torch.from_numpy(places)

    def pick(column: Tensor | None) -> Tensor | None:
        return column if column is None or positions is None else column.index_select(0, positions)

    return TokenView(
        segments=segments if places is None else segments.select(places),
        trainer=trainer if positions is None else trainer.index_select(0, positions),
        inference=inference if positions is None else inference.index_select(0, positions),
        current=pick(current),
        ref=pick(ref),
        advantage=pick(batch.advantage) if batch.advantage_per_token else batch.advantage,
        advantage_per_token=batch.advantage_per_token,
        repair=repair,
        unusable=pick(unusable),
        taken=tokens,
    )


def scored_view(
    batch: RolloutBatch, found: Usable, unscored: Literal["exclude", "neutral"]
) -> tuple[TokenView, Tensor | None]:
    """Lay out what figures are over: the usable loss tokens or, with ``neutral``, all loss tokens.

    Returns:
        The view, and which tokens of the batch it holds, bool [P]; None when it holds all.
    """
    if unscored == "exclude" or found.scored is None or not found.unscored:
        return token_view(batch, found.scored), found.scored
    unusable = ~found.scored if batch.loss_mask is None else batch.loss_mask & ~found.scored
    return token_view(batch, batch.loss_mask, "neutral", unusable), batch.loss_mask


def _shared(policies: Iterable[Tensor]) -> Tensor:
    """Of each token the first usable value [P] among the policies, 0 where none is usable."""
    first, *others = policies
    shared = torch.where(is_usable(first), first, 0.0)
    missing = ~is_usable(first)
    for policy in others:
        shared = torch.where(missing & is_usable(policy), policy, shared)
        missing &= ~is_usable(policy)
    return shared
