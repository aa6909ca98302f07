"""verl's losses and their closed-form gradients against autograd of the same losses written out plainly."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from iscope import replay
from iscope.errors import UsageError
from iscope.recipes.grammar import parse
from iscope.recipes.options import spell
from tests.golden_cases import golden_batch, report_of
from tests.reference.verl_losses import batch_loss
from tests.test_golden_verl import replayed
from tests.test_losses import assert_same, batch_of, random_rollouts

LOSSES = ("vanilla", "dppo_tv", "dppo_kl", "gspo", "sapo", "gpg", "geo_mean", "dro", "cispo")
MODES = ("token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-sum-norm", "seq-mean-token-mean")
WEIGHTINGS = {
    "": None,
    "level=token,is_threshold=1.3": ("token", None, 1.3),
    "level=sequence,is_threshold=1.5": ("sequence", None, 1.5),
    "level=token,is_threshold=0.6_1.5": ("token", 0.6, 1.5),
    "level=sequence,is_threshold=0.5_2.5": ("sequence", 0.5, 2.5),
}
REJECTIONS = {
    "": (),
    "option=token_k1,rs_threshold=0.7_1.6": (("token_k1", 0.7, 1.6),),
    "option=seq_mean_k3,rs_threshold=0.12": (("seq_mean_k3", None, 0.12),),
    "option=token_k2,seq_sum_k1,seq_max_k3,rs_threshold=0.1,0.5_3,0.2": (
        ("token_k2", None, 0.1),
        ("seq_sum_k1", 0.5, 3.0),
        ("seq_max_k3", None, 0.2),
    ),
}
DRO = {"dro_beta": 0.3}


def plain(rollouts, **settings):
    """Loss and gradient by autograd."""
    leaves = [rollout | {"current": rollout["current"].clone().requires_grad_()} for rollout in rollouts]
    loss = batch_loss(leaves, **settings)
    if loss.requires_grad:
        loss.backward()
    grads = [torch.zeros_like(r["current"]) if r["current"].grad is None else r["current"].grad for r in leaves]
    return float(loss.detach()), torch.cat(grads).detach()


def masked(batch):
    """The batch with a loss mask of every token."""
    return replace(batch, loss_mask=torch.ones(batch.tokens, dtype=torch.bool))


def text_of(*parts, **options):
    spelled = [f"{name}={spell(value)}" for name, value in options.items()]
    return "verl/rollout_correction:" + ",".join(["level=none"] * (not parts[0]) + [p for p in (*parts, *spelled) if p])


def compare(rollouts, text, **settings):
    """Logprobs are moved below 0, as logprobs lie."""
    rollouts = [{name: v if name == "advantage" else v - 2 for name, v in rollout.items()} for rollout in rollouts]
    expected = plain(rollouts, **settings)
    assert_same(replayed(masked(batch_of(rollouts)), parse(text)), expected)
    return expected


@pytest.mark.parametrize("rejection", REJECTIONS)
@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("loss", LOSSES)
def test_against_autograd(loss, weighting, rejection):
    options = DRO if loss == "dro" else {}
    for seed, normalise in enumerate((False, True)):
        if normalise and (not weighting or loss == "geo_mean"):
            continue
        gradient = compare(
            random_rollouts(seed, spread=0.5),
            text_of(weighting, rejection, batch_normalize=normalise, loss_type=loss, **options),
            loss=loss,
            weighting=WEIGHTINGS[weighting],
            rejection=REJECTIONS[rejection],
            normalise=normalise,
            **options,
        )[1]
        assert float(gradient.abs().max()) > 0


@pytest.mark.parametrize("use_v1", [True, False])
@pytest.mark.parametrize("size", [None, 4])
@pytest.mark.parametrize("agg", MODES)
@pytest.mark.parametrize("loss", ["vanilla", "sapo", "geo_mean"])
def test_aggregations(loss, agg, size, use_v1):
    options = {"use_v1": use_v1, "global_batch_size": size, "loss_scale_factor": 12}
    rejection = "option=token_k1,rs_threshold=0.7_1.6"
    text = text_of("level=token,is_threshold=1.3", rejection, loss_type=loss, loss_agg_mode=agg, **options)
    settings = {"loss": loss, "agg": agg, "weighting": ("token", None, 1.3), "rejection": REJECTIONS[rejection]}
    compare(random_rollouts(3), text, **settings, **options)


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        ("vanilla", {"clip_ratio_low": 0.1, "clip_ratio_high": 0.4}),
        ("vanilla", {"clip_ratio_c": 1.1}),
        ("vanilla", {"clip_ratio_c": 1.1, "clip_ratio_high": 0.5}),
        ("dppo_tv", {"clip_ratio_low": 0.05, "clip_ratio_high": 0.1, "clip_ratio_c": 1.2}),
        ("dppo_kl", {"clip_ratio_low": 0.01, "clip_ratio_high": 0.02, "clip_ratio_c": 1.2}),
        ("gspo", {"clip_ratio_low": 0.05, "clip_ratio_high": 0.02}),
        ("sapo", {"tau_pos": 2.0, "tau_neg": 0.7}),
        ("geo_mean", {"clip_ratio_low": 0.1, "clip_ratio_high": 0.3}),
        ("dro", {"dro_beta": 2.0}),
        ("cispo", {"clip_ratio_low": 0.5, "clip_ratio_high": 0.1}),
    ],
)
def test_options(loss, options):
    for seed in range(3):
        rollouts = random_rollouts(seed)
        compare(
            rollouts,
            text_of("level=token,is_threshold=1.5", "", loss_type=loss, **options),
            loss=loss,
            weighting=("token", None, 1.5),
            **options,
        )


@pytest.mark.parametrize("far", [19.0, 25.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_beyond_the_limits_of_the_exponent(loss, far):
    """Advantages of both signs, the current policy far above and far below the trainer's."""
    rollouts = random_rollouts(lengths=(2, 2), advantages=(1.0, -1.0))
    for rollout in rollouts:
        rollout["trainer"] = torch.tensor([-0.3, -far - 0.5], dtype=torch.float64)
        rollout["current"] = torch.tensor([-far - 0.3, -0.5], dtype=torch.float64)
        rollout["inference"] = rollout["trainer"] - torch.tensor([0.1, far], dtype=torch.float64)
    options = DRO if loss == "dro" else {}
    text = text_of("level=token,is_threshold=2", "", loss_type=loss, **options)
    compare(rollouts, text, loss=loss, weighting=("token", None, 2.0), **options)


