"""Figures that wait for their intervals, and what gives all of a tree of figures theirs at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import numpy as np

from iscope.analysis.intervals.bootstrap import FEWEST_CLUSTERS, ROUNDING, Columns, intervals
from iscope.analysis.intervals.statistics import Statistic
from iscope.analysis.numbers import Array
from iscope.model import Figure, Figures, Node
from iscope.model.figure import put

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
        put(self, "value", value)
        put(self, "statistic", statistic)
        put(self, "sums", sums)
        put(self, "shift", shift)

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
    """A tree of figures that gets the intervals that it waits for, in place."""

    def __init__(self, tree: T) -> None:
        """Gather what is to be found."""
        self._root = [cast("Node", tree)]
        self._slots: list[_Slot] = []
        _gather(self._root, self._slots)
        found = {id(one): one for _, _, one in self._slots if isinstance(one, Pending)}
        self._waiting = [*found.values()]
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
        ends = zip(self._waiting, self._ends.tolist(), strict=True)
        found: dict[int, Figure] = {id(one): one.bounded(low, high) for one, (low, high) in ends}
        for group, name, one in self._slots:
            figure = found.get(id(one), one)
            if name == "value":
                _spread(cast("Figures", group), figure)
            else:
                group[name] = figure
        return cast("T", self._root[0])


# A named or listed group of figures, the place of one of them in it, and this one.
_Slot = tuple[Any, str | int, Figure]


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


def _gather(group: dict[str, Node] | list[Node], slots: list[_Slot]) -> None:
    """Find the figures that wait, and those that are to be replaced by their parts."""
    named: Iterable[tuple[str | int, Node]] = group.items() if isinstance(group, dict) else enumerate(group)
    for name, node in named:
        if isinstance(node, dict | list):
            _gather(node, slots)
        elif isinstance(node, Pending) or (name == "value" and isinstance(node, Figure)):
            slots.append((group, name, node))


def _spread(group: Figures, own: Figure) -> None:
    """Replace a figure named ``value`` by its own parts."""
    others = {name: node for name, node in group.items() if name != "value"}
    group.clear()
    group.update(own.to_dict())
    group.update(others)


def _grouped(places: Sequence[int], by: Callable[[int], object]) -> list[list[int]]:
    """Places that have something in common, group by group in the order in which they first appear."""
    groups: dict[object, list[int]] = {}
    for place in places:
        groups.setdefault(by(place), []).append(place)
    return [*groups.values()]
