"""What holds for every recipe of the registry, whatever its framework: finite figures, invariances, derivatives."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import iscope
from iscope.analysis.report import build_report
from iscope.ledger.ledger import Ledger, LedgerBuilder
from iscope.ledger.measure import measure
from iscope.ledger.plan import Plan
from iscope.recipes import bind, frameworks
from iscope.recipes.model import BoundRecipe, Filter, Framework, Level, Pair, Quantity, Reduction, Signs, bound_value
from iscope.replay.correction import correct
from iscope.replay.dump_cuts import own_cuts
from iscope.replay.gathered import Gathered
from iscope.replay.losses import terms_left
from iscope.replay.outcome import replay_batch
from iscope.replay.usable import usable
from iscope.replay.view import TokenView, scored_view
from iscope.rollouts import LOGPROBS, RolloutBatch
from tests.contract_cases import IDS, ROWS, TABLES, batch_of, bound, default_of, exact, ragged

TABLE_IDS = [table.name or "generic" for table in frameworks()]
TABLE_IDS += [f"own-{table.name or 'generic'}" for table in TABLES[len(TABLE_IDS) :]]
every_framework = pytest.mark.parametrize("table", TABLES, ids=TABLE_IDS)
every_whole_framework = pytest.mark.parametrize("table", frameworks(), ids=TABLE_IDS[: len(frameworks())])
every_recipe = pytest.mark.parametrize(("table", "row"), ROWS, ids=IDS)
few = settings(max_examples=1, derandomize=True, database=None, suppress_health_check=[HealthCheck.differing_executors])

STEP, TOLERANCE = 1e-6, 1e-5
# Log-ratios at which no limit on exponents is near, and ones that pass all of them.
ORDINARY, WILD = ragged(), ragged(seed=1, spread=12.0)
BATCH = exact(batch_of(ORDINARY))
UNUSABLE = (float("nan"), float("inf"), float("-inf"), -9999.0, 0.7)


def _degenerate() -> dict[str, RolloutBatch]:
    masked = ragged(masked=1.1)
    return {
        "empty rollouts": batch_of(ragged(lengths=(0, 0, 0))),
        "all tokens masked": batch_of(masked),
        "one token": batch_of(ragged(lengths=(1,), masked=0.0)),
        "ordinary": batch_of(ORDINARY),
    }


def _spoilt() -> dict[str, RolloutBatch]:
    found = {"far apart": batch_of(WILD)}
    sides = []
    for seed, side in enumerate(LOGPROBS):
        lists = ragged(seed=2 + seed, lengths=(6, 5, 9, 1, 0), masked=0.0)
        for row, value in zip(lists[side], UNUSABLE, strict=True):
            row[: len(row) // 2 + 1] = [value] * len(row[: len(row) // 2 + 1])
        sides.append(lists)
    found["unusable"] = batch_of({name: [row for lists in sides for row in lists[name]] for name in sides[0]})
    everything = ragged(seed=9, lengths=(4, 3), masked=0.0)
    found["nothing usable"] = batch_of(everything | {"inference_logprobs": [[math.nan] * 4, [-math.inf] * 3]})
    return found


DEGENERATE, SPOILT = _degenerate(), _spoilt()


def _assert_finite(batch: RolloutBatch, recipes: list[BoundRecipe], unscored: str = "exclude") -> None:
    """The report is JSON, where a figure is finite or says why it is absent; so is what a replay makes of a token."""
    report = iscope.analyze(batch, recipes=recipes, unscored=unscored)
    text = json.dumps(report.to_dict(), allow_nan=False)
    assert [entry["spec"] for entry in json.loads(text)["recipes"]] == [recipe.spec for recipe in recipes]
    for recipe in recipes:
        outcome = replay_batch(batch, recipe, unscored)
        for values in (outcome.weight, outcome.loss, outcome.score):
            assert values.isfinite().all(), recipe.spec


def _defaults(table: Framework) -> list[BoundRecipe]:
    return [default_of(table, row) for row in table.recipes]


@every_framework
def test_a_ledger_without_rollouts(table):
    report = build_report(_ledger(_defaults(table), batch_of(ORDINARY, [])))
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["coverage"]["rollouts"]["read"] == 0


@every_framework
def test_degenerate_batches(table):
    for batch in DEGENERATE.values():
        _assert_finite(batch, _defaults(table))


@every_framework
def test_unusable_values(table):
    for batch in SPOILT.values():
        for unscored in ("exclude", "neutral"):
            _assert_finite(batch, _defaults(table), unscored)


@every_framework
@few
@given(data=st.data())
def test_drawn_options_stay_finite(table, data):
    _assert_finite(SPOILT["far apart"], [data.draw(bound(table, row)) for row in table.recipes])


def _ledger(recipes: list[BoundRecipe], *batches: RolloutBatch) -> Ledger:
    plan = Plan(tuple(recipes))
    builder = LedgerBuilder(plan)
    for batch in batches:
        builder.add([batch], measure(batch, plan))
    return builder.finish()


def _same(one: Ledger, other: Ledger) -> None:
    assert one.rows.equals(other.rows)
    assert one.trained.equals(other.trained)
    assert {k: v.tolist() for k, v in one.histograms.items()} == {k: v.tolist() for k, v in other.histograms.items()}
    assert one.unscored == other.unscored


@every_framework
def test_order_and_split_change_no_bit(table):
    # A filter over the whole batch, or a loss over its groups, sees another batch when it is split.
    splittable = [
        r for r in _defaults(table) if not r.loss.couples_rollouts and all(rule.mean_high is None for rule in r.filters)
    ]
    for lists in (ORDINARY, WILD):
        rows = list(range(len(lists["advantage"])))
        shuffled = [*rows[3:], *rows[:3]][::-1]
        _same(_ledger(_defaults(table), batch_of(lists)), _ledger(_defaults(table), batch_of(lists, shuffled)))
        whole = _ledger(splittable, batch_of(lists))
        first, second = batch_of(lists, shuffled[:3]), batch_of(lists, shuffled[3:])
        _same(whole, _ledger(splittable, first, second))
        _same(whole, _ledger(splittable, second).merge(_ledger(splittable, first)))


def _padded(lists: dict) -> RolloutBatch:
    width = max(len(row) for row in lists["loss_mask"]) + 2

    def pad(name: str, fill: float, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor([row + [fill] * (width - len(row)) for row in lists[name]], dtype=dtype)

    sides = {name: pad(name, math.nan, torch.float32) for name in LOGPROBS}
    batch = RolloutBatch.from_padded(
        sides["trainer_logprobs"],
        sides["inference_logprobs"],
        pad("loss_mask", 0, torch.int64),
        current_logprobs=sides["current_logprobs"],
        ref_logprobs=sides["ref_logprobs"],
        advantage=torch.tensor(lists["advantage"], dtype=torch.float64),
    )
    return replace(batch, columns=batch_of(lists).columns)


@every_framework
def test_padding_changes_nothing(table):
    recipes, batch, padded = _defaults(table), batch_of(ORDINARY), _padded(ORDINARY)
    plain, wide = _ledger(recipes, batch), _ledger(recipes, padded)
    unpadded = [ledger.rows.to_frame().drop("tokens").sort("rollout_id") for ledger in (plain, wide)]
    assert unpadded[0].equals(unpadded[1])
    for recipe in recipes:
        one, other = (replay_batch(each, recipe, "exclude") for each in (batch, padded))
        for name in ("weight", "keep", "score", "loss", "loss_tokens"):
            assert getattr(one, name).equal(getattr(other, name)), (recipe.spec, name)


def _view(batch: RolloutBatch, recipe: BoundRecipe) -> TokenView:
    view = scored_view(batch, usable(batch), "exclude")[0]
    view.cuts = own_cuts(view, (recipe,), batch.columns)
    return view


def _moved(view: TokenView, recipe: BoundRecipe, shift: torch.Tensor) -> TokenView:
    """The view with the current logprobs moved; a signal made of them is constant, so the reference moves along."""
    columns, places = dict(view.columns.columns), view.columns.places
    everywhere = shift if places is None else shift.new_zeros(len(columns["current"])).index_add(0, places, shift)
    for name in ("current", "ref") if recipe.loss.signal == "ref" else ("current",):
        columns[name] = columns[name] + everywhere
    moved = replace(view, columns=Gathered(columns, places), _cache={})
    if recipe.loss.couples_rollouts:
        moved.cuts = own_cuts(moved, (recipe,), BATCH.columns)
    return moved


class Frozen:
    """A recipe's loss as a function of the current logprobs alone, everything that it holds constant held.

    The keep-decisions are those of the unmoved view. So is the weight, unless the gradient runs through it; where it
    runs through log pi alone, the factor of log pi is too.
    """

    def __init__(self, view: TokenView, recipe: BoundRecipe) -> None:
        self.view, self.recipe = view, recipe
        self.correction = correct(view, recipe)
        self.terms = terms_left(view, recipe, self.correction)
        # A constant factor of the policy term that would move with the current logprobs is divided out and put back.
        self.bare = replace(recipe, loss=replace(recipe.loss, influence=None))
        plain = terms_left(view, self.bare, self.correction).policy
        self.factor = torch.where(plain == 0, 1.0, self.terms.policy / plain)

    def tokens(self, shift: torch.Tensor) -> torch.Tensor:
        """The loss of every token [P] with the current logprobs moved by ``shift`` [P], nats."""
        moved = _moved(self.view, self.recipe, shift)
        correction = self.correction
        if self.recipe.loss.gradient_through == "weight":
            correction = replace(correction, weight=correct(moved, self.recipe).weight)
        terms = terms_left(moved, self.bare, correction)
        policy = terms.policy * self.factor
        if self.recipe.loss.gradient_through == "score":
            policy = self.terms.policy / self.view.policy * moved.policy
        penalty = self.recipe.loss.penalty
        if terms.penalty is None or penalty is None:
            return policy
        return policy + terms.penalty * (shift.exp() if penalty.weight == "one" else 1.0)


def _cut(frozen: Frozen) -> torch.Tensor:
    """Tokens whose weight a bound made: there the gradient keeps the bound by convention, and has no other source."""
    weight = frozen.correction.weight
    cut = weight.low | weight.high
    through = frozen.recipe.loss.gradient_through == "weight"
    return (cut if weight.per_token else frozen.view.segments.expand(cut)) & through


def _check_derivative(recipe: BoundRecipe) -> None:
    """Central differences: one token of every rollout moves at a time, unless rollouts touch each other."""
    view = _view(BATCH, recipe)
    if recipe.loss.couples_rollouts:
        _check_every_token(recipe, view)
        return
    frozen, segments = Frozen(view, recipe), view.segments
    score, cut = frozen.terms.score(), _cut(frozen)
    here = frozen.tokens(torch.zeros_like(score))
    assert torch.allclose(here, frozen.terms.loss())
    rank = torch.arange(segments.tokens) - segments.expand(segments.offsets[:-1])
    checked = int(cut.sum())
    for place in range(int(segments.lengths.max())):
        moved = rank == place
        # The value has the whole rollout's ratio, the gradient the token's own: move the rollout, look at the token.
        own = moved if recipe.loss.straight_through else torch.ones_like(moved)
        direction = STEP * (torch.ones_like(score) if recipe.loss.straight_through else moved.double())
        after, before = frozen.tokens(direction) - here, here - frozen.tokens(-direction)
        ahead, behind = (segments.expand(segments.sum(part * own))[moved] / STEP for part in (after, before))
        smooth = ((ahead - behind).abs() <= 1e-3 * ahead.abs().clamp(min=1.0)) & ~cut[moved]
        expected = score[moved][smooth]
        assert torch.allclose(((ahead + behind) / 2)[smooth], expected, rtol=TOLERANCE, atol=TOLERANCE), recipe.spec
        checked += int(smooth.sum())
    assert checked >= 0.9 * segments.tokens, recipe.spec


def _check_every_token(recipe: BoundRecipe, view: TokenView) -> None:
    """Central differences of the loss of the whole batch by each token."""
    frozen = Frozen(view, recipe)
    for place, expected in enumerate(frozen.terms.score().tolist()):
        shift = torch.zeros(view.segments.tokens, dtype=torch.float64)
        shift[place] = STEP
        difference = float((frozen.tokens(shift) - frozen.tokens(-shift)).sum()) / (2 * STEP)
        assert math.isclose(difference, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE), recipe.spec


@every_recipe
def test_coefficient_is_the_derivative(table, row):
    _check_derivative(default_of(table, row))


@every_whole_framework
def test_coefficient_of_every_loss_type_is_the_derivative(table):
    """Without a correction, and with what the loss type itself asks for."""
    row = next(row for row in table.recipes if row.name.endswith("none"))
    for name, _ in table.losses if len(table.losses) > 1 else ():
        needed = [c.options[0] for c in table.constraints if c.when == ("loss_type", name) and c.kind == "any"]
        _check_derivative(bind(row, table, {"loss_type": name} | dict.fromkeys(needed, 1.3)))


@every_recipe
@few
@given(data=st.data())
def test_coefficient_is_the_derivative_under_drawn_options(table, row, data):
    _check_derivative(data.draw(bound(table, row)))


def _plain_ratio(view: TokenView, pair: Pair, reduction: Reduction) -> torch.Tensor:
    """Ratio of each token [P], that of its rollout where it is over a rollout."""
    numerator = view.trainer if pair is Pair.TRAINER_INFERENCE else view.policy
    d = numerator - (view.trainer if pair is Pair.CURRENT_TRAINER else view.inference)
    if reduction is Reduction.TOKEN:
        return d.exp()
    rows = [row for row in d.split(view.segments.lengths.tolist())]
    reduced = [row.sum() if reduction is Reduction.SUM else row.mean() for row in rows]
    return torch.cat([value.exp().expand(len(row)) for value, row in zip(reduced, rows, strict=True)])


def _is_band(rule: Filter) -> bool:
    """Whether the filter keeps exactly what lies within plain bounds of a ratio."""
    statistic = rule.quantity is Quantity.LOG_RATIO and rule.function is None
    plain = statistic and rule.space != "plain" and rule.mean_high is None
    signed = rule.pushed_only or {rule.low_signs, rule.high_signs} != {Signs.ANY}
    known = rule.reduction in (Reduction.TOKEN, Reduction.SUM, Reduction.MEAN) and rule.pair is not Pair.CURRENT_REF
    return plain and known and not signed and rule.sees == "original"


def _check_bounds(recipe: BoundRecipe, view: TokenView) -> None:
    correction = correct(view, recipe)
    applied, keep = correction.applied_weight(view), correction.keep(view)
    assert applied.isfinite().all()
    assert bool((applied >= 0).all())
    assert bool((applied[~keep] == 0).all())
    rule = recipe.weight
    if rule.applied and rule.level is not Level.NONE and rule.decided_by is None:
        for bound, sign in ((bound_value(rule.high), 1), (bound_value(rule.low), -1)):
            if bound is not None:
                assert bool((sign * applied[keep] <= sign * bound * (1 + sign * 1e-12)).all()), recipe.spec
    for band in filter(_is_band, recipe.filters):
        ratio = _plain_ratio(view, band.pair, band.reduction)[keep]
        low, high = bound_value(band.low), bound_value(band.high)
        assert low is None or bool((ratio >= low * (1 - 1e-9)).all()), (recipe.spec, band.name)
        assert high is None or bool((ratio <= high * (1 + 1e-9)).all()), (recipe.spec, band.name)


@every_recipe
@few
@given(data=st.data())
def test_weights_and_kept_ratios_lie_within_their_bounds(table, row, data):
    for recipe in (default_of(table, row), data.draw(bound(table, row))):
        _check_bounds(recipe, _view(BATCH, recipe))
