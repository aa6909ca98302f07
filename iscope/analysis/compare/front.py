"""The trade: what a setting still carries, against how far its weights are from the unbiased product; the front."""

from __future__ import annotations

from collections.abc import Sequence

from iscope.analysis.compare.nodes import effective_share, number_at
from iscope.model import Figure, Figures, Node, RecipeReport


def carried(entry: RecipeReport) -> float | None:
    """What a setting still carries: the smaller of gradient left and effective batch size over its base, at most 1.

    Gradient left alone rises without bound where one weight explodes; the effective batch size alone does not see that
    all weights are small. None without advantages.
    """
    left = number_at(entry.figures, "gradient_left.all")
    share = effective_share(entry.figures)
    return None if left is None or share is None else min(left, share, 1.0)


def front(entries: Sequence[RecipeReport]) -> list[Node]:
    """The settings that no other beats on both axes, the one that carries most first.

    Each is ``spec``, ``carried`` and ``product_left``. Of settings that are equal on both axes the first stands.
    """
    points: list[tuple[float, float, int]] = []
    for index, entry in enumerate(entries):
        across, away = carried(entry), number_at(entry.figures, "product_left")
        if across is not None and away is not None:
            points.append((-across, away, index))
    found: list[Node] = []
    least = float("inf")
    for across, away, index in sorted(points):
        if away < least:
            least = away
            point: Figures = {
                "spec": entries[index].spec,
                "carried": Figure(-across),
                "product_left": Figure(away),
            }
            found.append(point)
    return found
