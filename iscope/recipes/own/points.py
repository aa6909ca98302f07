"""The entry points through which installed packages bring recipes; they are found here and loaded elsewhere."""

from __future__ import annotations

from functools import cache
from importlib import metadata

GROUP = "iscope.recipes"


@cache
def installed() -> dict[str, tuple[metadata.EntryPoint, ...]]:
    """Return the entry points by name, in order; a package that is found twice on the path counts once."""
    found: dict[str, dict[tuple[str, str], metadata.EntryPoint]] = {}
    for point in metadata.entry_points(group=GROUP):
        found.setdefault(point.name, {}).setdefault((package(point), point.value), point)
    return {name: tuple(points.values()) for name, points in sorted(found.items())}


def package(point: metadata.EntryPoint) -> str:
    """Return the name and version of the package that an entry point is of."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value
