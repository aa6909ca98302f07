"""Figures that wait for their intervals, and what gives all of a tree of figures theirs at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import numpy as np

from iscope.analysis.intervals.bootstrap import FEWEST_CLUSTERS, ROUNDING, Columns, intervals
from iscope.analysis.intervals.statistics import Statistic
from iscope.analysis.numbers import Array
from iscope.model import Figure, Node

T = TypeVar("T")

# Figures whose columns are resampled together, 8 kB a column.
_TOGETHER = 1024
_LARGEST_EXPONENT = 709.0


class Pending(Figure):
    """A figure whose interval is still to be found.

    Attributes:
        statistic: what the figure is of its sums.
        sums: float64 [B] each, what these are sums of, over the blocks of what is resampled. Figures of the same sums
            have the very arrays.
        shift: what is to be added to the log of the statistic for the figure, nats.
    """

    statistic: Statistic
    sums: Sequence[Array]
    shift: float

    def __init__(self, value: float, statistic: Statistic, sums: Sequence[Array], shift: float) -> None:
        """Take a finite value and what its interval is found with."""
        # A report has thousands of them: one by one the attributes of a frozen dataclass take several times as long.
        self.__dict__.update(value=value, statistic=statistic, sums=sums, shift=shift)

    def bounded(self, low: float, high: float) -> Figure:
        """Return the figure with its statistic's interval, moved so that it holds the value; NaN is none."""
        assert self.value is not None
        if self.shift:
            scale = math.exp(min(self.shift, _LARGEST_EXPONENT))
            low, high = low * scale, high * scale
        if not (math.isfinite(low) and math.isfinite(high)):
            return Figure(self.value)
        if high - low <= ROUNDING * abs(self.value):
            return Figure(self.value, self.value, self.value)
        return Figure(self.value, min(low, self.value), max(high, self.value))


def pending(found: Figure, statistic: Statistic, sums: Sequence[Array], shift: float = 0.0) -> Figure:
    """Return a figure that waits for its interval, see ``Pending``; itself where it can have none."""
    if found.value is None or found.log10 is not None or len(sums[0]) < FEWEST_CLUSTERS:
        return found
    return Pending(found.value, statistic, sums, shift)


def closed(tree: T) -> T:
    """Return a tree of figures in which each has its interval, where it has one, see ``Closing``."""
    closing = Closing(tree)
    closing.find()
    return closing.tree()


class Closing(Generic[T]):
    """A tree of figures that gets the intervals that it waits for."""

    def __init__(self, tree: T) -> None:
        """Gather what is to be found."""
        self._tree = tree
        self._waiting: list[Pending] = []
        _gather(cast("Node", tree), self._waiting)
        places = range(len(self._waiting))
        self._asked = [
            _Asked.of(self._waiting, alike)
            for first in places[::_TOGETHER]
            for alike in _grouped(places[first : first + _TOGETHER], lambda place: len(self._waiting[place].sums[0]))
        ]
        self._ends = np.full((len(self._waiting), 2), np.nan)

    def find(self) -> None:
        """Find all intervals, in loops that leave the interpreter to others; nothing else is done here."""
        for asked in self._asked:
            columns = Columns.of(asked.blocks)
            for statistic, places, of in asked.figures:
                self._ends[places] = intervals(columns, of, statistic)

    def tree(self) -> T:
        """Return the tree with the intervals that were found.

        A figure named ``value`` among others is replaced by its own parts: ``value``, ``low``, ``high``.
        """
        ends = self._ends.tolist()
        found = {id(one): one.bounded(low, high) for one, (low, high) in zip(self._waiting, ends, strict=True)}
        return cast("T", _filled(cast("Node", self._tree), found))


@dataclass(frozen=True)
class _Asked:
    """Figures over as many blocks.

    Attributes:
        blocks: the columns that they are sums of, float64 [J, B].
        figures: those of each statistic: their places among all figures, and their columns [F, k].
    """

    blocks: Array
    figures: list[tuple[Statistic, list[int], Array]]

    @classmethod
    def of(cls, waiting: Sequence[Pending], places: Sequence[int]) -> _Asked:
        """Take figures by their places."""
        held = {id(column): column for place in places for column in waiting[place].sums}
        at = {name: index for index, name in enumerate(held)}
        figures = []
        for alike in _grouped(places, lambda place: waiting[place].statistic):
            of = np.array([[at[id(column)] for column in waiting[place].sums] for place in alike])
            figures.append((waiting[alike[0]].statistic, alike, of))
        return cls(np.array([*held.values()]), figures)


def _gather(node: Node, waiting: list[Pending]) -> None:
    if isinstance(node, Pending):
        waiting.append(node)
    elif isinstance(node, dict):
        for child in node.values():
            _gather(child, waiting)
    elif isinstance(node, list):
        for child in node:
            _gather(child, waiting)


def _filled(node: Node, found: dict[int, Figure]) -> Node:
    if isinstance(node, Pending):
        return found[id(node)]
    if isinstance(node, list):
        return [_filled(child, found) for child in node]
    if not isinstance(node, dict):
        return node
    filled = {name: _filled(child, found) for name, child in node.items()}
    own = filled.get("value")
    if isinstance(own, Figure):
        del filled["value"]
        return own.to_dict() | filled
    return filled


def _grouped(places: Sequence[int], by: Callable[[int], object]) -> list[list[int]]:
    """Places that have something in common, group by group in the order in which they first appear."""
    groups: dict[object, list[int]] = {}
    for place in places:
        groups.setdefault(by(place), []).append(place)
    return [*groups.values()]
