"""The pass before all others, for recipes that look at a whole batch: filters that sort it, losses over its groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import torch

from iscope.engines.ahead import decode_ahead
from iscope.engines.scopes import Scopes
from iscope.recipes.model import BoundRecipe
from iscope.replay.dump_cuts import DumpCuts, RowCuts
from iscope.replay.usable import usable
from iscope.replay.view import scored_view
from iscope.rollouts import RolloutBatch


def find_cuts(
    batches: Callable[[], Iterable[RolloutBatch]],
    recipes: Iterable[BoundRecipe],
    unscored: Literal["exclude", "neutral"],
    scope: str | int = "all",
) -> RowCuts:
    """Read the dump once and return what ``dump_cuts`` finds of each rollout; without such a recipe it is not read.

    It works on the CPU, whatever device the tokens are measured on: what it collects is sorted there.

    Args:
        batches: starts a pass over the dump.
        recipes: the recipes.
        unscored: leave loss tokens with an unusable logprob out, or give them ratio 1.
        scope: what is one batch, as ``iscope.engines.scopes.batch_scope`` returns it.
    """
    found, scopes, first = DumpCuts(recipes), Scopes(scope), 0
    if not found.needed:
        return {}
    for batch in decode_ahead(batches()):
        view, _ = scored_view(batch, usable(batch), unscored)
        found.add(view, torch.from_numpy(scopes.places(batch.columns, first)), batch.columns)
        first += len(batch)
    return found.cuts()
