"""open-instruct's scripts, of before and after its rho options."""

from __future__ import annotations

from pathlib import Path

import pytest

from iscope.errors import UsageError
from iscope.recipes import parse
from iscope.recipes.configs.emit import emit
from iscope.recipes.configs.like import like

DATA = Path(__file__).parents[2] / "data" / "configs" / "open_instruct"
CAP = "--truncated_importance_sampling_ratio_cap"


def read(folder, flags):
    file = folder / "run.sh"
    file.write_text(f"uv run python open_instruct/grpo_fast.py --seed 1 {flags}\n")
    return like(f"open-instruct:{file}")


@pytest.mark.parametrize(
    ("file", "spec"),
    [
        ("wordle_8gpu.sh", "open-instruct/rho:clamp_upper=5"),
        ("two_gpus_before_rho.sh", "open-instruct/rho:clamp_upper=2,clip_higher=0.28"),
    ],
)
def test_real_files(file, spec):
    assert like(f"open-instruct:{DATA / file}").recipe.spec == parse(spec).spec


@pytest.mark.parametrize(
    ("flags", "spec"),
    [
        ("", "open-instruct/rho:beta=0.05"),
        ("--beta 0", "open-instruct/rho"),
        ("--use_rho_correction False", "open-instruct/none:beta=0.05"),
        (
            "--rho_clamp_upper_bound 0 --rho_mask_lower_bound 0.5 --rho_mask_upper_bound 2 --rho_mask_sequence_level",
            "open-instruct/rho:clamp_upper=none,mask_lower=0.5,mask_upper=2,sequence_level=true,beta=0.05",
        ),
        (f"{CAP} 0.0 --use_vllm_logprobs true --beta 0", "open-instruct/none:use_vllm_logprobs=true"),
        (f"{CAP} 3", "open-instruct/rho:clamp_upper=3,beta=0.05"),
        ("--beta 0.1 --kl_estimator 0", "open-instruct/rho:beta=0.1,kl_estimator=0"),
        ("--beta 0.1 --kl_estimator kl3", "open-instruct/rho:beta=0.1"),
        ("--loss_fn cispo --loss_denominator 1024", "open-instruct/rho:loss_fn=cispo,loss_denominator=1024,beta=0.05"),
        ("--loss_denominator token --load_ref_policy false --beta 0.0", "open-instruct/rho"),
    ],
)
def test_flags(flags, spec, tmp_path):
    assert read(tmp_path, flags).recipe.spec == parse(spec).spec


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--use_vllm_logprobs true", "open-instruct takes it without a correction only"),
        ("--use_rho_correction False --rho_mask_upper_bound 2", "without use_rho_correction it has no effect"),
        ("--load_ref_policy false", "load_ref_policy is false, and beta is 0.05; open-instruct refuses both"),
        (f"{CAP} 2 --rho_clamp_upper_bound 3", "one is of earlier, one of later versions: keep one"),
        (f"{CAP} 2 --use_rho_correction false", "one is of earlier, one of later versions: keep one"),
        ("--rho_mask_upper_bound 0.9", "mask_upper must be above 1"),
        ("--rho_clamp_uper_bound 3", "Did you mean 'rho_clamp_upper_bound'?"),
        ("--loss_fn dppo", "loss_fn must be one of dapo, cispo"),
    ],
)
def test_refused_in_one_sentence(flags, sentence, tmp_path):
    with pytest.raises(UsageError) as error:
        read(tmp_path, flags)
    assert sentence in str(error.value)


def test_what_is_written():
    """open-instruct's 0 is no bound, and its KL term is turned off in so many words."""
    lines = emit(parse("open-instruct/rho:mask_upper=2"), "open-instruct").lines
    assert lines == (
        "--use_rho_correction true",
        "--rho_clamp_upper_bound 2.0",
        "--rho_clamp_lower_bound 0",
        "--rho_mask_lower_bound 0",
        "--rho_mask_upper_bound 2.0",
        "--rho_mask_sequence_level false",
        "--rho_mask_tv_divergence false",
        "--beta 0.0",
    )
