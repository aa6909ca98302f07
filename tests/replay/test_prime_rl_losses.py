"""prime-rl's score coefficients against autograd of the losses written out, and against its published fixtures."""

from __future__ import annotations

import math

import pytest
import torch

import iscope
from iscope.ledger.measure import take_rollouts
from iscope.recipes import framework
from iscope.recipes.grammar import parse
from iscope.replay.correction import correct
from iscope.replay.losses import loss_terms
from iscope.replay.view import token_view
from iscope.rollouts import RolloutBatch
from tests.reference import prime_rl_losses

RECIPES = [row.name for row in framework("prime-rl").recipes]
OTHERS = [
    "prime-rl/geo_mask:token_clip=2",
    "prime-rl/seq_tis:seq_clip=1.05,adv_tau=0.5",
    "prime-rl/ppo:max_importance_ratio=1.1",
    "prime-rl/cispo:ratio_low=0.9,ratio_high=1.1",
    "prime-rl/mis_po:0.9,1.1,0.8,1.25",
    "prime-rl/default@2026-08:0.01,0.02,kl_tau=0.5",
    "prime-rl/kpop@2026-08:0.001,0.5",
    "prime-rl/kimi_k15@2026-08:0.7,sequence_regularizer=true,adv_tau=0.5",
    "prime-rl/default@2026-03:0.01,0.02,kl_tau=0.5",
    "prime-rl/token@2025-12:0.9,1.1,0.95,1.05,0.7,1.4",
    "prime-rl/token@2025-11:0.9,1.1,0.7,0.3",
    "prime-rl/grpo@2025-08:1.05",
]
LENGTHS = (0, 5, 1, 40, 0, 17, 3, 0)


def random_batch(seed: int, noise: float) -> RolloutBatch:
    generator = torch.Generator().manual_seed(seed)
    tokens = sum(LENGTHS)
    mu = -torch.rand(tokens, generator=generator, dtype=torch.float64) * 3

    def moved():
        return (mu + noise * torch.randn(tokens, generator=generator, dtype=torch.float64)).clamp(max=0.0)

    rows = len(LENGTHS)
    batch = RolloutBatch.from_lists([[-1.0] * n for n in LENGTHS], [[-1.0] * n for n in LENGTHS])
    return RolloutBatch(
        offsets=batch.offsets,
        trainer_logprobs=moved(),
        inference_logprobs=mu,
        current_logprobs=moved(),
        ref_logprobs=moved(),
        advantage=torch.tensor([1.0, -0.5, 0.0, 2.0, -1.0, -2.0, 0.7, 0.0], dtype=torch.float64)[:rows],
        columns=batch.columns,
    )


@pytest.mark.parametrize("spec", RECIPES + OTHERS)
@pytest.mark.parametrize("noise", [0.001, 0.05, 0.5, 3.0])
def test_autograd(spec, noise):
    batch = random_batch(len(spec), noise)
    recipe = parse(spec)
    view = token_view(batch, None)
    terms = loss_terms(view, recipe, correct(view, recipe))
    name = recipe.name.removeprefix("prime-rl/").translate({ord("@"): "_", ord("-"): "_"})
    losses = []
    for row, length in enumerate(LENGTHS):
        start = int(batch.offsets[row])
        part = slice(start, start + length)
        lp = batch.current_logprobs[part].clone().requires_grad_()
        a = torch.full((length,), float(batch.advantage[row]), dtype=torch.float64)
        loss = getattr(prime_rl_losses, name)(
            lp, batch.inference_logprobs[part], batch.ref_logprobs[part], a, recipe.options
        )
        loss.backward()
        losses.append(loss.item())
        assert torch.allclose(terms.score()[part], lp.grad, rtol=1e-12, atol=1e-14)
    assert view.segments.sum(terms.loss()).tolist() == pytest.approx(losses, rel=1e-12, abs=1e-13)


def gradient(spec, ratios, advantages, lp=None):
    """Coefficients of one rollout per token."""
    mu = [-math.log(ratio) + lp0 for ratio, lp0 in zip(ratios, lp or [-5.0] * len(ratios), strict=True)]
    rows = [[x] for x in (lp or [-5.0] * len(ratios))]
    batch = RolloutBatch.from_lists(rows, [[x] for x in mu], advantage=advantages)
    batch = RolloutBatch(
        batch.offsets,
        torch.tensor([x for row in rows for x in row], dtype=torch.float64),
        torch.tensor(mu, dtype=torch.float64),
        batch.columns,
        advantage=batch.advantage,
    )
    view = token_view(batch, None)
    recipe = parse(spec)
    return loss_terms(view, recipe, correct(view, recipe)).score().tolist(), correct(view, recipe)


