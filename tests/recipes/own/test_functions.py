"""Functions of the view as recipes: their options, what they return, and one sentence for what they must not."""

from __future__ import annotations

import re
from typing import Literal

import pytest
import torch

import iscope
from iscope.errors import UsageError
from iscope.recipes import bind, framework, parse
from iscope.recipes.model import BoundRecipe, Filter, Function, Level, Loss, Pair, Recipe, Reduction, WeightRule
from iscope.recipes.own import registered
from iscope.recipes.own.function import recipe_of
from iscope.replay.correction import correct
from iscope.replay.losses import loss_terms
from iscope.replay.own import identity, resolve
from iscope.replay.usable import usable
from iscope.replay.view import TokenView, scored_view
from tests.contract_cases import batch_of, ragged
from tests.own_cases import DATA_ROW, FILE, mask

BATCH = batch_of(ragged())


@pytest.fixture(autouse=True)
def _forget():
    before = dict(registered.recipes), dict(registered.frameworks)
    yield
    for held, kept in zip((registered.recipes, registered.frameworks), before, strict=True):
        held.clear()
        held.update(kept)


def view_of(batch=BATCH) -> TokenView:
    return scored_view(batch, usable(batch), "exclude")[0]


def bound(row: Recipe, **options) -> BoundRecipe:
    return bind(row, framework(row.framework or ""), options)


def of(function, **fields) -> BoundRecipe:
    """A recipe whose weight a function gives, without a filter."""
    rule = WeightRule(Level.TOKEN, function=Function(function), **fields)
    return bound(Recipe("m/f", "", "", "", weight=rule, framework=""))


def test_the_options_are_the_arguments() -> None:
    @iscope.recipe("m/options")
    def function(
        view,
        reach: float = 2,
        count: int = 3,
        hard: bool = True,
        how: Literal["a", "b"] = "b",
        top: float | None = None,
    ):
        """What it does.

        And more.
        """
        return view.weight(Pair.TRAINER_INFERENCE)

    row = recipe_of(function)
    assert [(o.short, o.kind, o.default, o.choices, o.nullable) for o in row.options] == [
        ("reach", "float", 2.0, (), False),
        ("count", "int", 3, (), False),
        ("hard", "bool", True, (), False),
        ("how", "choice", "b", ("a", "b"), False),
        ("top", "float", None, (), True),
    ]
    assert row.summary == "What it does."
    arguments = bound(row, how="a", top=1.5).weight.function.arguments
    assert arguments == (("reach", 2.0), ("count", 3), ("hard", True), ("how", "a"), ("top", 1.5))


def test_weight_and_keep_are_what_the_function_returns() -> None:
    view = view_of()
    correction = correct(view, bound(recipe_of(mask), clip_max=1.1))
    ratio = (view.trainer - view.inference).exp()
    assert torch.equal(correction.keep(view), ratio <= 1.1)
    expected = torch.where(ratio <= 1.1, (view.trainer - view.inference).double().exp(), 0.0)
    assert torch.allclose(correction.applied_weight(view), expected, rtol=1e-15)
    assert not correction.keep(view).all()


def test_a_function_is_called_once_for_a_view() -> None:
    calls = []

    @iscope.recipe("m/counted")
    def function(view):
        calls.append(view.segments.tokens)
        ones = torch.ones(view.segments.tokens)
        return ones, ones > 0

    correct(view_of(), bound(recipe_of(function)))
    assert len(calls) == 1


def test_a_weight_alone_keeps_everything() -> None:
    view = view_of()
    correction = correct(view, bound(recipe_of(lambda view: 2 * view.weight(Pair.TRAINER_INFERENCE))))
    assert correction.keep(view).all()
    assert torch.allclose(correction.applied_weight(view), 2 * view.weight(Pair.TRAINER_INFERENCE))


def test_bounds_truncate_what_a_function_gives() -> None:
    view = view_of()
    correction = correct(view, of(lambda view: 10 * view.weight(Pair.TRAINER_INFERENCE), high=8.0))
    weight = 10 * view.weight(Pair.TRAINER_INFERENCE)
    assert torch.equal(correction.weight.high, weight > 8)
    assert torch.allclose(correction.applied_weight(view), weight.clamp(max=8.0))
    assert correction.weight.high.any()
    assert not correction.weight.high.all()


