"""Recipes: which correction, under which bounds and loss options. Data and its grammar, without torch."""

from __future__ import annotations

from iscope.recipes.defaults import DEFAULT_RECIPES
from iscope.recipes.grammar import bind, describe, parse
from iscope.recipes.registry import ALIASES, FRAMEWORKS, find, framework, frameworks, names

__all__ = [
    "ALIASES",
    "DEFAULT_RECIPES",
    "FRAMEWORKS",
    "bind",
    "describe",
    "find",
    "framework",
    "frameworks",
    "names",
    "parse",
]
