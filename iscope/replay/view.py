"""TokenView: the tokens that count, with every intermediate that recipes share computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Literal

import torch
from torch import Tensor

from iscope.recipes.model import Filter, Pair
from iscope.replay.contrast import Contrast, Shares
from iscope.replay.cuts import Cuts
from iscope.replay.exp_rest import exp_rest
from iscope.replay.gathered import Gathered, places_of, segments_left
from iscope.replay.joined import Joined
from iscope.replay.segments import Segments, expm1
from iscope.replay.usable import Usable, is_usable
from iscope.rollouts import LOGPROBS, RolloutBatch

# exp of twice this still fits float64, so sums of squared ratios stay finite.
EXPONENT_LIMIT = 350.0

_ZERO = torch.zeros((), dtype=torch.float64)
_SHARED_FROM = ("inference", "trainer", "current", "ref")  # whose value the others get where one is unusable
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
        columns: ``trainer``, ``inference`` and, where there are any, ``current``, ``ref``, ``advantage`` per token and
            ``unusable``.
        row_advantage: float64 [N], where it does not differ within a rollout, or None.
        repair: what to do with log-ratios that are not finite.
        whole: where this view holds only some tokens of its rollouts, the view that holds all of them: what is decided
            per rollout is decided there.
        source: the view that this one holds tokens of; None where those come straight from a batch.
        taken: which tokens of the source or batch it holds; None for all.
        cuts: of filters that look at the whole batch, where they cut each rollout's; without them a view is a batch.
            Of losses that couple the rollouts of a group, each rollout's share.
    """

    segments: Segments
    columns: Gathered | Joined
    row_advantage: Tensor | None = None
    repair: Convention = "scored"
    whole: TokenView | None = None
    source: TokenView | None = None
    taken: Tensor | None = None
    cuts: dict[Filter | Contrast, Cuts | Shares] = field(default_factory=dict, repr=False)
    _cache: dict[tuple[Hashable, Pair], Any] = field(default_factory=dict, repr=False)

    @property
    def device(self) -> torch.device:
        """Where the tokens are."""
        return self.segments.device

    @property
    def trainer(self) -> Tensor:
        """Logprobs [P], nats, in the precision of the decisions."""
        return self.columns["trainer"]

    @property
    def inference(self) -> Tensor:
        """Logprobs [P], nats."""
        return self.columns["inference"]

    @property
    def current(self) -> Tensor | None:
        """Logprobs [P], nats; None: on-policy, current = trainer."""
        return self.columns.get("current")

    @property
    def ref(self) -> Tensor | None:
        """Logprobs [P], nats, or None."""
        return self.columns.get("ref")

    @property
    def unusable(self) -> Tensor | None:
        """Bool [P], tokens that the ``neutral`` convention gives ratio 1; None when there are none."""
        return self.columns.get("unusable")

    @property
    def advantage_per_token(self) -> bool:
        """Whether the advantage differs within a rollout."""
        return "advantage" in self.columns

    @property
    def advantage(self) -> Tensor | None:
        """The advantage, float64 [N], or [P] where it differs per token (``advantage_per_token``), or None."""
        return self.columns.get("advantage") if self.advantage_per_token else self.row_advantage

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
        return self._once("k3", self.resolve(pair), lambda pair: exp_rest(self.exact(pair)))

    def log_ratio_sum(self, pair: Pair) -> Tensor:
        """S = sum of d over each rollout [N], float64, nats."""
        return self._once("sum", self.resolve(pair), lambda pair: self.segments.sum(self.log_ratio(pair).double()))

    def rollout_ratio(self, pair: Pair, *, mean: bool) -> Tensor:
        """exp(S) or, with ``mean``, exp(G) of each rollout [N], in the precision of the decisions."""
        name = "ratio of mean" if mean else "ratio of sum"
        return self._once(name, self.resolve(pair), lambda pair: self._rollout_ratio(pair, mean=mean))

    def log_ratio_mean(self, pair: Pair) -> Tensor:
        """G = S / n of each rollout [N], float64, nats; 0 without tokens."""
        return self._once("mean", self.resolve(pair), self._log_ratio_mean)

    def remember_log_ratio_sum(self, pair: Pair, total: Tensor) -> None:
        """Take S [N] as computed elsewhere from the same tokens."""
        self._cache["sum", self.resolve(pair)] = total

    @property
    def rollouts(self) -> TokenView:
        """The view over which rollout-level statistics are taken."""
        return self if self.whole is None else self.whole

    def part(self, positions: Tensor) -> TokenView:
        """Return the view of some tokens only, int64 positions in rising order; rollouts keep their statistics."""
        return self._take(positions, whole=self)

    def only(self, kept: Tensor) -> TokenView:
        """Return the view of the tokens that a mask [P] keeps; what is decided per rollout is decided on them alone."""
        return self._take(places_of(kept), whole=None)

    def _take(self, positions: Tensor, whole: TokenView | None) -> TokenView:
        return replace(
            self,
            segments=self.segments.select(positions),
            columns=self.columns.take(positions),
            whole=whole,
            source=self,
            taken=positions,
            _cache={},
        )

    def resolve(self, pair: Pair) -> Pair:
        """The pair that stands for this one: without current logprobs the trainer's stand in for them."""
        on_policy = "current" not in self.columns and pair is Pair.CURRENT_INFERENCE
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
        if self.source is None or self.taken is None:
            places = self.columns.places
            return torch.arange(self.segments.tokens, device=self.device) if places is None else places
        return self.source.position[self.taken]

    def _log_ratio(self, pair: Pair) -> Tensor:
        d = self.numerator(pair) - self.denominator(pair)
        if self.repair == "trl":
            limit = torch.finfo(torch.float32).max
            return d.nan_to_num(nan=0.0, posinf=limit, neginf=-limit)
        return d if self.unusable is None else d.masked_fill(self.unusable, 0.0)

    def _log_ratio_mean(self, pair: Pair) -> Tensor:
        return self.log_ratio_sum(pair) / self.segments.lengths.clamp(min=1)

    def _rollout_ratio(self, pair: Pair, *, mean: bool) -> Tensor:
        log = self.log_ratio_mean(pair) if mean else self.log_ratio_sum(pair)
        return log.exp().to(self.trainer.dtype)

    def _exact(self, pair: Pair) -> Tensor:
        d = self.log_ratio(pair).double()
        if d.numel() and float(d.abs().max()) > EXPONENT_LIMIT:
            return d.clamp(-EXPONENT_LIMIT, EXPONENT_LIMIT)
        return d