def test_a_weight_of_the_rollout_and_a_statistic_of_the_rollout() -> None:
    def spread(view):
        return view.segments.max(view.exact(Pair.TRAINER_INFERENCE), empty=0.0)

    rule = WeightRule(Level.SEQUENCE, function=Function(lambda view: spread(view).exp()))
    band = Filter("spread", reduction=Reduction.MAX, high=0.2, function=Function(spread))
    view = view_of()
    correction = correct(view, bound(Recipe("m/f", "", "", "", weight=rule, filters=(band,), framework="")))
    largest = torch.tensor([d.max() if len(d) else 0.0 for d in _by_rollout(view)], dtype=torch.float64)
    assert torch.allclose(correction.weight.log, largest)
    assert torch.equal(correction.keep_rollout, largest <= 0.2)
    assert 0 < int(correction.keep_rollout.sum()) < len(largest)


def _by_rollout(view: TokenView) -> tuple[torch.Tensor, ...]:
    return (view.trainer - view.inference).double().split(view.segments.lengths.tolist())


def test_a_loss_of_a_function() -> None:
    def linear(view, signal, weight, scale):
        return -scale * signal * weight, -scale * signal * weight

    loss = Loss("function", function=Function(linear, (("scale", 3.0),)))
    recipe = bound(Recipe("m/f", "", "", "", weight=WeightRule(Level.TOKEN), loss=loss, framework=""))
    view = view_of()
    terms = loss_terms(view, recipe, correct(view, recipe))
    expected = -3 * view.token_advantage * view.weight(Pair.TRAINER_INFERENCE)
    assert torch.allclose(terms.coefficient, expected)
    report = iscope.analyze(BATCH, recipes=[recipe])
    assert report.recipes[0].figures["gradient_left"]["all"].value is not None


def test_what_overflows_is_held_within_figures() -> None:
    report = iscope.analyze(BATCH, recipes=[lambda view: torch.full((view.segments.tokens,), float("inf"))])
    assert report.recipes[0].figures["applied"]["max"].value == pytest.approx(2.718281828459045**350)


BAD = [
    (lambda view: -view.weight(Pair.TRAINER_INFERENCE), "returned a weight of -"),
    (lambda view: view.trainer * float("nan"), "returned a weight of nan; weights are numbers from 0."),
    (lambda view: view.trainer[1:], "returned a tensor of 14, not one value for each of 15 tokens."),
    (lambda view: view.segments.offsets.double(), "returned a tensor of 9, not one value for each of 15 tokens."),
    (lambda view: torch.tensor(1.0), "returned a tensor of one number, not one value for each of 15 tokens."),
    (lambda view: None, "returned nothing, not a tensor of 15 tokens."),
    (lambda view: 1.0, "returned what is of type float, not a tensor of 15 tokens."),
    (
        lambda view: (view.trainer, view.trainer, view.trainer),
        "returned 3 things, not a weight, or a weight and a keep.",
    ),
    (lambda view: 1 / 0, "failed: ZeroDivisionError: division by zero."),
]


@pytest.mark.parametrize(("function", "message"), BAD, ids=range(len(BAD)))
def test_what_a_function_must_not_return_is_one_sentence(function, message) -> None:
    assert view_of().segments.tokens == 15
    for run in (lambda: iscope.analyze(BATCH, recipes=[function]), lambda: iscope.replay(BATCH, recipe=function)):
        with pytest.raises(UsageError, match=re.escape(message)) as error:
            run()
        assert str(error.value).startswith("tests.recipes.own.test_functions:<lambda> ")


def test_a_loss_that_returns_one_thing_or_what_is_not_finite() -> None:
    view = view_of()
    for call, message in (
        (lambda view, signal, weight: signal, "not each token's loss and its derivative"),
        (lambda view, signal, weight: (signal, signal / 0), "a loss or derivative that is not finite"),
    ):
        recipe = bound(Recipe("m/f", "", "", "", loss=Loss("function", function=Function(call)), framework=""))
        with pytest.raises(UsageError, match=message):
            loss_terms(view, recipe, correct(view, recipe))