BYPASS = {
    "bypass_ppo_clip": ("ppo_clip", None, ()),
    "bypass_ppo_clip_geo_rs:rs_threshold=0.8_1.3": ("ppo_clip", None, (("seq_mean_k1", 0.8, 1.3),)),
    "bypass_ppo_clip_k3_rs:rs_threshold=0.2": ("ppo_clip", None, (("seq_mean_k3", None, 0.2),)),
    "bypass_pg_is:threshold=1.5": ("reinforce", ("sequence", None, 1.5), ()),
    "bypass_pg_token_icepop:threshold=1.6,threshold_lower=0.6": ("reinforce", ("token", 0.6, 1.6), ()),
    "bypass_pg_geo_rs:rs_threshold=0.8_1.3": ("reinforce", None, (("seq_mean_k1", 0.8, 1.3),)),
    "bypass_pg_geo_rs_seq_tis:is_threshold=1.2,rs_threshold=0.8_1.3": (
        "reinforce",
        ("sequence", None, 1.2),
        (("seq_mean_k1", 0.8, 1.3),),
    ),
    "bypass_pg_geo_rs_token_tis:is_threshold=1.2,rs_threshold=0.8_1.3": (
        "reinforce",
        ("token", None, 1.2),
        (("seq_mean_k1", 0.8, 1.3),),
    ),
}