def joined(views: Sequence[TokenView]) -> TokenView:
    """Return the view of several with whole rollouts, one after the other; they have the same columns, and no cuts."""
    first, sizes = views[0], [view.segments.tokens for view in views]
    edges = [0, *accumulate(sizes)]
    offsets = [view.segments.offsets[1:] + start for view, start in zip(views, edges, strict=False)]
    advantages = [view.row_advantage for view in views if view.row_advantage is not None]
    return replace(
        first,
        segments=Segments(torch.cat([first.segments.offsets[:1], *offsets])),
        columns=Joined([view.columns for view in views], edges),
        row_advantage=torch.cat(advantages) if advantages else None,
        whole=None,
        source=None,
        taken=None,
        _cache={},
    )


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
    columns = {name.removesuffix("_logprobs"): getattr(batch, name) for name in LOGPROBS}
    columns |= {"advantage": batch.advantage if batch.advantage_per_token else None}
    present = {name: column for name, column in columns.items() if column is not None}
    if unusable is not None:
        policies = [name for name in present if name != "advantage"]
        shared = _shared(present[name] for name in sorted(policies, key=_SHARED_FROM.index))
        present |= {name: torch.where(unusable, shared, present[name]) for name in policies}
        present["unusable"] = unusable
    segments = Segments(batch.offsets)
    return TokenView(
        segments=segments if tokens is None else segments_left(segments, tokens),
        columns=Gathered(present, tokens),
        row_advantage=None if batch.advantage_per_token else batch.advantage,
        repair=repair,
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
