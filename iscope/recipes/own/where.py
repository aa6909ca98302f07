"""Where in a user's recipes something stands."""

from __future__ import annotations

from dataclasses import dataclass

from iscope.place import Place


@dataclass(frozen=True)
class Where(Place):
    """A place in a user's recipes, whose home is file and table, or the recipe: ``my.toml: [recipes."mine/foo"]``.

    Attributes:
        values_only: whether options are filled in, so that none may be named here.
    """

    values_only: bool = False
