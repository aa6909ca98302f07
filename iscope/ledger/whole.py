"""The tokens of a view measured all at once, where they are not on a CPU.

There is no screen there: every token is outside it and none inside. A GPU compares every token with every bound in less
time than it takes to tell the few that matter from the others.
"""

from __future__ import annotations

from collections import defaultdict

import torch

from iscope.ledger import histogram
from iscope.ledger.blocks import Blocks
from iscope.ledger.bulk import Columns, empty_bulk
from iscope.ledger.by_p import gaps_of
from iscope.ledger.gradient import can_differentiate
from iscope.ledger.histogram import Counts
from iscope.ledger.plan import Plan
from iscope.ledger.tail import BatchTail
from iscope.recipes.model import Pair
from iscope.replay.segments import on_cpu
from iscope.replay.view import TokenView


def measure_whole(view: TokenView, plan: Plan, pairs: list[Pair], tail: BatchTail) -> Blocks:
    """Measure the tokens of a view on its device; arguments and result as of ``measure_blocks``, without a screen."""
    tail.add(view, pairs)
    total = view.segments.sum
    bases = [index for index, base in enumerate(plan.bases) if can_differentiate(view, base)]
    return Blocks(
        columns={
            "trainer_logprob_sum": total(view.trainer.double()),
            "inference_logprob_sum": total(view.inference.double()),
        },
        log_ratio_sums={pair: total(view.log_ratio(pair).double()) for pair in pairs},
        counts=_counts(view, pairs),
        outside=None,
        bulk=empty_bulk(view.segments.rows, pairs, [(index, None) for index in bases], view.device),
        by_p={},
    )


def fetched(columns: Columns) -> Columns:
    """Return columns [N] on the CPU; those of a type are copied from a device together."""
    if all(map(on_cpu, columns.values())):
        return columns
    kinds: dict[torch.dtype, list[str]] = defaultdict(list)
    for name, values in columns.items():
        kinds[values.dtype].append(name)
    found: Columns = {}
    for names in kinds.values():
        table = torch.stack([columns[name] for name in names]).cpu()
        found |= {name: row.clone() for name, row in zip(names, table, strict=True)}
    return {name: found[name] for name in columns}


def _counts(view: TokenView, pairs: list[Pair]) -> dict[str, Counts]:
    """Histograms of the gap, where it says something, and of each pair's log-ratios."""
    gaps, certain = gaps_of(view.inference, view.log_ratio(pairs[0]))
    bins = {"gap": histogram.bins_of(gaps[~certain])}
    bins |= {str(pair): histogram.bins_of(view.log_ratio(pair)) for pair in pairs}
    return {name: histogram.count(found) for name, found in bins.items()}
