"""AReaL's YAML, ``actor`` with and without ``rejection_sampling``."""

from __future__ import annotations

from pathlib import Path

import pytest

from iscope.errors import UsageError
from iscope.recipes import parse
from iscope.recipes.configs.emit import emit
from iscope.recipes.configs.like import like

DATA = Path(__file__).parents[2] / "data" / "configs" / "areal"
ON = "use_decoupled_loss: true"


def read(folder, *lines):
    file = folder / "run.yaml"
    file.write_text("actor:\n  path: m\n" + "".join(f"  {line}\n" for line in lines))
    return like(f"areal:{file}")


@pytest.mark.parametrize(
    ("file", "spec"),
    [
        ("gsm8k_grpo.yaml", "areal/rejection_sampling:eps_clip=0.4"),
        ("gsm8k_m2po.yaml", "areal/rejection_sampling:m2_threshold=0.04,eps_clip=0"),
        # Its rejection_sampling has no effect, as AReaL warns.
        ("gsm8k_sapo.yaml", "areal/sapo:eps_clip=0.4"),
    ],
)
def test_real_files(file, spec):
    assert like(f"areal:{DATA / file}").recipe.spec == parse(spec).spec


@pytest.mark.parametrize(
    ("lines", "spec"),
    [
        ([], "areal/coupled"),
        (["recompute_logprob: true"], "areal/none"),
        ([ON], "areal/none"),
        ([ON, "rejection_sampling: null"], "areal/none"),
        ([ON, "m2_threshold: 0.1"], "areal/m2po:0.1"),
        ([ON, "rejection_sampling: {level: sequence}"], "areal/rejection_sampling:level=sequence"),
        (
            [ON, "rejection_sampling: {level: sequence, action: clamp, agg: sum, lower: 0.5, upper: 2}"],
            "areal/rejection_sampling:level=sequence,action=clamp,agg=sum,lower=0.5,upper=2",
        ),
        (
            [ON, "rejection_sampling:", "  metric: kl_k3", "  upper: 0.5"],
            "areal/rejection_sampling:metric=kl_k3,upper=0.5",
        ),
        ([ON, "behav_imp_weight_cap: 3"], "areal/rejection_sampling:upper=3"),
        (
            [ON, "behave_imp_weight_cap: 3", "behave_imp_weight_mode: sequence_truncate"],
            "areal/rejection_sampling:level=sequence,action=clamp,upper=3",
        ),
        ([ON, "behave_imp_weight_cap: 3", "behave_imp_weight_mode: disabled"], "areal/none"),
        (["use_sapo_loss: true", "sapo_tau_neg: 1.1"], "areal/sapo:1,1.1"),
        (
            ["importance_sampling_level: sequence", "c_clip: 3"],
            "areal/coupled:importance_sampling_level=sequence,c_clip=3",
        ),
    ],
)
def test_settings(lines, spec, tmp_path):
    assert read(tmp_path, *lines).recipe.spec == parse(spec).spec


def test_a_script_that_names_the_yaml(tmp_path):
    file = tmp_path / "run.sh"
    file.write_text(f"python3 train.py --config {DATA}/gsm8k_grpo.yaml scheduler.type=local actor.eps_clip=0.3\n")
    assert like(f"areal:{file}").recipe.spec == parse("areal/rejection_sampling:eps_clip=0.3").spec


def test_other_sections_do_not_matter(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("actor:\n  eps_clip: 0.3\ncritic:\n  eps_clip: 0.5\n")
    assert like(f"areal:{file}").recipe.options["eps_clip"] == 0.3


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["use_sapo_loss: true", ON], "AReaL refuses both: set use_decoupled_loss to false"),
        (["use_sapo_loss: true", "recompute_logprob: true"], "iscope replays no correction of AReaL 1.0.4 with"),
        ([ON, "rejection_sampling: {action: clamp, metric: kl_k2, upper: 2}"], "AReaL cuts a weight by its ratio only"),
        ([ON, "rejection_sampling: {upper: 0.9}"], "upper must be above 1"),
        ([ON, "rejection_sampling: {upper: 2, lower: 3}"], "lower must not exceed upper"),
        ([ON, "rejection_sampling: {levle: token}"], "Did you mean 'actor.rejection_sampling.level'?"),
        ([ON, "behave_imp_weight_cap: 3", "rejection_sampling: {upper: 2}"], "took the place of that cap: keep one"),
        ([ON, "behave_imp_weight_cap: 3", "behave_imp_weight_mode: mask"], "must be one of disabled, token_mask"),
    ],
)
def test_refused_in_one_sentence(lines, sentence, tmp_path):
    with pytest.raises(UsageError) as error:
        read(tmp_path, *lines)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ("areal/m2po:0.1", ("actor:", "  use_decoupled_loss: true", "  m2_threshold: 0.1")),
        (
            "areal/rejection_sampling:action=clamp",
            (
                "actor:",
                "  use_decoupled_loss: true",
                "  rejection_sampling:",
                "    upper: 5.0",
                "    level: token",
                "    action: clamp",
                "    metric: ratio",
                "    agg: mean",
            ),
        ),
    ],
)
def test_what_is_written(spec, lines):
    assert emit(parse(spec), "areal").lines == lines