@pytest.mark.parametrize("agg", MODES)
@pytest.mark.parametrize("name", BYPASS)
def test_bypass_mode(name, agg):
    bypass, weighting, rejection = BYPASS[name]
    text = f"verl/{name}{',' if ':' in name else ':'}loss_agg_mode={agg},loss_scale_factor=9"
    for seed in range(3):
        gradient = compare(
            random_rollouts(seed),
            text,
            bypass=bypass,
            weighting=weighting,
            rejection=rejection,
            agg=agg,
            loss_scale_factor=9,
        )[1]
        assert float(gradient.abs().max()) > 0


@pytest.mark.parametrize(
    ("preset", "same"),
    [
        ("none", "rollout_correction:level=none"),
        ("rollout_is:token,3", "rollout_correction:token,3"),
        ("rollout_rs:token_k3,0.1", "rollout_correction:none,2,false,token_k3,0.1"),
        ("decoupled_token_is:1.5", "rollout_is:token,1.5"),
        ("decoupled_seq_is:1.5", "rollout_is:sequence,1.5"),
        ("decoupled_token_icepop:1.5,0.7", "rollout_is:token,0.7_1.5"),
        ("decoupled_seq_is_rs:1.5,0.6_1.9", "rollout_correction:sequence,1.5,false,seq_sum_k1,0.6_1.9"),
        ("decoupled_geo_rs:0.8_1.2", "rollout_rs:seq_mean_k1,0.8_1.2"),
        ("decoupled_geo_rs_seq_tis:1.5,1.2", "rollout_correction:sequence,1.5,false,seq_mean_k1,1.2"),
        ("decoupled_geo_rs_token_tis:1.5,1.2", "rollout_correction:token,1.5,false,seq_mean_k1,1.2"),
        ("decoupled_k3_rs:0.05", "rollout_rs:seq_mean_k3,0.05"),
        ("decoupled_k3_rs_seq_tis:1.5,0.05", "rollout_correction:sequence,1.5,false,seq_mean_k3,0.05"),
        ("decoupled_k3_rs_token_tis:1.5,0.05", "rollout_correction:token,1.5,false,seq_mean_k3,0.05"),
    ],
)
def test_presets_are_settings_of_the_options(preset, same):
    one, other = parse(f"verl/{preset}"), parse(f"verl/{same}")
    assert (one.weight.level, one.filters, one.loss) == (other.weight.level, other.filters, other.loss)
    batch = masked(batch_of(random_rollouts()))
    found, expected = replayed(batch, one), replayed(batch, other)
    assert found[0] == expected[0]
    assert torch.equal(found[1], expected[1])


def test_the_bounds_of_k1_are_inverted():
    """0.5_1.2 keeps 1/1.2 <= rho <= 2."""
    ratios = (0.4, 0.7, 0.9, 1.5, 2.1)
    rollout = random_rollouts(lengths=(5,), advantages=(1.0,))[0]
    rollout["inference"] = rollout["trainer"] - torch.tensor([math.log(x) for x in ratios], dtype=torch.float64)
    _, gradient = replayed(masked(batch_of([rollout])), parse("verl/rollout_rs:token_k1,0.5_1.2,loss_type=gpg"))
    assert (gradient != 0).tolist() == [False, False, True, True, False]


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_degenerate_batches(loss, normalise):
    empty = torch.zeros(0, dtype=torch.float64)
    nothing = dict.fromkeys(("trainer", "inference", "current", "ref"), empty) | {"advantage": 1.0}
    options = DRO if loss == "dro" else {}
    normalise = normalise and loss != "geo_mean"
    for rollouts in ([nothing, nothing], [nothing, *random_rollouts(lengths=(1,), advantages=(-2.0,)), nothing]):
        for level in ("token", "sequence"):
            weighting = f"level={level},is_threshold=2,batch_normalize={spell(normalise)}"
            found = compare(
                rollouts,
                text_of(weighting, "option=token_k2,rs_threshold=5", loss_type=loss, **options),
                loss=loss,
                weighting=(level, None, 2.0),
                rejection=(("token_k2", None, 5.0),),
                normalise=normalise,
                **options,
            )
            assert not any(map(math.isnan, [found[0], *found[1].tolist()]))


