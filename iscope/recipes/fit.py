"""Setting the options behind a recipe's bounds so that they fall where they are wanted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from iscope.recipes.bounds import Band
from iscope.recipes.grammar import bind, rows_of
from iscope.recipes.lists import read_pairs, split_pair
from iscope.recipes.model import BoundRecipe, Filter, Quantity, Ref, WeightRule
from iscope.recipes.options import Value, spell
from iscope.recipes.registry import framework

_DIGITS = 3  # of a fitted bound, counted from where it stops to matter: of ratio - 1, or of the ratio when small
_SMALLEST = 1e-6  # how close a bound comes to the ratio 1


def fitted(recipe: BoundRecipe, wanted: Iterable[tuple[Band, float, float]]) -> BoundRecipe:
    """Return a recipe with the bounds of these bands moved, rounded outwards to a few digits.

    An end that the band leaves open stays so, and so does one whose option the user gave or the row fixes. Where two
    bounds share an option, it takes the value that keeps more.

    Args:
        recipe: the recipe.
        wanted: bands of it, and where their lower and upper end should be, nats.

    Raises:
        UsageError: when the recipe does not accept the bounds.
    """
    found: dict[str, Value] = {}
    for band, low, high in wanted:
        _assign(recipe, band, _ends(recipe, band, low, high), found)
    if not found:
        return recipe
    table = framework(recipe.framework)
    kept = {name: value for name, value in recipe.options.items() if name in recipe.given}
    again = bind(recipe.row, table, kept | found)
    return replace(again, named=recipe.named, like=recipe.like, given=recipe.given, fitted=tuple(found))


def _assign(recipe: BoundRecipe, band: Band, ends: Mapping[str, float], found: dict[str, Value]) -> None:
    """Set the options that put a band's ends there, or leave them where they are further out already."""
    weight, filters = rows_of(recipe)
    row = weight if band.index is None else filters[band.index]
    if row is None:
        _assign_listed(recipe, band, ends, filters, found)
        return
    for end, bound in ends.items():
        ref = _source(row, end, recipe.options)
        if ref is not None and ref.option not in recipe.given:
            value = (bound - ref.offset) / ref.scale
            value = 1 / value if ref.reciprocal else value
            grows = (end == "high") == ((ref.scale > 0) != ref.reciprocal)
            before, now = found.get(ref.option), recipe.options[ref.option]
            found[ref.option] = _combined(ref, value, before, now, grows=grows)


def _ends(recipe: BoundRecipe, band: Band, low: float, high: float) -> dict[str, float]:
    """The ends that a band has, in the space that its rule compares in."""
    rule = recipe.weight if band.index is None else recipe.filters[band.index]
    found = {"low": low} if band.low > -math.inf else {}
    found |= {"high": high} if band.high < math.inf else {}
    if isinstance(rule, Filter) and rule.quantity is Quantity.K1:
        found = {"high" if end == "low" else "low": -value for end, value in found.items()}
    plain = isinstance(rule, Filter) and rule.space == "plain"
    return {end: _outwards(value if plain else math.exp(value), end, plain=plain) for end, value in found.items()}


def _outwards(bound: float, end: str, *, plain: bool) -> float:
    still = 0.0 if plain else 1.0
    if abs(bound - still) < _SMALLEST:
        return still - _SMALLEST if end == "low" else still + _SMALLEST
    size = abs(bound) if plain else min(abs(bound - 1), bound)
    step = 10.0 ** (math.floor(math.log10(size)) - _DIGITS + 1)
    steps = math.floor(bound / step) if end == "low" else math.ceil(bound / step)
    return float(f"{steps * step:.12g}")


def _source(row: WeightRule | Filter, end: str, options: Mapping[str, Value]) -> Ref | None:
    """The reference that fills an end of a rule, of its alternatives the one in force; None where it is a constant."""
    node = getattr(row, end)
    while isinstance(node, Ref) and options[node.option] is None and node.otherwise is not None:
        other = node.otherwise
        node = replace(node, option=other, otherwise=None) if isinstance(other, str) else other
    return node if isinstance(node, Ref) and options[node.option] is not None else None


def _combined(ref: Ref, value: float, before: Value, now: Value, *, grows: bool) -> Value:
    """The option's new value: a number, or a pair with one of its bounds replaced; the looser of two."""
    loosest = max if grows else min
    if ref.part in ("low", "high"):
        assert isinstance(now, str)
        pair = dict(zip(("low", "high"), split_pair(before if isinstance(before, str) else now), strict=True))
        pair[ref.part] = value
        return f"{spell(pair['low'])}_{spell(pair['high'])}"
    return loosest(value, before) if isinstance(before, float) else value


def _assign_listed(
    recipe: BoundRecipe,
    band: Band,
    ends: Mapping[str, float],
    filters: tuple[Filter | None, ...],
    found: dict[str, Value],
) -> None:
    """The same for a filter that an option lists, whose bounds stand in a list of their own."""
    listing = recipe.row.filter_list
    assert listing is not None
    assert band.index is not None
    name = listing.bounds.option
    if name in recipe.given:
        return
    count, first = sum(row is None for row in filters), next(i for i, row in enumerate(filters) if row is None)
    texts = str(found.get(name, recipe.options[name])).split(",")
    texts *= count // len(texts)
    texts[band.index - first] = "_".join(spell(ends[end]) for end in ("low", "high") if end in ends)
    found[name] = read_pairs(",".join(texts))