def test_icepop_fixture():
    found, correction = gradient("prime-rl/icepop", [0.1, 0.2 + 1e-15, 1, 5 - 1e-14, 10], [1.0] * 5)
    assert found == pytest.approx([0, -0.2, -1, -5, 0], abs=1e-12)
    assert float((~correction.keep_token).double().mean()) == pytest.approx(0.4)


def test_ppo_fixture():
    found, _ = gradient("prime-rl/ppo", [0.5, 0.9, 1, 1.1, 2, 2], [1, 1, 1, 1, 1, -1])
    assert found == pytest.approx([-0.5, -0.9, -1, -1.1, 0, 2], abs=1e-12)


def test_cispo_fixture():
    found, _ = gradient("prime-rl/cispo", [0.1, 1, 5, 10], [1, -1, 1, 1])
    assert found == pytest.approx([-0.1, 1, -5, -5], abs=1e-12)


def test_ipo_fixture():
    def one(lp, mu):
        batch = RolloutBatch.from_lists([[lp]], [[mu]], advantage=[1.0])
        view, recipe = token_view(batch, None), parse("prime-rl/ipo")
        return loss_terms(view, recipe, correct(view, recipe)).score().tolist()

    assert one(-10.0, -100.0) == pytest.approx([-1e4])
    assert one(0.0, -100.0) == [0.0]


def scores(spec, lists, advantage):
    batch = RolloutBatch.from_lists([[-0.1] * len(lists)], [[-0.1 - d for d in lists]], advantage=[advantage])
    view, recipe = token_view(batch, None), parse(spec)
    return loss_terms(view, recipe, correct(view, recipe)).score()


def test_clipped_seq_tis_has_twice_the_advantage():
    assert scores("prime-rl/seq_tis", [0.6, 0.7], 1.5).tolist() == pytest.approx([-3.0, -3.0])


def test_accepted_geo_mask_has_the_advantage():
    assert scores("prime-rl/geo_mask", [0.1, 0.3], 1.5).tolist() == pytest.approx([-1.5, -1.5])


def test_seq_mis_weighs_with_the_product():
    found = scores("prime-rl/seq_mis", [0.5, 0.3], 1.5).tolist()
    assert found == pytest.approx([-1.5 * math.exp(0.8)] * 2, rel=1e-6)


@pytest.mark.parametrize("spec", RECIPES)
def test_a_sum_of_800_stays_finite(spec):
    if parse(spec).needs != ("ref_logprobs",):
        assert torch.isfinite(scores(spec, [80.0] * 10, 1.0)).all()
        assert torch.isfinite(scores(spec, [0.6] * 1333, 1.0)).all()


@pytest.mark.parametrize("spec", RECIPES)
def test_an_empty_mask_is_a_clean_zero(spec):
    batch = RolloutBatch.from_lists(
        [[-1.0, -2.0]], [[-1.5, -1.0]], [[0, 0]], ref_logprobs=[[-1.0, -1.0]], advantage=[1.0]
    )
    view, recipe = token_view(batch, batch.loss_mask), parse(spec)
    terms = loss_terms(view, recipe, correct(view, recipe))
    assert view.segments.sum(terms.loss()).tolist() == [0.0]
    assert terms.score().numel() == 0


@pytest.mark.parametrize("spec", ["ipo", "seq_tis", "mis_po:0.9,1.1", "default@2026-08", "ppo"])
def test_filtered_zero_advantages_leave_loss_and_denominator(spec):
    """The orchestrator does not ship them: the loss is that of a dump without these rollouts."""
    batch = random_batch(3, 0.3)
    shipped = take_rollouts(batch, (batch.advantage != 0).nonzero().squeeze(1))
    text = f"prime-rl/{spec}" + ("," if ":" in spec else ":") + "filter_zero_advantages=true"
    filtered = iscope.replay(batch, recipe=text, precision="float64")
    expected = iscope.replay(shipped, recipe=f"prime-rl/{spec}", precision="float64")
    assert filtered.loss["all"] == pytest.approx(expected.loss["all"], rel=1e-12)
    assert iscope.replay(batch, recipe=f"prime-rl/{spec}", precision="float64").loss != filtered.loss
    kept, whole = (iscope.analyze(batch, recipes=[r]).recipes[0].framework for r in (text, f"prime-rl/{spec}"))
    names = [name for name in kept if name.endswith("/mean")]
    metrics = iscope.analyze(shipped, recipes=[f"prime-rl/{spec}"]).recipes[0].framework
    assert [kept[name].value for name in names] == pytest.approx([metrics[name].value for name in names])
    assert not names or any(kept[name].value != whole[name].value for name in names)