@pytest.mark.parametrize("rejection", ["option=token_k1,rs_threshold=0.9_1.1", "option=seq_max_k2,rs_threshold=0.1"])
@pytest.mark.parametrize("loss", LOSSES)
def test_everything_rejected(loss, rejection):
    rollouts = random_rollouts(lengths=(4, 6), advantages=(1.0, -1.0))
    for rollout in rollouts:
        rollout["inference"] = rollout["trainer"] + 2
    options = DRO if loss == "dro" else {}
    batch = masked(batch_of(rollouts))
    for use_v1 in (True, False):
        text = text_of("level=token,is_threshold=2", rejection, loss_type=loss, use_v1=use_v1, **options)
        loss_value, gradient = replayed(batch, parse(text))
        assert loss_value == 0
        assert not gradient.any()


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_everything_out_of_bounds_is_not_normalised(level):
    """The mean weight is 0 there, which divides nothing."""
    rollouts = random_rollouts(lengths=(4, 6), advantages=(1.0, -1.0))
    for rollout in rollouts:
        rollout["inference"] = rollout["trainer"] + 2
    text = f"verl/rollout_is:level={level},threshold=0.5_2,batch_normalize=true"
    assert not replayed(masked(batch_of(rollouts)), parse(text))[1].any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "verl/rollout_is:threshold=2_0.5",
            "verl/rollout_is: threshold must be a number above 0 or two as low_high, not '2_0.5'.",
        ),
        (
            "verl/rollout_is:threshold=0",
            "verl/rollout_is: threshold must be a number above 0 or two as low_high, not '0'.",
        ),
        (
            "verl/rollout_rs:option=token_k3,threshold=0.5_2",
            "verl/rollout_rs: token_k3 has an upper bound only, but threshold is a pair for it.",
        ),
        (
            "verl/rollout_rs:option=token_k1,threshold=0.5",
            "verl/rollout_rs: token_k1 with one bound keeps 1/bound to bound; threshold must be at least 1.",
        ),
        (
            "verl/rollout_rs:option=token_k2,token_k3,seq_max_k2,threshold=1,2",
            "verl/rollout_rs: threshold holds 2 bounds for 3 filters; give one, or one for each.",
        ),
        (
            "verl/rollout_correction:option=token_k2",
            "verl/rollout_correction: rs_threshold is none, but token_k2 needs a bound.",
        ),
        (
            "verl/none:loss_agg_mode=seq-mean-token-sum-norm",
            "verl/none: with loss_agg_mode=seq-mean-token-sum-norm loss_scale_factor must be set, but it is none.",
        ),
        ("verl/none:loss_type=dro", "verl/none: with loss_type=dro dro_beta must be set, but it is none."),
        (
            "verl/rollout_is:batch_normalize=true,loss_type=geo_mean",
            "verl/rollout_is: with batch_normalize=true loss_type must not be geo_mean, but loss_type is geo_mean; "
            "iscope does not replay the two together.",
        ),
        ("verl/none:clip_ratio_c=1", "verl/none: clip_ratio_c must be above 1, but clip_ratio_c is 1."),
    ],
)
def test_refusals(text, message):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_options_that_the_loss_does_not_read_are_said():
    assert parse("verl/none:loss_type=gpg,clip_ratio_c=5,tau_pos=2").unused == ("clip_ratio_c", "tau_pos")
    assert parse("verl/none:loss_agg_mode=seq-mean-token-sum,global_batch_size=8").unused == ()


KL_TYPES = ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3")


