"""One number of a report, or the reason why there is none, and named or listed groups of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from iscope.place import shown

put = object.__setattr__  # what sets an attribute of a frozen object


@dataclass(frozen=True, init=False)
class Figure:
    """One number of the report, or the reason why there is none.

    Attributes:
        value: the number; None when it is absent.
        low: lower end of its 95% interval, where it has one.
        high: upper end of its 95% interval, where it has one.
        why: why the value is absent.
        log10: log10 of a positive value that float64 cannot hold (it over- or underflowed).
        bin: for a quantile read from a histogram, the edges of the bin that holds it.
    """

    value: float | int | None
    low: float | None = None
    high: float | None = None
    why: str | None = None
    log10: float | None = None
    bin: tuple[float, float] | None = None

    def __init__(
        self,
        value: float | int | None,
        low: float | None = None,
        high: float | None = None,
        why: str | None = None,
        log10: float | None = None,
        bin: tuple[float, float] | None = None,
    ) -> None:
        """Refuse what JSON cannot hold and what a reader could not interpret."""
        # A report has thousands: what is not set is read off the class.
        put(self, "value", value)
        if low is not None or high is not None or why is not None or log10 is not None or bin is not None:
            for name, given in (("low", low), ("high", high), ("why", why), ("log10", log10), ("bin", bin)):
                if given is not None:
                    put(self, name, given)
        elif value is not None and math.isfinite(value):
            return
        if value is None and why is None:
            raise ValueError("an absent figure says why")
        if not all(math.isfinite(number) for number in (value, low, high, log10, *(bin or ())) if number is not None):
            raise ValueError(f"a figure must be finite or absent, not {self}")

    @classmethod
    def absent(cls, why: str) -> Figure:
        """Return a figure without a value, and the reason."""
        return cls(None, why=why)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: ``value`` always, the rest where it is set."""
        parts = {"low": self.low, "high": self.high, "why": self.why, "log10": self.log10}
        bins = None if self.bin is None else list(self.bin)
        return {"value": self.value} | {k: v for k, v in (parts | {"bin": bins}).items() if v is not None}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Figure:
        """Read what ``to_dict`` wrote.

        Raises:
            ValueError, TypeError: when it is no figure.
        """
        low, high = data.get("bin", (0, 0))
        if not isinstance(data.get("why", ""), str):
            raise ValueError(f"the reason why a figure is absent is text, not {shown(data['why'])}")
        return cls(**(data | {"bin": (low, high)} if "bin" in data else data))


_FIGURE_KEYS = {part.name for part in fields(Figure)}

# A figure, a count, a number, a word, or a named or listed group of them.
Node = Figure | int | float | str | None | dict[str, "Node"] | list["Node"]
Figures = dict[str, Node]


def nodes_to_json(node: Node) -> Any:
    """Return a tree of figures as JSON values."""
    if isinstance(node, Figure):
        return node.to_dict()
    if isinstance(node, dict):
        return {name: nodes_to_json(child) for name, child in node.items()}
    if isinstance(node, list):
        return [nodes_to_json(child) for child in node]
    return node


def nodes_from_json(data: Any) -> Node:
    """Read what ``nodes_to_json`` wrote."""
    if isinstance(data, dict):
        if "value" in data and data.keys() <= _FIGURE_KEYS:
            return Figure.from_dict(data)
        return {name: nodes_from_json(child) for name, child in data.items()}
    if isinstance(data, list):
        return [nodes_from_json(child) for child in data]
    return data  # type: ignore[no-any-return]


def row_from_json(data: dict[str, Any]) -> Figures:
    """Read a named group of figures."""
    return {name: nodes_from_json(value) for name, value in data.items()}
