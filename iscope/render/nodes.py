"""Reading a tree of figures without assuming what is in it."""

from __future__ import annotations

from collections.abc import Iterator

from iscope.model import Figure, Figures, Node


def at(figures: Figures, *path: str) -> Node:
    """Return what lies at a path of names, None where the path ends early."""
    node: Node = figures
    for name in path:
        if not isinstance(node, dict) or name not in node:
            return None
        node = node[name]
    return node


def figure(node: Node) -> Figure | None:
    """Return a number of the tree as a figure, None where the node is no number.

    A group with a ``value`` (a figure with more beside it) counts as the figure it holds.
    """
    if isinstance(node, dict) and "value" in node:
        return _grouped(node)
    if isinstance(node, bool) or not isinstance(node, Figure | int | float):
        return None
    return node if isinstance(node, Figure) else Figure(node)


def entries(node: Node) -> list[Figures]:
    """Return the named groups of a list; none where the node is no list."""
    return [entry for entry in node if isinstance(entry, dict)] if isinstance(node, list) else []


def number_of(node: Node) -> float | int | None:
    """Return the value of a number of the tree, None where it is absent or no number."""
    found = figure(node)
    return None if found is None else found.value


def scalars(figures: Figures) -> Iterator[tuple[str, Node]]:
    """Yield the figures, counts and words of a group; those of its subgroups under ``group name`` names."""
    for name, node in figures.items():
        if isinstance(node, dict) and "value" not in node:
            yield from ((f"{name} {inner}", child) for inner, child in scalars(node))
        elif not isinstance(node, list):
            yield name, node


def _grouped(node: Figures) -> Figure | None:
    value, why = figure(node["value"]), node.get("why")
    if value is None:
        return Figure.absent(why) if isinstance(why, str) else None
    ends = {end: _plain(node.get(end)) for end in ("low", "high")}
    return Figure(value.value, **(ends if value.low is None else {"low": value.low, "high": value.high}), why=value.why)


def _plain(node: Node) -> float | int | None:
    found = figure(node)
    return None if found is None else found.value
