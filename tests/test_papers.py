"""The papers' recipes: against plain references and autograd, against frameworks' rows, and in the ledger."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

import iscope.ledger.measure
from iscope.analysis.frameworks.prime_rl import per_rollout
from iscope.analysis.recipe_rows import recipe_rows
from iscope.analysis.rows import scored_rows, trained_rows
from iscope.errors import UsageError
from iscope.ledger.measure import measure
from iscope.ledger.plan import Plan
from iscope.ledger.screen import Screen, screen_of
from iscope.recipes import framework
from iscope.recipes.grammar import parse
from iscope.recipes.model import Pair
from iscope.recipes.options import spell
from iscope.replay.correction import correct
from iscope.replay.losses import base_coefficient, loss_terms
from iscope.replay.prefix import exclusive_minimum, smallest_before
from iscope.replay.segments import Segments
from iscope.replay.view import token_view
from iscope.rollouts import RolloutBatch
from tests.golden_cases import golden_batch, ledger_of
from tests.reference import papers_losses
from tests.test_losses import assert_same, batch_of, random_rollouts, replayed

CORRECTIONS = [
    ("none", {}),
    ("tis", {"high": 1.3}),
    ("icepop", {"low": 0.7, "high": 1.4}),
    ("geometric_mask", {"low": 0.9, "high": 1.1}),
    ("mis_po", {"geo_low": 0.85, "geo_high": 1.15, "token_low": 0.7, "token_high": 1.4}),
    ("off_policy_sequence_mask", {"delta": 0.02}),
    ("kpop", {"phi": 0.01}),
    ("dppo_tv", {"delta_low": 0.02, "delta_high": 0.03, "cap": None}),
    ("dppo_tv", {"delta_low": 0.02, "delta_high": 0.03, "cap": 1.1}),
    ("dppo_kl", {"delta_low": 0.002, "delta_high": 0.003, "cap": None}),
    ("trust_region_mask", {"estimator": "k2", "delta": 0.2}),
    ("trust_region_mask", {"estimator": "k3", "delta": 0.3}),
    ("minpro", {"epsilon_low": 0.4, "epsilon_high": 0.1}),
    ("minpro", {"epsilon_low": 1.0, "epsilon_high": 4.0}),
]
LOSSES = [
    {"loss_type": "ppo", "epsilon": 0.1},
    {"loss_type": "gspo"},
    {"loss_type": "gspo", "gspo_low": 0.2, "gspo_high": 0.3},
    {"loss_type": "gmpo", "gmpo_epsilon": 0.2},
    {"loss_type": "cispo", "cispo_high": 1.2},
    {"loss_type": "sapo", "tau_pos": 2.0, "tau_neg": 0.7},
    {"loss_type": "vespo", "k_pos": 1.0, "lambda_neg": 0.5},
    {"loss_type": "dro", "dro_beta": 0.7},
]
LENGTHS, ADVANTAGES = (5, 0, 1, 9, 30, 7, 40), (1.5, -1.0, -0.7, 0.0, 2.0, -0.3, -2.0)


def drawn(seed, spread=0.3):
    """Random rollouts whose logprobs lie below 0, as logprobs do."""
    rollouts = random_rollouts(seed, LENGTHS, ADVANTAGES, spread=spread)
    return [
        {name: v if name == "advantage" else v.clamp(max=-1e-4) for name, v in rollout.items()} for rollout in rollouts
    ]


def spelled(name, options):
    text = ",".join(f"{option}={spell(value)}" for option, value in options.items())
    return f"{name}:{text}" if text else name


CASES = [(name, options | loss) for name, options in CORRECTIONS for loss in LOSSES]
SPECS = [spelled(*case) for case in CASES]
# Each correction with one loss and each loss with one correction.
LEDGER = [
    *(spelled(name, options) for name, options in CORRECTIONS),
    *(spelled("icepop", {"low": 0.7, "high": 1.4} | loss) for loss in LOSSES),
]
HISTORIC = [
    "prime-rl/kpop@2026-08:0.01",
    "prime-rl/kimi_k15@2026-08:sequence_regularizer=true",
    "prime-rl/default@2026-03:0.02,0.03",
    "prime-rl/token@2025-12:0.7,1.4,0.9,1.1,0.5,2",
    "prime-rl/token@2025-11:0.7,1.4,0.5",
    "prime-rl/grpo@2025-08:1.2",
]


@pytest.mark.parametrize(("name", "options"), CASES, ids=SPECS)
def test_loss_and_gradient(name, options):
    largest = 0.0
    for seed in range(3):
        rollouts = drawn(seed)
        leaves = [rollout | {"current": rollout["current"].clone().requires_grad_()} for rollout in rollouts]
        loss = papers_losses.batch_loss(leaves, name, **options)
        loss.backward()
        gradients = [
            torch.zeros_like(leaf["current"]) if leaf["current"].grad is None else leaf["current"].grad
            for leaf in leaves
        ]
        expected = float(loss.detach()), torch.cat(gradients)
        largest = max(largest, float(expected[1].abs().max()))
        assert_same(replayed(batch_of(rollouts), spelled(name, options)), expected)
    assert largest > 0


@pytest.mark.parametrize(("name", "options"), CORRECTIONS, ids=[spelled(*case) for case in CORRECTIONS])
def test_every_bound_fires(name, options):
    batch = batch_of([rollout for seed in range(3) for rollout in drawn(seed)])
    recipe = parse(spelled(name, options))
    correction = correct(token_view(batch, None), recipe)
    for rule, rejection in zip(recipe.filters, correction.rejections, strict=True):
        assert bool(rejection.low.any()) == (rule.low is not None)
        assert bool(rejection.high.any()) == (rule.high is not None)
        assert not rejection.out.all()


SAME = [
    ("tis:high=1.3", "trl/token_truncate:none,1.3"),
    ("icepop:0.7,1.4", "trl/token_mask:0.7,1.4"),
    ("none:loss_type=cispo,cispo_high=1.2", "trl/none:loss_type=cispo,epsilon_high=1.2"),
    ("tis:high=1.3,loss_type=cispo", "trl/token_truncate:none,1.3,loss_type=cispo,epsilon_high=5"),
    ("icepop:0.7,1.4,loss_type=vespo", "trl/token_mask:0.7,1.4,loss_type=vespo"),
    ("tis:high=1.3,loss_type=sapo", "verl/rollout_is:rollout_is=token,rollout_is_threshold=1.3,loss_mode=sapo"),
    ("none:loss_type=dro,dro_beta=0.7", "verl/none:loss_mode=dro,dro_beta=0.7"),
    ("off_policy_sequence_mask:0.02", "trl/none:off_policy_mask_threshold=0.02"),
    ("dppo_tv:0.02,0.03", "skyrl/none:loss_type=dppo,delta_low=0.02,delta_high=0.03"),
    ("dppo_kl:0.002,0.003", "skyrl/none:loss_type=dppo,dppo_type=binary_kl,delta_low=0.002,delta_high=0.003"),
    ("dppo_tv:0.02,0.03", "prime-rl/default@2026-08:0.02,0.03,kl_tau=0"),
    ("prime-rl/default@2026-03:0.02,0.02", "prime-rl/ipo@2026-08:0.02"),
    ("prime-rl/token@2025-12:0.7,1.4", "prime-rl/icepop:0.7,1.4"),
    ("none:loss_type=gspo,gspo_low=0.2,gspo_high=0.2", "trl/none:loss_type=grpo,importance_sampling_level=sequence"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_as_a_framework(one, other):
    """The coefficients before normalisation; rows of frameworks are held against their own code."""
    view = token_view(batch_of(drawn(3)), None)
    found, expected = (loss_terms(view, r, correct(view, r)).coefficient for r in map(parse, (one, other)))
    assert float(expected.abs().max()) > 0
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


def test_mis_po_is_prime_rls_where_current_is_the_trainers():
    view = token_view(batch_of(drawn(3), current=False), None)
    bounds = "0.85,1.15,0.7,1.4"
    one, other = (correct(view, parse(f"{name}:{bounds}")) for name in ("mis_po", "prime-rl/mis_po"))
    assert 0 < int(one.keep(view).sum()) < view.segments.tokens
    assert torch.equal(one.applied_weight(view), other.applied_weight(view))


def batches(golden):
    for spread in (0.003, 0.05, 0.5):
        yield batch_of(drawn(7, spread))
        yield batch_of(drawn(8, spread), current=False)
    columns = ("trainer_logprobs", "inference_logprobs", "current_logprobs", "ref_logprobs")
    yield golden_batch(golden, "", columns)
    yield golden_batch(golden, "_extreme", columns)


@pytest.mark.parametrize("spec", LEDGER + HISTORIC)
def test_the_screen_changes_no_figure(golden, monkeypatch, spec):
    plan = Plan((parse(spec),), precision="float64")
    screen = screen_of(plan)
    for batch in batches(golden):
        with_screen = measure(batch, plan)
        with monkeypatch.context() as patch:
            everything = Screen(screen.low, screen.high, frozenset({0}))
            patch.setattr(iscope.ledger.measure, "screen_of", lambda _, found=everything: found)
            dense = measure(batch, plan)
        assert set(with_screen.columns) == set(dense.columns)
        for name, values in dense.columns.items():
            found, expected = with_screen.columns[name].numpy(), values.numpy()
            if expected.dtype.kind != "f":
                np.testing.assert_array_equal(found, expected, err_msg=name)
                continue
            scale = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * scale, err_msg=name)


def test_the_screen_is_used_where_a_band_is_quiet():
    quiet = ["icepop:0.7,1.4", "mis_po", "dppo_tv", "prime-rl/token@2025-12", "prime-rl/default@2026-03"]
    dense = ["kpop", "dppo_kl", "icepop:loss_type=vespo", "tis:loss_type=gspo", "prime-rl/kpop@2026-08"]
    assert screen_of(Plan(tuple(map(parse, quiet + dense)))).dense == set(range(len(quiet), len(quiet + dense)))


@pytest.mark.parametrize("current", [True, False])
@pytest.mark.parametrize("spec", LEDGER + HISTORIC)
def test_the_ledger_has_the_gradient_of_the_loss(spec, current):
    batch, recipe = batch_of(drawn(7, 0.05), current), parse(spec)
    ledger = ledger_of(batch, [recipe])
    rows = scored_rows(ledger)
    order = torch.tensor([batch.columns["rollout_id"].to_list().index(name) for name in rows.frame["rollout_id"]])
    view, found = token_view(batch, None), recipe_rows(ledger, rows, 0)
    kept = loss_terms(view, recipe, correct(view, recipe)).coefficient
    base = base_coefficient(view, recipe.loss)
    for logs, each in ((found.log_gradient, kept), (found.log_base_gradient, base)):
        total = np.exp(np.logaddexp(logs("positive"), logs("negative")))
        expected = view.segments.sum(each.abs() * view.uncertainty)[order].numpy()
        np.testing.assert_allclose(total, expected, rtol=1e-9, atol=1e-12 * expected.max(), err_msg=spec)


@pytest.mark.parametrize("spec", LEDGER + HISTORIC)
def test_contract(spec):
    """Empty rollouts, all masked, one token; no value is left that is not finite."""
    recipe = parse(spec)
    lists = [[], [-0.5], [-0.1, -2.0]]
    batch = RolloutBatch.from_lists(lists, lists, [[], [1], [0, 0]], advantage=[1.0, -1.0, 1.0])
    view = token_view(batch, batch.loss_mask)
    correction = correct(view, recipe)
    terms = loss_terms(view, recipe, correction)
    assert terms.score().numel() == 1
    assert terms.score().isfinite().all()
    assert correction.applied_weight(view).tolist() == [1.0]
    sums = view.segments.sum(terms.loss()).tolist()
    assert (sums[0], sums[2]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kimi_k15@2026-08", {"mismatch_kl", "abs_log_ratio"}),
        ("kpop@2026-08", {"masked_mismatch_kl", "unmasked_mismatch_kl", "is_masked"}),
        ("default@2026-03", {"masked_mismatch_kl", "unmasked_mismatch_kl", "is_masked"}),
        ("token@2025-12", {"mismatch_kl"}),
        ("token@2025-11", {"mismatch_kl"}),
        ("grpo@2025-08", set()),
    ],
)
def test_prime_rls_earlier_metrics(name, expected):
    batch, recipe = batch_of(drawn(7)), parse(f"prime-rl/{name}")
    ledger = ledger_of(batch, [recipe])
    found = per_rollout(recipe_rows(ledger, trained_rows(ledger), 0))
    assert set(found) == expected
    view = token_view(batch, None)
    keep, d = correct(view, recipe).keep(view), view.current - view.inference
    names = ledger.rows["rollout_id"].to_list()
    for row, rollout in enumerate(batch.columns["rollout_id"]):
        part = slice(int(batch.offsets[row]), int(batch.offsets[row + 1]))
        for metric, values in found.items():
            assert values[names.index(rollout)] == pytest.approx(plain(metric, d[part], keep[part]), rel=1e-10)


def plain(metric, d, keep):
    """A metric of one rollout; the mean over no tokens is 0."""
    k3 = d.exp() - d - 1
    tokens = {
        "mismatch_kl": k3,
        "abs_log_ratio": d.abs(),
        "is_masked": (~keep).double(),
        "masked_mismatch_kl": k3[~keep],
        "unmasked_mismatch_kl": k3[keep],
    }[metric]
    return float(tokens.mean()) if tokens.numel() else 0.0


@pytest.mark.parametrize("loss", ["gmpo", "vespo"])
@pytest.mark.parametrize("level", ["sequence", "geometric"])
def test_a_product_of_weights_takes_no_weight_of_the_whole_rollout(loss, level):
    with pytest.raises(UsageError, match=f"with level={level} loss_type must not be {loss}"):
        parse(f"geometric_mask:level={level},loss_type={loss}")


LEFT = [
    (table, name)
    for table in map(framework, ("", "trl", "verl", "skyrl", "nemo-rl", "ms-swift", "prime-rl"))
    for name, _ in table.not_replayed
]


@pytest.mark.parametrize(("table", "name"), LEFT, ids=[f"{table.name}/{name}" for table, name in LEFT])
def test_what_is_not_replayed_says_why(table, name):
    reason = dict(table.not_replayed)[name]
    base = parse(f"{table.name}/none".removeprefix("/"))
    choice = next((option.name for option in table.loss_options if option.kind == "choice"), None)
    asked = [f"{table.name}/{name}".removeprefix("/"), f"{base.name}:{name}=1"]
    for text in asked + ([] if choice is None else [f"{base.name}:{choice}={name}"]):
        with pytest.raises(UsageError, match=rf"{name} is not replayed: ") as caught:
            parse(text)
        assert str(caught.value).endswith(f"{reason}.")


def test_the_smallest_ratio_before_a_token():
    """Against a loop, with segments that are empty or repeat a value, and on some tokens of a rollout only."""
    lengths = [0, 1, 4, 0, 3, 2]
    values = torch.tensor([0.3, -1.0, 2.0, -1.0, -3.0, 5.0, 5.0, -2.0, 0.0, 1.0], dtype=torch.float64)
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    found = exclusive_minimum(values, Segments(offsets)).tolist()
    rows = [values[start:stop].tolist() for start, stop in pairwise(offsets.tolist())]
    assert found == [min(row[:t], default=0.0) for row in rows for t in range(len(row))]
    view = token_view(batch_of(drawn(0)), None)
    part = view.part(torch.arange(2, view.segments.tokens, 3))
    whole = smallest_before(view, Pair.CURRENT_INFERENCE)
    assert smallest_before(part, Pair.CURRENT_INFERENCE).equal(whole[2::3])


def test_papers_are_found_by_their_short_names():
    assert parse("trm").name == "trust_region_mask"
    assert parse("minpro").weight.prefix