@pytest.mark.parametrize("rejection", REJECTIONS)
@pytest.mark.parametrize("kind", [*KL_TYPES, *(f"{kind}+" for kind in KL_TYPES)])
def test_kl_loss(kind, rejection):
    rollouts = random_rollouts(4)
    rollouts[3] = {name: v if name == "advantage" else v - 40 for name, v in rollouts[3].items()}
    far = rollouts[3]["ref"]
    far[0], far[1], far[2] = far[0] - 30, far[1] + 2.5, far[2] + 30  # beyond the limits of k3 either way
    options = {"use_kl_loss": True, "kl_loss_type": kind, "kl_loss_coef": 0.2}
    settings = {"weighting": ("token", None, 1.3), "rejection": REJECTIONS[rejection]}
    with_kl = compare(rollouts, text_of("level=token,is_threshold=1.3", rejection, **options), **settings, **options)
    assert with_kl[0] != pytest.approx(plain(rollouts, **settings)[0], rel=1e-3)


@pytest.mark.parametrize("use_v1", [True, False])
@pytest.mark.parametrize("agg", MODES)
@pytest.mark.parametrize("loss", ["vanilla", "sapo", "gspo", "gpg"])
def test_the_kl_loss_goes_by_its_own_aggregation(loss, agg, use_v1):
    options = {"use_kl_loss": True, "kl_loss_coef": 0.3, "loss_scale_factor": 7, "use_v1": use_v1}
    rejection = "option=token_k1,rs_threshold=0.7_1.6"
    text = text_of("", rejection, loss_type=loss, loss_agg_mode=agg, **options)
    compare(random_rollouts(5), text, loss=loss, agg=agg, rejection=REJECTIONS[rejection], **options)


@pytest.mark.parametrize("agg", MODES)
@pytest.mark.parametrize("name", BYPASS)
def test_bypass_mode_spares_the_kl_loss(name, agg):
    bypass, weighting, rejection = BYPASS[name]
    options = {"loss_scale_factor": 9, "use_kl_loss": True, "kl_loss_coef": 0.3}
    spelled = ",".join(f"{option}={spell(value)}" for option, value in options.items())
    text = f"verl/{name}{',' if ':' in name else ':'}loss_agg_mode={agg},{spelled}"
    compare(random_rollouts(1), text, bypass=bypass, weighting=weighting, rejection=rejection, agg=agg, **options)


@pytest.mark.parametrize("loss", ["dro", "geo_mean"])
def test_two_terms_beside_each_other_are_refused(loss):
    with pytest.raises(UsageError, match=f"use_kl_loss must not be true.*; beside {loss} the KL term is not replayed"):
        parse(f"verl/none:loss_type={loss},dro_beta=1,use_kl_loss=true")


def test_the_kl_loss_needs_the_reference():
    assert parse("verl/none:use_kl_loss=true").needs == ("ref_logprobs",)
    assert parse("verl/none:kl_loss_coef=0.1").unused == ("kl_loss_coef",)


@pytest.mark.parametrize("agg", MODES)
@pytest.mark.parametrize(
    "text",
    [
        "verl/rollout_rs:option=token_k1,threshold=0.7_1.6,use_v1=false",
        "verl/rollout_rs:option=seq_mean_k1,threshold=0.8_1.3,loss_type=gpg",
        "verl/none:loss_type=sapo",
        "verl/bypass_pg_geo_rs:rs_threshold=0.8_1.3",
    ],
)
def test_the_metric_of_the_kl_loss_is_what_it_adds_to_the_loss(golden, text, agg):
    batch = golden_batch(golden, "", ("trainer_logprobs", "inference_logprobs", "current_logprobs", "ref_logprobs"))
    text += f",loss_agg_mode={agg},loss_scale_factor=9"
    with_kl = f"{text},use_kl_loss=true,kl_loss_coef=0.5"
    plain, whole = (replay(batch, recipe=spec, precision="float64").loss["all"] for spec in (text, with_kl))
    [entry] = report_of(batch, [with_kl]).recipes
    assert entry.framework["actor/kl_coef"].value == 0.5
    assert 0.5 * entry.framework["actor/kl_loss"].value == pytest.approx(whole - plain, rel=1e-9)
