"""Who runs the units of a dump: this process, or a Ray cluster. Engines are imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iscope.engines.ray_tasks import Ray

__all__ = ["Ray"]


def __getattr__(name: str) -> Any:
    """Import an engine on first use."""
    if name != "Ray":
        raise AttributeError(f"module 'iscope.engines' has no attribute {name!r}")
    return import_module("iscope.engines.ray_tasks").Ray
