"""iscope: how far apart trainer and inference engine are, and what each importance-sampling correction does about it.

The public names are imported on first use, so that ``import iscope`` and the commands that only read tables start
without torch.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iscope.api import analyze, replay
    from iscope.checking import check
    from iscope.comparison import compare
    from iscope.dump.canonical import convert
    from iscope.dump.rollout_writer import RolloutWriter
    from iscope.engines.replay_pass import Replay
    from iscope.errors import DataError, GateFailure, IscopeError, UsageError
    from iscope.following.follow import follow
    from iscope.gates.model import Gate
    from iscope.inspecting import inspect
    from iscope.model import Figure, Finding, Inspection, Report
    from iscope.model.check import CheckResult
    from iscope.recipes.model import Recipe
    from iscope.recipes.own.function import recipe
    from iscope.recipes.own.registered import register
    from iscope.rollouts import RolloutBatch
    from iscope.sharding import map_shard, merge

__version__ = "0.1.0"

__all__ = [
    "CheckResult",
    "DataError",
    "Figure",
    "Finding",
    "Gate",
    "GateFailure",
    "Inspection",
    "IscopeError",
    "Recipe",
    "Replay",
    "Report",
    "RolloutBatch",
    "RolloutWriter",
    "UsageError",
    "__version__",
    "analyze",
    "check",
    "compare",
    "convert",
    "follow",
    "inspect",
    "map_shard",
    "merge",
    "recipe",
    "register",
    "replay",
]

_HOMES = {
    "CheckResult": "iscope.model.check",
    "DataError": "iscope.errors",
    "Figure": "iscope.model",
    "Finding": "iscope.model",
    "Gate": "iscope.gates.model",
    "GateFailure": "iscope.errors",
    "Inspection": "iscope.model",
    "IscopeError": "iscope.errors",
    "Recipe": "iscope.recipes.model",
    "Replay": "iscope.engines.replay_pass",
    "Report": "iscope.model",
    "RolloutBatch": "iscope.rollouts",
    "RolloutWriter": "iscope.dump.rollout_writer",
    "UsageError": "iscope.errors",
    "analyze": "iscope.api",
    "check": "iscope.checking",
    "compare": "iscope.comparison",
    "convert": "iscope.dump.canonical",
    "follow": "iscope.following.follow",
    "inspect": "iscope.inspecting",
    "map_shard": "iscope.sharding",
    "merge": "iscope.sharding",
    "recipe": "iscope.recipes.own.function",
    "register": "iscope.recipes.own.registered",
    "replay": "iscope.api",
}


class _Package(ModuleType):
    """The package. Its function ``replay`` shares its name with a folder, which an import would put in its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """Import a public name from its home on first use."""
    if name == "engines":
        return import_module("iscope.engines")
    if name not in _HOMES:
        raise AttributeError(f"module 'iscope' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the module's names, the lazy ones included."""
    return sorted({*globals(), *__all__})
