"""RolloutBatch + plan -> what its tokens sum up to before recipes are replayed, and the few that recipes look at."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from iscope.ledger.blocks import Blocks, Walked, blocks_of, together, walk_over
from iscope.ledger.plan import Plan
from iscope.ledger.screen import screen_of
from iscope.ledger.split import Columns
from iscope.ledger.tail import BatchTail, Tails
from iscope.ledger.whole import measure_whole
from iscope.recipes.model import Pair
from iscope.replay.dump_cuts import RowCuts, own_cuts
from iscope.replay.segments import Segments
from iscope.replay.usable import Usable, usable
from iscope.replay.view import TokenView, joined, scored_view
from iscope.rollouts import RolloutBatch


@dataclass(frozen=True)
class Looked:
    """A batch whose tokens have been looked at, each once.

    Attributes:
        batch: the rollouts.
        usable: what can be scored of it.
        view: the scored tokens.
        seen: what was found of them.
        tails: token log-ratios that may be among the largest, by pair.
    """

    batch: RolloutBatch
    usable: Usable
    view: TokenView
    seen: Walked | Blocks
    tails: Tails

    @property
    def kind(self) -> Hashable:
        """What is equal of batches on which recipes can be replayed at once; None of one that goes with no other."""
        view, seen = self.view, self.seen
        if view.cuts or not isinstance(seen, Walked):
            return None
        columns = frozenset(name for name in ("current", "ref", "advantage", "unusable") if name in view.columns)
        return columns, view.row_advantage is None, tuple(seen.pairs), tuple(seen.uneven)

    @property
    def outside(self) -> int:
        """Tokens that recipes look at."""
        return self.seen.outside.numel() if isinstance(self.seen, Walked) else self.view.segments.tokens

    def token_counts(self) -> Columns:
        """Tokens of each rollout by what they can be used for, int64 [N]."""
        batch, found, scored = self.batch, self.usable, self.view.segments.lengths
        layout = Segments(batch.offsets)
        if found.scored is batch.loss_mask:
            loss = usable_tokens = scored
        else:
            loss = _count(layout, batch.loss_mask)
            usable_tokens = _count(layout, found.scored)
        nan = torch.zeros_like(loss) if found.nan is None else layout.count(found.nan)
        return {
            "tokens": layout.lengths,
            "loss_tokens": loss,
            "usable_tokens": usable_tokens,
            "scored": scored,
            "nan_tokens": nan,
        }


def can_go_together(plan: Plan) -> bool:
    """Whether a plan's recipes can be replayed on several batches at once, and few tokens of them need to be."""
    return not plan.families and not screen_of(plan).dense


def look(
    batch: RolloutBatch, plan: Plan, cuts: RowCuts | None = None, floors: Mapping[str, float] | None = None
) -> Looked:
    """Look at the tokens of a batch; the arguments are those of ``iscope.ledger.measure.measure``."""
    found = usable(batch)
    view, _ = scored_view(batch, found, plan.unscored)
    view.cuts = own_cuts(view, plan.recipes, batch.columns) if cuts is None else cuts
    tail = BatchTail(floors)
    seen = see(view, plan, tail)
    return Looked(batch, found, view, seen, tail.tails())


def see(view: TokenView, plan: Plan, tail: BatchTail) -> Walked | Blocks:
    """Look at the tokens of a view, on the device that they are on; ``tail`` takes the largest log-ratios."""
    pairs = _measured_pairs(view, plan)
    on_cpu = view.device.type == "cpu"
    return walk_over(view, plan, pairs, tail) if on_cpu else measure_whole(view, plan, pairs, tail)


def seen_together(looked: Sequence[Looked], plan: Plan) -> tuple[TokenView, Blocks]:
    """Return the tokens of batches that go with each other, one after the other, and what was found of them."""
    if len(looked) == 1:
        view, seen = looked[0].view, looked[0].seen
        return view, seen if isinstance(seen, Blocks) else blocks_of(view, plan, seen)
    view = joined([one.view for one in looked])
    walks = [one.seen for one in looked if isinstance(one.seen, Walked)]
    return view, blocks_of(view, plan, together(walks, [one.view.segments.tokens for one in looked]))


def _count(layout: Segments, flags: Tensor | None) -> Tensor:
    return layout.lengths if flags is None else layout.count(flags)


def _measured_pairs(view: TokenView, plan: Plan) -> list[Pair]:
    """Pairs that the view can tell apart: those of the plan, and engine and lag where there are current logprobs."""
    wanted = {view.resolve(pair) for pair in plan.pairs}
    if view.current is not None:
        wanted |= {Pair.CURRENT_INFERENCE, Pair.CURRENT_TRAINER}
    if view.ref is None:
        wanted.discard(Pair.CURRENT_REF)
    return [pair for pair in Pair if pair in wanted]
