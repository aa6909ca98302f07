"""OpenRLHF's scripts, under the names of 0.11.2 and of the versions before."""

from __future__ import annotations

from pathlib import Path

import pytest

from iscope.errors import UsageError
from iscope.recipes import parse
from iscope.recipes.configs.emit import emit
from iscope.recipes.configs.like import like

DATA = Path(__file__).parents[2] / "data" / "configs" / "openrlhf"
AT = "--algo.advantage.is_correction_"


def read(folder, *flags):
    file = folder / "run.sh"
    file.write_text("python3 -m openrlhf.cli.train_ppo_ray --train.seed 1 " + " ".join(flags) + "\n")
    return like(f"openrlhf:{file}")


@pytest.mark.parametrize(
    ("file", "spec"),
    [
        ("prorlv2.sh", "openrlhf/icepop:0.5,5,clip_eps_high=0.27"),
        ("prorlv2_of_0_10.sh", "openrlhf/icepop:0.5,5,clip_eps_high=0.27"),
        ("gspo_of_0_9.sh", "openrlhf/gspo:clip_eps_low=0.0003,clip_eps_high=0.0004"),
        ("flash_reinforce.sh", "openrlhf/seq_binary_kl:0.005,dual_clip=10,token_level_loss=false"),
    ],
)
def test_real_files(file, spec):
    assert like(f"openrlhf:{DATA / file}").recipe.spec == parse(spec).spec


@pytest.mark.parametrize(
    ("flags", "spec"),
    [
        ([], "openrlhf/none"),
        ([f"{AT}level off"], "openrlhf/none"),
        (["--actor.policy_loss_type gspo"], "openrlhf/none:policy_loss_type=gspo"),
        ([f"{AT}level token"], "openrlhf/icepop"),
        ([f"{AT}level token", f"{AT}mode clip", f"{AT}threshold 3"], "openrlhf/tis:0,3"),
        ([f"{AT}level seq", f"{AT}threshold 0.99 1.01"], "openrlhf/seq-mask-tis:0.99,1.01"),
        ([f"{AT}level token", f"{AT}gating tv", f"{AT}threshold 0 0.1"], "openrlhf/token_tv:0.1"),
        ([f"{AT}level seq", "--actor.policy_loss_type gspo", f"{AT}threshold 9"], "openrlhf/gspo"),
        ([f"{AT}enable"], "openrlhf/tis"),
        ([f"{AT}enable", f"{AT}type seq-mask-tis"], "openrlhf/seq-mask-tis"),
        (["--enable_vllm_is_correction", "--use_icepop"], "openrlhf/icepop"),
        (["--actor.eps_clip 0.1"], "openrlhf/none:clip_eps_low=0.1,clip_eps_high=0.1"),
        (["--actor.eps_clip 0.1", "--actor.eps_clip_low_high 0.2 0.3"], "openrlhf/none:clip_eps_high=0.3"),
    ],
)
def test_flags(flags, spec, tmp_path):
    assert read(tmp_path, *flags).recipe.spec == parse(spec).spec


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ([f"{AT}level geo"], "must be one of false, token, seq"),
        ([f"{AT}threshold 0.5 2"], "nothing is corrected then: set algo.advantage.is_correction_level"),
        ([f"{AT}level seq", f"{AT}mode clip"], "OpenRLHF cuts the ratios of tokens only: take mask"),
        ([f"{AT}level token", f"{AT}mode clip", f"{AT}gating tv"], "OpenRLHF cuts by the ratio only: take mask"),
        (
            [f"{AT}level seq", f"{AT}gating binary_kl"],
            "one upper bound, not algo.advantage.is_correction_threshold 0.5 5.0: set",
        ),
        ([f"{AT}level token", f"{AT}enable"], "is_correction_enable is of earlier versions: drop it"),
        ([f"{AT}level token", f"{AT}threshold 1 2 3"], "is_correction_threshold takes one number or two, not 1,2,3"),
        ([f"{AT}level token", f"{AT}threshold 5 0.5"], "low must not exceed high"),
        ([f"{AT}levels token"], "Did you mean 'algo.advantage.is_correction_level'?"),
    ],
)
def test_refused_in_one_sentence(flags, sentence, tmp_path):
    with pytest.raises(UsageError) as error:
        read(tmp_path, *flags)
    assert sentence in str(error.value)
    assert str(error.value).startswith(f"{tmp_path / 'run.sh'}: ")


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ("openrlhf/tis:0.5,5", (f"{AT}level token", f"{AT}mode clip", f"{AT}gating ratio", f"{AT}threshold 0.5 5.0")),
        (
            "openrlhf/seq_tv:0.05,clip_eps_high=0.27",
            (
                f"{AT}level seq",
                f"{AT}mode mask",
                f"{AT}gating tv",
                f"{AT}threshold 0.05",
                "--actor.eps_clip_low_high 0.2 0.27",
            ),
        ),
        ("openrlhf/gspo", ("--actor.policy_loss_type gspo", f"{AT}level token")),
    ],
)
def test_what_is_written(spec, lines):
    assert emit(parse(spec), "openrlhf").lines == lines