def test_what_a_function_needs_and_the_dump_lacks_is_said() -> None:
    @iscope.recipe("m/needs", needs=["advantage"])
    def function(view):
        return view.weight(Pair.TRAINER_INFERENCE), view.token_advantage > 0

    lists = ragged()
    del lists["advantage"]
    sides = [lists.pop(name) for name in ("trainer_logprobs", "inference_logprobs", "loss_mask")]
    batch = iscope.RolloutBatch.from_lists(*sides)
    report = iscope.analyze(batch, recipes=[function])
    assert report.recipes[0].why == "it needs advantage, which the dump does not have"
    with pytest.raises(iscope.DataError, match="there is no column 'advantage', which m/needs needs"):
        iscope.replay(batch, recipe=function)


def test_functions_that_cannot_be_recipes() -> None:
    def without_default(view, reach):
        return reach

    def starred(*views):
        return views

    def of_text(view, how: str = "a"):
        return how

    for function, message in (
        (without_default, "its argument reach has no default."),
        (starred, "it must take the view and its options by name, without * or **."),
        (of_text, "its argument how must be a number, true or false, or one of some words"),
        (3, "A recipe is text, a Recipe, a BoundRecipe or a function, not of type int."),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            iscope.analyze(BATCH, recipes=[function])


def test_registered_recipes_are_known_by_name() -> None:
    iscope.register(mask)
    iscope.register(DATA_ROW)
    assert parse("python/mask:clip_max=2").options["clip_max"] == 2.0
    assert parse("python/token_mask").framework == "trl"
    with pytest.raises(UsageError, match=r"There is no recipe 'python/mas'\. Did you mean 'python/mask'\?"):
        parse("python/mas")
    registered.forget("python/mask")
    with pytest.raises(UsageError, match="There is no recipe 'python/mask'"):
        parse("python/mask")


def test_what_is_registered_again_replaces_what_was() -> None:
    for cap in (2.0, 3.0):
        iscope.register(Recipe("m/again", "", "", "", weight=WeightRule(Level.TOKEN, high=cap)))
    assert parse("m/again").weight.high == 3.0


@pytest.mark.parametrize("name", ["trl/mine", "icepop", "trl", "geo_mask", "a b", "", 3])
def test_names_that_are_taken_or_none(name) -> None:
    with pytest.raises(UsageError):
        iscope.register(Recipe(name, "", "", ""))


def test_parts_of_the_wrong_type_are_refused() -> None:
    for row, message in (
        (
            Recipe("m/a", "", "", "", weight=WeightRule("tokne")),
            "recipe 'm/a' weight.level: it must be one of 'none', ",
        ),
        (Recipe("m/a", "", "", "", weight=3), "recipe 'm/a' weight: it must be a table, not 3."),
        (Recipe("m/a", "", "", "", filters=("x",)), "recipe 'm/a' filters[0]: it must be a table, not 'x'."),
        (
            Recipe("m/a", "", "", "", framework="trll"),
            "framework: it must be a framework, not 'trll'. Did you mean 'trl'?",
        ),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            iscope.analyze(BATCH, recipes=[row])


def test_a_function_by_its_name() -> None:
    assert resolve("tests.own_cases:mask") is mask
    assert resolve(f"{FILE.parent}/functions.py:root") is resolve(f"{FILE.parent}/functions.py:root")
    for name, message in (
        ("no_such_module_here:f", "no_such_module_here:f cannot be imported: ModuleNotFoundError: "),
        ("tests.own_cases:nothing", "tests.own_cases:nothing cannot be imported: AttributeError: "),
        ("tests.own_cases:FILE", "tests.own_cases:FILE is no function but what is of type PosixPath."),
        ("/nowhere/f.py:f", "/nowhere/f.py:f cannot be imported: FileNotFoundError: there is no file /nowhere/f.py."),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            resolve(name)


def _capped(cap):
    def capped(view):
        return view.weight(Pair.TRAINER_INFERENCE).clamp(max=cap)

    return capped


def test_the_identity_of_a_function_is_its_source() -> None:
    assert identity(Function(mask)) == identity(Function("tests.own_cases:mask"))
    assert identity(Function(lambda view: 1)) != identity(Function(lambda view: 2))
    assert identity(Function(_capped(1))) == identity(Function(_capped(1)))
    assert identity(Function(_capped(1))) != identity(Function(_capped(2)))
    assert identity(Function("no_such_module_here:f")) == "no_such_module_here:f"
    compiled: dict = {}
    for number in (1, 2):
        exec(f"def f(view): return {number}", compiled)
        compiled[number] = compiled.pop("f")
    assert identity(Function(compiled[1])) != identity(Function(compiled[2]))
