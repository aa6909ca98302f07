"""NeMo-RL's YAML, and the files that it builds on."""

from __future__ import annotations

from pathlib import Path

import pytest

from iscope.errors import UsageError
from iscope.recipes import parse
from iscope.recipes.configs.emit import emit
from iscope.recipes.configs.like import like

DATA = Path(__file__).parents[2] / "data" / "configs" / "nemo_rl"
ON = "use_importance_sampling_correction: true"
TYPE = "truncated_importance_sampling_type"
RATIO = "truncated_importance_sampling_ratio"
# What an absent penalty is.
KL = "reference_policy_kl_penalty=0.01"


def read(folder, *lines, before=""):
    file = folder / "run.yaml"
    file.write_text(f"{before}loss_fn:\n" + "".join(f"  {line}\n" for line in lines))
    return like(f"nemo-rl:{file}")


@pytest.mark.parametrize(
    ("file", "spec"),
    [
        ("grpo_math_1B.yaml", f"nemo-rl/none:{KL}"),
        (
            "prorlv2.v2.yaml",
            "nemo-rl/icepop:0.5,5,ratio_clip_max=0.27,reference_policy_kl_penalty=0.0001,reference_policy_kl_type=k2",
        ),
        (
            "mopd_qwen3_1_7b.yaml",
            "nemo-rl/icepop:0.2,5,ratio_clip_max=0.28,disable_ppo_ratio=true,kl_input_clamp_value=none,"
            "kl_output_clamp_value=none,use_on_policy_kl_approximation=true,seq_logprob_error_threshold=2",
        ),
        (
            "nemotron_3_super_stage1.yaml",
            "nemo-rl/tis:none,5,ratio_clip_max=0.28,force_on_policy_ratio=true,kl_input_clamp_value=none,"
            "kl_output_clamp_value=none,use_on_policy_kl_approximation=true,seq_logprob_error_threshold=2",
        ),
    ],
)
def test_real_files(file, spec):
    assert like(f"nemo-rl:{DATA / file}").recipe.spec == parse(spec).spec


@pytest.mark.parametrize(
    ("lines", "spec"),
    [
        (["use_cispo: true"], f"nemo-rl/none:use_cispo=true,{KL}"),
        ([ON], f"nemo-rl/is:{KL}"),
        ([ON, f"{TYPE}: tis", f"{RATIO}: 2"], f"nemo-rl/tis:none,2,{KL}"),
        ([ON, f"{TYPE}: seq-mask-tis", f"{RATIO}: 1.002", f"{RATIO}_min: 0.999"], f"nemo-rl/seq-mask-tis:{KL}"),
        (["reference_policy_kl_penalty: 0.1", "use_kl_in_reward: true"], "nemo-rl/none"),
        (["positive_example_nll_weight: 0.1"], f"nemo-rl/none:{KL},positive_example_nll_weight=0.1"),
        (
            [ON, "sequence_level_importance_ratios: true", "token_level_loss: false"],
            f"nemo-rl/is:sequence_level_importance_ratios=true,token_level_loss=false,{KL}",
        ),
    ],
)
def test_settings(lines, spec, tmp_path):
    assert read(tmp_path, *lines).recipe.spec == parse(spec).spec


def test_command_line_overrides(tmp_path):
    file = tmp_path / "run.sh"
    file.write_text(
        f"uv run examples/run_grpo.py ++loss_fn.{ON.replace(': ', '=')} loss_fn.{TYPE}=tis loss_fn.{RATIO}=2.0\n"
    )
    assert like(f"nemo-rl:{file}").recipe.spec == parse(f"nemo-rl/tis:none,2,{KL}").spec


def test_command_line_over_the_file_that_it_names(tmp_path):
    file = tmp_path / "run.sh"
    (tmp_path / "my.yaml").write_text("loss_fn:\n  ratio_clip_max: 0.3\n  ratio_clip_min: 0.3\n")
    file.write_text("uv run examples/run_grpo.py --config examples/configs/my.yaml loss_fn.ratio_clip_max=0.28\n")
    spec = f"nemo-rl/none:ratio_clip_min=0.3,ratio_clip_max=0.28,{KL}"
    assert like(f"nemo-rl:{file}").recipe.spec == parse(spec).spec


