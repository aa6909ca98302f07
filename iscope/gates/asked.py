"""What gates ask of the pass over a dump: recipes to replay, keys to break down by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iscope.errors import UsageError
from iscope.gates.model import Gate
from iscope.gates.path import Path, Pick, join, read_path
from iscope.recipes.grammar import parse

if TYPE_CHECKING:
    from iscope.recipes.model import Recipe


def breakdowns_of(gates: Sequence[Gate]) -> list[str]:
    """Return the keys of the breakdowns that gates look into, in their order."""
    keys = (read_path(gate.figure).breakdown for gate in gates if gate.figure)
    return list(dict.fromkeys(key for key in keys if key is not None))


def with_specs(gates: Sequence[Gate], own: Mapping[str, Recipe]) -> tuple[Gate, ...]:
    """Return gates whose recipes are named as reports write them, with every option.

    Raises:
        UsageError: when a gate names a recipe that there is not.
    """
    return tuple(_with_specs(gate, own) if gate.figure else gate for gate in gates)


def recipes_of(gates: Sequence[Gate], given: Sequence[Any] | None, own: Mapping[str, Recipe]) -> list[Any] | None:
    """Return the recipes to replay: those given, then those that gates name and that are not among them.

    Without any given it is ``none`` and those that gates name; the default list, as None, where gates look at every
    recipe and name none.

    Args:
        gates: gates that name recipes by their specs.
        given: recipes as ``analyze`` takes them.
        own: recipes of files.
    """
    paths = [read_path(gate.figure) for gate in gates if gate.figure]
    known = {_spec(one, own) for one in given or () if isinstance(one, str)}
    named = [spec for spec in dict.fromkeys(spec for path in paths for spec in path.recipes) if spec not in known]
    if given is None and not named and any(_all_recipes(path) for path in paths):
        return None
    return [*(("none",) if given is None else given), *named]


def _with_specs(gate: Gate, own: Mapping[str, Recipe]) -> Gate:
    steps = read_path(gate.figure).steps
    try:
        named = [
            Pick(_spec(step.text, own), quoted=True)
            if before == "recipes" and isinstance(step, Pick) and not step.several
            else step
            for before, step in zip((None, *steps), steps, strict=False)
        ]
    except UsageError as error:
        raise UsageError(f"{gate.origin}: {error}") from error
    return replace(gate, figure=join(named))


def _spec(text: str, own: Mapping[str, Recipe]) -> str:
    return parse(text, own).spec


def _all_recipes(path: Path) -> bool:
    pairs = zip(path.steps, path.steps[1:], strict=False)
    return any(name == "recipes" and isinstance(pick, Pick) and pick.several for name, pick in pairs)
