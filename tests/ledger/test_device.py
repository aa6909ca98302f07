"""A batch on a device gives what it gives on the CPU, and touches nothing of the CPU on the way."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from iscope.api import make_plan
from iscope.ledger.measure import Measured, measure
from iscope.ledger.plan import Plan
from iscope.ledger.sweep.levels import QUANTITIES
from iscope.ledger.sweep.scheme import scheme_of
from iscope.recipes import bind, frameworks
from iscope.recipes.sweep import expand
from iscope.replay.dump_cuts import cuts_on, own_cuts
from iscope.replay.segments import Segments
from iscope.replay.to_device import to_device
from iscope.replay.usable import usable
from iscope.replay.view import scored_view
from iscope.rollouts import LOGPROBS, RolloutBatch
from tests.contract_cases import TABLES, batch_of, bound, default_of, exact, ragged
from tests.extreme_batches import batches
from tests.measured import assert_close, values_of
from tests.pretend_device import pretend_device

UNUSABLE = (math.nan, math.inf, -math.inf, -9999.0, 0.7)


def _everything() -> RolloutBatch:
    """Ordinary rollouts, far ones, masked, empty and unusable ones."""
    parts = [ragged(), ragged(seed=1, spread=12.0), ragged(seed=2, lengths=(3, 2), masked=1.1)]
    for seed, side in enumerate(LOGPROBS):
        spoilt = ragged(seed=3 + seed, lengths=(6, 5, 9, 1, 0), masked=0.1)
        for row, value in zip(spoilt[side], UNUSABLE, strict=True):
            row[: len(row) // 2 + 1] = [value] * len(row[: len(row) // 2 + 1])
        parts.append(spoilt)
    return batch_of({name: [row for lists in parts for row in lists[name]] for name in parts[0]})


EVERYTHING = _everything()


def there(batch: RolloutBatch, plan: Plan, **options) -> Measured:
    with pretend_device() as device:
        return measure(to_device(batch, device), plan, **options)


every_framework = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name or "generic")


@every_framework
def test_every_recipe(table):
    plan = Plan(tuple(default_of(table, row) for row in table.recipes))
    assert_close(there(EVERYTHING, plan), measure(EVERYTHING, plan))


@pytest.mark.parametrize("table", frameworks(), ids=lambda table: table.name or "generic")
def test_every_loss_type(table):
    row = next(row for row in table.recipes if row.name.endswith("none"))
    recipes = [default_of(table, row)]
    for name, _ in table.losses if len(table.losses) > 1 else ():
        needed = [c.options[0] for c in table.constraints if c.when == ("loss_type", name) and c.kind == "any"]
        recipes.append(bind(row, table, {"loss_type": name} | dict.fromkeys(needed, 1.3)))
    plan = Plan(tuple(recipes))
    assert_close(there(EVERYTHING, plan), measure(EVERYTHING, plan))


@every_framework
@settings(max_examples=2, derandomize=True, database=None, phases=[Phase.generate])  # shrinking takes minutes
@given(data=st.data())
def test_drawn_options(table, data):
    plan = Plan(tuple(data.draw(bound(table, row)) for row in table.recipes))
    assert_close(there(EVERYTHING, plan), measure(EVERYTHING, plan))


@settings(max_examples=15)
@given(batch=batches(), unscored=st.sampled_from(["exclude", "neutral"]))
def test_extreme_batches(batch, unscored):
    plan = make_plan(unscored=unscored)
    assert_close(there(batch, plan), measure(batch, plan))


def _per_token(batch: RolloutBatch) -> RolloutBatch:
    advantage = torch.linspace(-2, 1.5, batch.tokens, dtype=torch.float64)
    return replace(batch, advantage=advantage, advantage_per_token=True)


def _with_nulls(batch: RolloutBatch) -> RolloutBatch:
    return replace(batch, nulls={"trainer_logprobs": batch.trainer_logprobs.isnan()})


VARIANTS = {
    "on-policy": replace(EVERYTHING, current_logprobs=None, ref_logprobs=None),
    "no mask": replace(EVERYTHING, loss_mask=None),
    "no advantage": replace(EVERYTHING, advantage=None),
    "advantage per token": _per_token(EVERYTHING),
    "float64": exact(EVERYTHING),
    "nulls": _with_nulls(EVERYTHING),
    "empty": batch_of(ragged(lengths=(0, 0, 0))),
    "no rollouts": batch_of(ragged(), []),
    "masked": batch_of(ragged(masked=1.1)),
    "nothing usable": replace(EVERYTHING, inference_logprobs=torch.full_like(EVERYTHING.inference_logprobs, math.nan)),
}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("unscored", ["exclude", "neutral"])
def test_default_recipes(name, unscored):
    plan, batch = make_plan(unscored=unscored), VARIANTS[name]
    expected, found = measure(batch, plan), there(batch, plan)
    assert_close(found, expected)
    assert found.unscored == expected.unscored
    assert found.rounded_positive == expected.rounded_positive
    assert found.trained_rows.tolist() == expected.trained_rows.tolist()
    assert {pair: sorted(values) for pair, values in found.tails.items()} == {
        pair: sorted(values) for pair, values in expected.tails.items()
    }


def test_the_tail_above_a_floor():
    floors = {"trainer/inference": 0.25}
    found, expected = there(EVERYTHING, Plan(()), floors=floors), measure(EVERYTHING, Plan(()), floors=floors)
    for pair, values in expected.tails.items():
        assert sorted(found.tails[pair]) == sorted(values)
        assert found.tails[pair].dtype == values.dtype
    assert expected.tails["trainer/inference"].min() > 0.25


@pytest.mark.parametrize("spec", ["areal/m2po", "ms-swift/none:loss_type=real"])
def test_cuts_that_were_found_on_the_cpu(spec):
    plan = make_plan([spec])
    view, _ = scored_view(EVERYTHING, usable(EVERYTHING), "exclude")
    cuts = own_cuts(view, plan.recipes, EVERYTHING.columns)
    assert cuts
    expected = measure(EVERYTHING, plan, cuts)
    with pretend_device() as device:
        found = measure(to_device(EVERYTHING, device), plan, cuts_on(cuts, device))
    assert_close(found, expected)


def test_families_of_a_sweep():
    plan = make_plan(["trl/token_mask", "trl/token_truncate"])
    settings = expand(plan.recipes, ("clip_max=1.5,2,3,5",))
    scheme = scheme_of(settings.recipes, settings.swept)
    plan = replace(plan, recipes=scheme.recipes, families=scheme.families)
    found, expected = there(EVERYTHING, plan).sweeps, measure(EVERYTHING, plan).sweeps
    assert len(expected) == 2
    for one, other in zip(found, expected, strict=True):
        for name in ("counts", "highest", "uncut", "cut", "lowest"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        # At weight 1 only tokens that a bound rejects are asked for; of those within all the CPU sums some.
        within = [name.endswith("_at_1") for name in QUANTITIES]
        for sums in (one.sums, other.sums):
            sums[within, 0] = 0.0
        for name in ("sums", "settings"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-12)
        assert one.groups.sort("group").equals(other.groups.sort("group"))


def test_reductions():
    offsets = torch.tensor([0, 0, 3, 3, 4, 4])
    values = torch.tensor([1.0, -2.5, 4.0, math.nan], dtype=torch.float64)
    here = Segments(offsets)
    with pretend_device() as device:
        away = Segments(offsets.to(device))
        for name in ("sum", "max", "min", "mean"):
            expected, found = getattr(here, name)(values), getattr(away, name)(values.to(device)).cpu()
            torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
            empty = getattr(Segments(offsets * 0), name)(values[:0])
            assert getattr(Segments(offsets.to(device) * 0), name)(values[:0].to(device)).tolist() == empty.tolist()
        assert away.count(values.to(device) > 0).tolist() == here.count(values > 0).tolist() == [0, 2, 0, 0, 0]
        places = torch.tensor([1, 3])
        assert away.select(places.to(device)).offsets.tolist() == here.select(places).offsets.tolist()
        assert away.row_of(places.to(device)).tolist() == here.row_of(places).tolist() == [1, 3]


def test_rollouts_of_a_device_come_home_whole():
    """What a batch gives lies in the CPU's memory, each column in its own."""
    found = there(EVERYTHING, make_plan())
    assert {values.device.type for values in (*found.columns.values(), *found.trained.values())} == {"cpu"}
    assert all(type(values) is torch.Tensor and values.is_contiguous() for values in found.columns.values())
    assert all(isinstance(values, np.ndarray) for values in values_of(found).values())
