"""slime's and miles' scripts, and the YAML that comes on top of their flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from iscope.errors import UsageError
from iscope.recipes import parse
from iscope.recipes.configs.emit import emit
from iscope.recipes.configs.like import like

DATA = Path(__file__).parents[2] / "data" / "configs"
MIS = "examples.train_infer_mismatch_helper.mis.compute_mis_weights_with_cp"
ICEPOP = "slime.backends.megatron_utils.loss.icepop_function"
LOSS = "eps_clip_high=0.28,use_kl_loss=true,kl_loss_type=low_var_kl"


def read(folder, flags, framework="slime"):
    file = folder / "run.sh"
    file.write_text(f"python3 train.py {flags}\n")
    return like(f"{framework}:{file}")


@pytest.mark.parametrize(
    ("file", "spec"),
    [
        ("slime:slime/glm5_2_tis.sh", "slime/tis:clip_low=0.5,clip_high=2,eps_clip_high=0.28,kl_loss_type=low_var_kl"),
        ("slime:slime/run_qwen3_4b_mis.sh", f"slime/mis:{LOSS}"),
        ("slime:slime/mis.yaml", "slime/mis"),
        ("miles:miles/qwen3_30b_fp8_tis.sh", f"miles/tis:{LOSS}"),
        (
            "miles:miles/qwen3_4b_fsdp_mis.sh",
            "miles/mis:tis_level=sequence,rs_level=geometric,tis_mode=clip,rs_lower_bound=0.999,rs_upper_bound=1.001,"
            f"tis_batch_normalize=false,{LOSS}",
        ),
    ],
)
def test_real_files(file, spec):
    framework, _, path = file.partition(":")
    assert like(f"{framework}:{DATA / path}").recipe.spec == parse(spec).spec


@pytest.mark.parametrize(
    ("flags", "spec"),
    [
        ("--lr 1e-6", "slime/none"),
        ("--use-tis", "slime/tis"),
        ("--use-tis --tis-clip=5 --tis-clip-low 0.2", "slime/tis:0.2,5"),
        (f"--use-tis --custom-tis-function-path {ICEPOP} --tis-clip-low 0.5", "slime/icepop:0.5"),
        # slime calls the function for the metrics' sake, and it changes the loss all the same.
        (f"--get-mismatch-metrics --custom-tis-function-path {ICEPOP}", "slime/icepop"),
        (f"--custom-tis-function-path {MIS}", "slime/none"),
        (
            "--advantage-estimator gspo --use-opsm --calculate-per-token-loss",
            "slime/none:loss_type=gspo,use_opsm=true,calculate_per_token_loss=true",
        ),
    ],
)
def test_flags(flags, spec, tmp_path):
    assert read(tmp_path, flags).recipe.spec == parse(spec).spec


def test_mis_for_its_metrics_alone(tmp_path):
    """With use_tis off in the YAML too, the function is called and corrects nothing."""
    text = (DATA / "slime/mis.yaml").read_text().replace("use_tis: true", "use_tis: false")
    (tmp_path / "mis.yaml").write_text(text)
    flags = f"--get-mismatch-metrics --custom-tis-function-path {MIS} --custom-config-path mis.yaml"
    assert read(tmp_path, flags).recipe.spec == parse("slime/mis:use_tis=false").spec


def test_yaml_comes_last(tmp_path):
    """The YAML is laid over the flags: it can turn the correction on, and it has its way with the bounds."""
    (tmp_path / "over.yaml").write_text("use_tis: true\ntis_clip: 5\n")
    found = read(tmp_path, "--tis-clip 3 --custom-config-path conf/over.yaml")
    assert found.recipe.spec == parse("slime/tis:0,5").spec
    assert "tis_clip=5 (over.yaml line 2)" in found.said[0]
    assert any("custom_config_path names over.yaml, which was read too" in sentence for sentence in found.said)


def test_a_yaml_that_asks_for_an_object_is_refused_by_its_own_name(tmp_path):
    (tmp_path / "over.yaml").write_text("use_tis: !!python/object/apply:os.getcwd []\n")
    with pytest.raises(UsageError, match=r"over\.yaml: .*no objects are made"):
        read(tmp_path, "--custom-config-path over.yaml")


def test_a_yaml_that_a_script_names_does_not_choose_the_function(tmp_path):
    (tmp_path / "mis.yaml").write_text((DATA / "slime/mis.yaml").read_text())
    assert read(tmp_path, "--custom-config-path mis.yaml").recipe.spec == parse("slime/tis").spec


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--use-tis --use-rollout-logprobs", "use_tis is true, but there is use_rollout_logprobs=true"),
        ("--tis-clip 5", "without use_tis nothing is corrected: set it, or take the bound out"),
        ("--get-mismatch-metrics", "name it, or take get_mismatch_metrics out"),
        (
            "--use-tis --tis-clip-hi 5",
            "'tis_clip_hi' is no setting of slime 624b824a that iscope knows. Did you mean 'tis_clip'",
        ),
        ("--use-tis --custom-tis-function-path my.function", "iscope replays no correction of slime 624b824a with"),
        ("--loss-type sft_loss", "loss_type=sft_loss (line 1) must be one of policy_loss"),
        ("--advantage-estimator grop", "Did you mean 'grpo'?"),
        ("--use-tis --tis-clip 0", "slime/tis: clip_high must be above 0"),
        (
            f"--use-tis --custom-tis-function-path {MIS} --custom-config-path gone.yaml",
            "custom_config_path names gone.yaml, which is neither there nor beside it; put a copy of it beside",
        ),
    ],
)
def test_refused_in_one_sentence(flags, sentence, tmp_path):
    with pytest.raises(UsageError) as error:
        read(tmp_path, flags)
    assert sentence in str(error.value)
    assert str(error.value).startswith(f"{tmp_path / 'run.sh'}: ")


def test_mis_without_its_yaml(tmp_path):
    """What mis.py reads has no default: slime stops."""
    with pytest.raises(UsageError, match="slime/mis has no default of tis_lower_bound, tis_upper_bound, "):
        read(tmp_path, f"--use-tis --custom-tis-function-path {MIS}")


@pytest.mark.parametrize("name", ["x" * 5000, "${CONFIG}", "a/../.."])
def test_names_that_no_file_can_have(name, tmp_path):
    with pytest.raises(UsageError, match="custom_config_path names"):
        read(tmp_path, f"--use-tis --custom-config-path '{name}/'")


def test_miles_has_no_cispo(tmp_path):
    assert read(tmp_path, "--advantage-estimator cispo").recipe.options["loss_type"] == "cispo"
    with pytest.raises(UsageError, match="must be one of grpo, ppo"):
        read(tmp_path, "--advantage-estimator cispo", "miles")


def test_metrics_alone_are_not_replayed_silently(tmp_path):
    found = read(tmp_path, "--skip-actor-forward-only", "miles")
    assert any("give them as the trainer's, and no current ones" in sentence for sentence in found.said)


def test_what_is_written():
    assert emit(parse("slime/tis:0.5,2,eps_clip_high=0.28"), "slime").lines == (
        "--use-tis",
        "--tis-clip-low 0.5",
        "--tis-clip 2.0",
        "--eps-clip-high 0.28",
    )
    lines = emit(parse("slime/mis:tis_mode=mask"), "slime").lines
    assert lines[:4] == (
        "--use-tis",
        f"--custom-tis-function-path {MIS}",
        "--custom-config-path slime.yaml",
        "# slime.yaml:",
    )
    assert {"tis_mode: mask", "rs_lower_bound: null", "rs_veto_threshold: 0.0001"} < set(lines[4:])
