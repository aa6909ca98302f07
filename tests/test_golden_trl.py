"""TRL's corrections against what TRL 1.16.0's own code gave."""

from __future__ import annotations

import json
import math

import pytest
import torch

from iscope.recipes.grammar import parse
from iscope.replay.correction import correct
from iscope.replay.usable import usable
from iscope.replay.view import token_view
from tests.golden_cases import cases, golden_batch, relative_error, report_of

VARIANTS = ("", "_nan", "_extreme")


def recipe_of(spec: dict) -> str:
    bounds = {"clip_min": spec["min"], "clip_max": spec["max"]}
    text = ",".join(f"{name}={'none' if value is None else repr(value)}" for name, value in bounds.items())
    return f"trl/{spec['mode']}:{text}"


@pytest.mark.parametrize("variant", VARIANTS)
def test_sampling_metrics(golden, variant):
    corrections = cases(golden, f"trl{variant}", "correction")
    assert len(corrections) >= 20
    report = report_of(golden_batch(golden, variant), [recipe_of(case["spec"]) for case in corrections])
    for case, recipe in zip(corrections, report.recipes, strict=True):
        logged = json.loads(case["metrics"])
        assert set(logged) == set(recipe.framework)
        for name, value in logged.items():
            found = recipe.framework[name]
            if math.isinf(value):
                assert found.value is None
                assert found.log10 > 300
            else:
                assert found.value == pytest.approx(value, rel=1e-12), (recipe.spec, name)


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights(golden, variant):
    batch = golden_batch(golden, variant)
    scored = usable(batch).scored
    everything = token_view(batch, batch.loss_mask, "trl")
    inside = scored[batch.loss_mask]
    lengths = (batch.offsets[1:] - batch.offsets[:-1]).tolist()
    for case in cases(golden, f"trl{variant}", "correction"):
        correction = correct(everything, parse(recipe_of(case["spec"])))
        found = correction.applied_weight(everything)[inside]
        rows = [row if len(row) == n else row * n for row, n in zip(case["weights"], lengths, strict=True)]
        expected = torch.tensor([x for row in rows for x in row], dtype=torch.float64)[scored]
        same_infinity = torch.isinf(expected) & (expected == found)
        pairs = found[~same_infinity].tolist(), expected[~same_infinity].tolist()
        assert relative_error(*pairs) <= 1e-12, case["spec"]
