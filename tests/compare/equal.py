"""Hold the settings of a sweep against ``analyze`` at the same settings."""

from __future__ import annotations

import math

import iscope
from iscope.comparison import compare
from iscope.model import Figure

TOLERANCE = 1e-12
# Of figures that come out as nothing but rounding: a share of a total of 1, a k3 of a dump whose tokens all but agree.
FLOOR = 1e-15


def leaves(node, path=""):
    """Numbers, counts and absent figures of a tree, by path; intervals are left out."""
    if isinstance(node, Figure):
        yield path, node.value, node.log10, node.why
    elif isinstance(node, dict):
        if "value" in node:
            yield path, node["value"], None, node.get("why")
        for name, child in node.items():
            if name not in ("value", "low", "high", "why") or isinstance(child, dict | int):
                yield from leaves(child, f"{path}.{name}")
    elif isinstance(node, list):
        for place, child in enumerate(node):
            yield from leaves(child, f"{path}[{place}]")
    elif isinstance(node, int | float):
        yield path, node, None, None


def differences(swept, alone):
    """What a swept entry says otherwise than that of ``analyze``; figures that a sweep does not keep are skipped."""
    there = {path: rest for path, *rest in leaves(alone.figures)}
    found = []
    for path, value, log10, why in leaves(swept.figures):
        if why is not None and "sweep" in why:
            continue
        expected = there.get(path)
        if expected is None:
            found.append((path, "missing", value))
        elif not same(value, expected[0]) or not same(log10, expected[1]):
            found.append((path, value, expected))
        elif value is None and why != expected[2]:
            found.append((path, why, expected))
    return found


def same(one, other):
    if one is None or other is None:
        return one is other
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=FLOOR)


def hold(source, recipes, sweep, dump=None, **options):
    """Compare a sweep with ``analyze`` at every setting; return the comparison."""
    files = [] if dump is None else [dump]
    report = compare(*files, **source, recipes=recipes, sweep=sweep, **options)
    specs = [entry.spec for entry in report.recipes]
    batch = {name: value for name, value in options.items() if name in ("batch", "precision", "unscored")}
    alone = iscope.analyze(*files, **source, recipes=specs, **batch)
    wrong = {}
    for swept, own in zip(report.recipes, alone.recipes, strict=True):
        assert (swept.spec, swept.unit, swept.level, swept.why) == (own.spec, own.unit, own.level, own.why)
        found = differences(swept, own)
        if found:
            wrong[swept.spec] = found[:6]
    assert not wrong, wrong
    return report
