"""AReaL's losses against autograd of the same written out plainly, and M2PO over a dump that comes in parts."""

from __future__ import annotations

import math
from dataclasses import replace

import polars as pl
import pytest
import torch

from iscope import analyze, replay
from iscope.dump import open_dump
from iscope.engines import local
from iscope.engines.cuts_pass import find_cuts
from iscope.errors import UsageError
from iscope.ledger.plan import Plan
from iscope.recipes.grammar import parse
from iscope.recipes.options import spell
from iscope.replay.correction import correct
from iscope.replay.view import token_view
from iscope.rollouts import RolloutBatch
from tests.golden_replay import loss_and_gradient
from tests.reference.areal_losses import batch_loss
from tests.test_losses import batch_of
from tests.test_losses import random_rollouts as rollouts_near_zero

SAMPLING = (
    {"upper": 1.3, "lower": 0.7},
    {"upper": 1.2, "lower": 0.9, "action": "clamp"},
    {"upper": 0.05, "metric": "kl_k1"},
    {"upper": 0.08, "metric": "kl_k2", "lower": 0.001},
    {"upper": 0.08, "metric": "kl_k3"},
    {"upper": 1.05, "lower": 0.9, "level": "sequence"},
    {"upper": 2.0, "lower": 0.5, "level": "sequence", "agg": "sum"},
    {"upper": 1.5, "level": "sequence", "agg": "max"},
    {"upper": 1.02, "lower": 0.98, "level": "sequence", "action": "clamp"},
    {"upper": 1.02, "lower": 0.98, "level": "sequence", "action": "clamp", "agg": "sum"},
    {"upper": 1.9, "lower": 0.98, "level": "sequence", "action": "clamp", "agg": "max"},
    {"upper": 0.1, "level": "sequence", "metric": "kl_k3"},
    {"upper": 0.5, "level": "sequence", "metric": "kl_k2", "agg": "sum"},
    {"upper": 0.4, "level": "sequence", "metric": "kl_k1", "agg": "max"},
)
LOSS = (
    {},
    {"eps_clip_higher": 0.4, "c_clip": 1.1},
    {"importance_sampling_level": "sequence"},
    {"importance_sampling_level": "sequence", "eps_clip": 0.05, "c_clip": 1.01},
)
M2 = (None, 0.02, 0.1, 1e-9)


def random_rollouts(*args):
    """Rollouts whose logprobs all lie below 0."""
    names = ("trainer", "inference", "current")
    return [rollout | {name: rollout[name] - 2 for name in names} for rollout in rollouts_near_zero(*args)]


def spelled(name, options):
    listed = ",".join(f"{option}={spell(value)}" for option, value in options.items())
    return f"areal/{name}:{listed}" if listed else f"areal/{name}"


def check(rollouts, text, batch=None, **settings):
    leaves = [rollout | {"current": rollout["current"].clone().requires_grad_()} for rollout in rollouts]
    expected = batch_loss(leaves, **settings)
    if expected.requires_grad:
        expected.backward()
    gradients = [leaf["current"].grad for leaf in leaves]
    missing = [torch.zeros_like(leaf["current"]) if g is None else g for leaf, g in zip(leaves, gradients, strict=True)]
    loss, gradient = loss_and_gradient(batch_of(rollouts) if batch is None else batch, parse(text))
    assert loss == pytest.approx(float(expected.detach()), rel=1e-12, abs=1e-15)
    torch.testing.assert_close(gradient, torch.cat(missing), rtol=1e-11, atol=1e-14)
    return gradient


@pytest.mark.parametrize("loss", LOSS, ids=str)
@pytest.mark.parametrize("sampling", SAMPLING, ids=str)
def test_rejection_sampling(sampling, loss):
    for m2 in M2:
        options = sampling | loss | {"m2_threshold": m2}
        check(random_rollouts(), spelled("rejection_sampling", options), **options)


@pytest.mark.parametrize("loss", LOSS, ids=str)
def test_the_other_recipes(loss):
    rollouts = random_rollouts()
    check(rollouts, spelled("none", loss), **loss)
    check(rollouts, spelled("coupled", loss), mode="coupled", **loss)
    for m2 in M2[1:]:
        check(rollouts, spelled("m2po", loss | {"m2_threshold": m2}), **loss, m2_threshold=m2)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_sapo(level):
    options = {"sapo_tau_pos": 2.0, "sapo_tau_neg": 0.7, "importance_sampling_level": level}
    check(random_rollouts(), spelled("sapo", options), mode="sapo", **options)


@pytest.mark.parametrize("name", ["none", "rejection_sampling", "m2po", "coupled", "sapo"])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_advantages_of_single_tokens(name, level):
    rollouts = random_rollouts()
    generator = torch.Generator().manual_seed(1)
    for rollout in rollouts:
        rollout["advantage"] = torch.randn(len(rollout["trainer"]), generator=generator, dtype=torch.float64)
    batch = batch_of([rollout | {"advantage": 0.0} for rollout in rollouts])
    advantage = torch.cat([rollout["advantage"] for rollout in rollouts])
    batch = replace(batch, advantage=advantage, advantage_per_token=True)
    options = {"importance_sampling_level": level}
    own = {"rejection_sampling": {"upper": 1.3, "lower": 0.7}, "m2po": {"m2_threshold": 0.05}}.get(name, {})
    mode = name if name in ("coupled", "sapo") else "decoupled"
    check(rollouts, spelled(name, own | options), batch, mode=mode, **own, **options)


