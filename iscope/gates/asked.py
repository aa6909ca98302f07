"""What gates ask of the pass over a dump: recipes to replay, keys to break down by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from iscope.errors import UsageError
from iscope.gates.figures import canonical
from iscope.gates.model import Gate
from iscope.gates.path import Path, Pick, read_path
from iscope.recipes.grammar import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iscope.recipes.model import Recipe


def breakdowns_of(gates: Sequence[Gate]) -> list[str]:
    """Return the keys of the breakdowns that gates look into, in their order."""
    keys = (read_path(gate.figure).breakdown for gate in gates if gate.figure)
    return list(dict.fromkeys(key for key in keys if key is not None))


def recipes_of(
    gates: Sequence[Gate], given: Sequence[Any] | None, own: Mapping[str, Recipe] | None = None
) -> list[Any] | None:
    """Return the recipes to replay: those given, then those that gates name and that are not among them.

    Without any given it is ``none`` and those that gates name; the default list, as None, where gates look at every
    recipe and name none.

    Raises:
        UsageError: when a gate names a recipe that there is not.
    """
    known = {canonical(one) for one in given or () if isinstance(one, str)}
    named: list[Any] = []
    for gate in gates:
        for text in read_path(gate.figure).recipes if gate.figure else ():
            spec = _spec(text, own, gate)
            if spec not in known:
                known.add(spec)
                named.append(text)
    every = any(_all_recipes(read_path(gate.figure)) for gate in gates if gate.figure)
    if given is None and every and not named:
        return None
    return [*(("none",) if given is None else given), *named]


def _spec(text: str, own: Mapping[str, Recipe] | None, gate: Gate) -> str:
    try:
        return parse(text, own).spec
    except UsageError as error:
        raise UsageError(f"{gate.origin}: {error}") from error


def _all_recipes(path: Path) -> bool:
    pairs = zip(path.steps, path.steps[1:], strict=False)
    return any(name == "recipes" and isinstance(pick, Pick) and pick.several for name, pick in pairs)
