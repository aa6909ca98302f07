"""Rows of a breakdown -> what a limit on a trend is held against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from iscope.gates.combine import growth, slope
from iscope.gates.figures import Located
from iscope.gates.model import Form
from iscope.model import Figure


def trend(found: Sequence[Located], form: Form, window: int) -> tuple[Figure, Figure]:
    """Return the slope or the growth of figures over the values of their rows, and the figure of the last row.

    Rows whose value is no number, such as those without a step, are left out; the others are put in order.

    Args:
        found: the figures, each with the value of its row.
        form: ``slope`` or ``growth``.
        window: how many rows are the first and the last of a growth.
    """
    rows = [(place, one.figure) for one in found if (place := _place(one.key)) is not None]
    rows.sort(key=lambda row: row[0])
    figures = [figure for _, figure in rows]
    if not rows:
        absent = next((one.figure for one in found if one.figure.value is None), None)
        none = absent or Figure.absent("the values of its rows are no numbers")
        return none, none
    compared = slope([place for place, _ in rows], figures) if form.of == "slope" else growth(figures, window)
    return compared, figures[-1]


def _place(key: Any) -> float | None:
    """The value of a breakdown's row as a number."""
    if isinstance(key, bool) or key is None:
        return None
    try:
        place = float(key)
    except ValueError:
        return None
    return place if math.isfinite(place) else None
