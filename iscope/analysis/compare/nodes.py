"""Numbers out of a tree of figures."""

from __future__ import annotations

import math
from typing import Any

from iscope.model import Figure, Figures, Node


def node_at(figures: Figures, path: str) -> Node:
    """Return what lies at a dotted path, None where the path ends early."""
    node: Node = figures
    for name in path.split("."):
        node = node.get(name) if isinstance(node, dict) else None
    return node


def number_at(figures: Figures, path: str) -> float | None:
    """Return the number at a dotted path; infinite where it overflows float64; None where there is none."""
    node = node_at(figures, path)
    if isinstance(node, dict):
        node = node.get("value") if not isinstance(node.get("value"), dict) else None
    if isinstance(node, Figure):
        if node.value is None and node.log10 is not None and node.log10 > 0:
            return math.inf
        node = node.value
    return float(node) if isinstance(node, int | float) and not isinstance(node, bool) else None


def figure_at(figures: Figures, path: str) -> Figure | None:
    """Return the figure at a dotted path, its interval included; None where there is none."""
    node = node_at(figures, path)
    if isinstance(node, dict) and not isinstance(node.get("value", {}), dict):
        kept: dict[str, Any] = {name: node[name] for name in ("value", "low", "high", "log10", "why") if name in node}
        return Figure(**kept)
    if isinstance(node, bool) or not isinstance(node, Figure | int | float):
        return None
    return node if isinstance(node, Figure) else Figure(node)


def effective_share(figures: Figures) -> float | None:
    """Return the effective batch size of a setting over its base's; None where there is none."""
    size, base = (number_at(figures, f"effective_batch_size.{part}") for part in ("value", "base"))
    return None if size is None or not base else size / base


def paths_of(figures: Figures, prefix: str = "") -> list[str]:
    """Return the dotted paths of all figures and counts, lists left out."""
    found: list[str] = []
    for name, node in figures.items():
        if isinstance(node, dict):
            found += [prefix + name] if "value" in node else []
            grouped = ("value", "low", "high", "log10") if "value" in node else ()
            found += paths_of({key: child for key, child in node.items() if key not in grouped}, f"{prefix}{name}.")
        elif isinstance(node, Figure | int | float):
            found.append(prefix + name)
    return found
