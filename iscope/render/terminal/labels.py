"""Short labels of recipes: the name and its bounds, as low..high."""

from __future__ import annotations

import re
from typing import Any

from iscope.errors import UsageError
from iscope.model import RecipeReport
from iscope.recipes.registry import lookup
from iscope.render.strings import clean, elide

_LIMIT = 120
_LOW = re.compile(r"(_low|_min|^low|^min)$")
_HIGH = {"low": "high", "min": "max"}


def label(recipe: RecipeReport) -> str:
    """Return the recipe's name and every bound or option that is set, ``trl/token_mask 0.5..2``.

    A pair of bounds is written low..high, an open one without its number. Options left at their default are spelled
    out only where they are bounds.
    """
    shown = _own_options(recipe)
    parts = []
    for name, value in shown.items():
        high = _partner(name, shown)
        if high is not None:
            parts.append(_pair(_spell(value), _spell(shown[high])))
        elif not any(_partner(other, shown) == name for other in shown) and value is not None:
            parts.append(_single(name, value, alone=len(shown) == 1))
    fitted = ["(fitted)"] if recipe.fitted else []
    return elide(clean(" ".join([recipe.name, *parts, *fitted])), _LIMIT)


def _own_options(recipe: RecipeReport) -> dict[str, Any]:
    """Options that the full form spells out, without those that are no bounds and at their default."""
    spelled = {piece.partition("=")[0] for piece in recipe.spec.partition(":")[2].split(",") if piece}
    try:
        found = lookup(recipe.name)
    except UsageError:
        found = None
    if found is None:
        return {name: value for name, value in recipe.options.items() if name in spelled}
    row = found[1]
    defaults = {option.short: option.default for option in row.options if not _is_bound(option.short)}
    return {
        name: value
        for name, value in recipe.options.items()
        if name in spelled and (name not in defaults or value != defaults[name] or len(row.options) == 1)
    }


def _is_bound(name: str) -> bool:
    return bool(re.search(r"(low|high|min|max|clip|threshold|eps)$", name))


def _partner(name: str, options: dict[str, Any]) -> str | None:
    """The upper bound that belongs to a lower one."""
    if not _LOW.search(name):
        return None
    high = name[:-3] + _HIGH[name[-3:]]
    return high if high in options else None


def _single(name: str, value: Any, *, alone: bool) -> str:
    if alone and name in ("high", "seq_clip"):
        return f"..{_spell(value)}"
    return f"{name} {_spell(value)}"


def _pair(low: str, high: str) -> str:
    """Two bounds as low..high; of an upper one below 1 the zero stays, so that the dots can be told apart."""
    return f"{low}..{'0' if high.startswith('.') else ''}{high}"


def _spell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text.removeprefix("0") if text.startswith("0.") else text