def test_a_file_builds_on_others(tmp_path):
    (tmp_path / "grand.yaml").write_text(f"loss_fn:\n  {ON}\n  {TYPE}: icepop\n  {RATIO}: 5\n  {RATIO}_min: 0.5\n")
    (tmp_path / "base.yaml").write_text(
        "defaults: grand.yaml\nloss_fn:\n  ratio_clip_max: 0.3\n  ratio_clip_min: 0.3\n"
    )
    found = read(tmp_path, "ratio_clip_max: 0.28", before="defaults: [base.yaml]\n")
    assert found.recipe.spec == parse(f"nemo-rl/icepop:0.5,5,ratio_clip_min=0.3,ratio_clip_max=0.28,{KL}").spec
    assert f"{TYPE}=icepop (grand.yaml line 3)" in found.said[0].replace("loss_fn.", "")


def test_a_section_can_take_the_place_of_the_one_below(tmp_path):
    (tmp_path / "base.yaml").write_text("loss_fn:\n  ratio_clip_max: 0.3\n")
    found = read(tmp_path, "_override_: true", ON, before="defaults: base.yaml\n")
    assert found.recipe.spec == parse(f"nemo-rl/is:{KL}").spec


def test_a_reference_follows_the_file_on_top(tmp_path):
    (tmp_path / "base.yaml").write_text(
        "loss_fn:\n  ratio_clip_min: 0.1\n  ratio_clip_max: ${loss_fn.ratio_clip_min}\n"
    )
    found = read(tmp_path, "ratio_clip_min: 0.3", before="defaults: base.yaml\n")
    assert found.recipe.options["ratio_clip_max"] == 0.3


def test_a_base_that_is_not_there_is_said(tmp_path):
    found = read(tmp_path, ON, before="defaults: ../gone.yaml\n")
    assert found.recipe.name == "nemo-rl/is"
    assert any(
        "defaults names ../gone.yaml, which is neither there nor beside it" in sentence for sentence in found.said
    )


def test_files_that_build_on_each_other(tmp_path):
    with pytest.raises(UsageError, match="defaults leads to more than 20 files"):
        read(tmp_path, ON, before="defaults: run.yaml\n")


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([f"{TYPE}: tis", f"{RATIO}: 2"], "NeMo-RL refuses it: set loss_fn.use_importance_sampling_correction"),
        ([ON, f"{RATIO}: 2"], "say which type the bound is of"),
        ([ON, f"{TYPE}: tsi"], "must be one of null, tis, icepop, seq-mask-tis. Did you mean 'tis'?"),
        ([ON, f"{TYPE}: tis"], "nemo-rl/tis: ratio must be a number, not none"),
        ([ON, f"{TYPE}: icepop", f"{RATIO}: 5"], "nemo-rl/icepop: ratio_min must be a number, not none"),
        ([ON, f"{TYPE}: icepop", f"{RATIO}: 2", f"{RATIO}_min: 5"], "ratio_min must not exceed ratio"),
        (["use_cispo: true", "disable_ppo_ratio: true"], "only one of use_cispo and disable_ppo_ratio may be set"),
        (["ratio_clip_maxx: 0.2"], "Did you mean 'loss_fn.ratio_clip_max'?"),
    ],
)
def test_refused_in_one_sentence(lines, sentence, tmp_path):
    with pytest.raises(UsageError) as error:
        read(tmp_path, *lines)
    assert sentence in str(error.value)


def test_what_is_written():
    assert emit(parse("nemo-rl/icepop:0.5,5"), "nemo-rl").lines == (
        "loss_fn:",
        f"  {ON}",
        f"  {TYPE}: icepop",
        f"  {RATIO}: 5.0",
        f"  {RATIO}_min: 0.5",
        "  reference_policy_kl_penalty: 0.0",
    )
