"""Engines by name, and what a name or an object stands for; no torch, so that the command line can check it at once."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from iscope.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from iscope.engines.in_parts import Engine

# The local engine has two homes: one pass, or part by part where parts are to be kept.
ENGINES = {"local": None, "ray": "iscope.engines.ray_tasks:Ray"}


def check_engine(name: str) -> None:
    """Refuse an engine that there is not.

    Raises:
        UsageError: when there is none of that name.
    """
    if name not in ENGINES:
        raise UsageError(f"engine must be {' or '.join(ENGINES)}, not {name!r}.{did_you_mean(name, ENGINES)}")


def engine_of(engine: str | Engine) -> Engine | None:
    """Return the engine that is meant; None is the local one.

    Raises:
        UsageError: when there is none of that name, or what it needs is not installed.
    """
    if not isinstance(engine, str):
        return engine
    check_engine(engine)
    home = ENGINES[engine]
    if home is None:
        return None
    module, _, name = home.partition(":")
    made: Any = getattr(import_module(module), name)()
    return made  # type: ignore[no-any-return]