@pytest.mark.parametrize(
    "text", ["areal/rejection_sampling:upper=1.3,m2_threshold=0.01", "areal/m2po", "areal/coupled"]
)
def test_contract(text):
    for lengths in ((), (0,), (0, 0), (1,)):
        rollouts = random_rollouts(3, lengths, (1.0,) * len(lengths)) if lengths else []
        batch = batch_of(rollouts) if rollouts else RolloutBatch.from_lists([], [], advantage=[])
        loss, gradient = loss_and_gradient(batch, parse(text))
        assert math.isfinite(loss)
        assert gradient.isfinite().all()
        assert gradient.numel() == sum(lengths)


def test_m2po_keeps_one_token_where_every_mean_is_too_large():
    view = token_view(batch_of(random_rollouts()), None)
    assert correct(view, parse("areal/m2po:m2_threshold=1e-12")).keep(view).sum() == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("upper=1", "with metric=ratio upper must be above 1, but upper is 1"),
        ("metric=kl_k3,upper=0", "upper must be above 0"),
        ("action=clamp,metric=kl_k3,upper=0.5", "with action=clamp metric must not be kl_k3"),
        ("upper=2,lower=3", "lower must not exceed upper"),
        ("c_clip=1", "c_clip must be above 1"),
        ("m2_threshold=0", "m2_threshold must be above 0"),
    ],
)
def test_what_areal_refuses(text, message):
    with pytest.raises(UsageError, match=message):
        parse(f"areal/rejection_sampling:{text}")


def frame_of(steps):
    """A dump with many equal log-ratios, so that which of them go is a matter of their place."""
    generator = torch.Generator().manual_seed(2)
    rows = []
    for index in range(60):
        n = index % 7
        trainer = -1 - torch.randint(0, 64, (n,), generator=generator).double() / 64
        noise = torch.randint(-3, 4, (n,), generator=generator) * 0.125
        rows.append(
            {
                "rollout_id": f"r{index:02}",
                "step": index // (60 // steps),
                "trainer_logprobs": trainer.tolist(),
                "inference_logprobs": (trainer - noise).tolist(),
                "current_logprobs": (trainer + 0.01).tolist(),
                "advantage": 1.0 - index % 3,
            }
        )
    return pl.DataFrame(rows)


def keeps(frame, text, **options):
    return replay(frame, recipe=text, precision="float64", **options).to_polars()["keep"].to_list()


def plainly(frame, threshold):
    sizes = [
        (x - y) ** 2
        for row in frame.iter_rows(named=True)
        for x, y in zip(row["trainer_logprobs"], row["inference_logprobs"], strict=True)
    ]
    order = sorted(range(len(sizes)), key=lambda i: (-sizes[i], i))
    while len(order) > 1 and sum(sizes[i] for i in order) / len(order) >= threshold:
        order.pop(0)
    flags = iter([i in set(order) for i in range(len(sizes))])
    return [[next(flags) for _ in row] for row in frame["trainer_logprobs"].to_list()]


@pytest.mark.parametrize("threshold", [0.003, 0.02, 0.05])
def test_m2po_of_a_dump_in_each_scope(threshold):
    frame, text = frame_of(3), f"areal/m2po:m2_threshold={threshold}"
    whole = keeps(frame, text)
    assert whole == plainly(frame, threshold)
    by_step = [keep for _, part in frame.group_by("step", maintain_order=True) for keep in plainly(part, threshold)]
    assert keeps(frame, text, batch="step") == by_step
    assert keeps(frame, text, batch=20) == by_step
    assert whole != by_step


def test_m2po_measures_the_same_whatever_the_size_of_the_parts():
    frame = frame_of(3)
    plan = Plan((parse("areal/m2po:m2_threshold=0.02"), parse("areal/m2po:m2_threshold=0.05")), precision="float64")

    def rows(batch_tokens):
        dump = open_dump([frame], precision="float64", batch_tokens=batch_tokens)
        cuts = find_cuts(dump.batches, plan.recipes, "exclude")
        return local.run(dump.batches(), plan, cuts=cuts).rows

    assert rows(10).equals(rows(10**6))
    report = analyze(frame, recipes=[recipe.spec for recipe in plan.recipes], precision="float64")
    for recipe, threshold in zip(report.recipes, (0.02, 0.05), strict=True):
        assert recipe.framework["n_valid_tokens"].value == sum(map(sum, plainly(frame, threshold)))


def test_a_pass_over_parts_of_a_dump_takes_its_cuts():
    dump = open_dump([frame_of(1)])
    with pytest.raises(AssertionError, match="cuts of the whole dump"):
        local.run(dump.batches(), Plan((parse("areal/m2po"),)))
