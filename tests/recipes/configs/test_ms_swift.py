"""ms-swift's flags, its YAML, and the arguments that a run saves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iscope.errors import UsageError
from iscope.recipes import parse
from iscope.recipes.configs.emit import emit
from iscope.recipes.configs.like import like

DATA = Path(__file__).parents[2] / "data" / "configs" / "ms_swift"
MODE, BOUND = "rollout_importance_sampling_mode", "rollout_importance_sampling_threshold"


def read(folder, **values):
    file = folder / "args.json"
    file.write_text(json.dumps({"rlhf_type": "grpo", **values}))
    return like(f"ms-swift:{file}")


@pytest.mark.parametrize(
    ("file", "spec"),
    [
        ("sapo.sh", "ms-swift/none:loss_type=sapo,beta=0.001,max_completion_length=4096"),
        # RLOO with its KL term in the reward.
        ("rloo.sh", "ms-swift/none:epsilon=0.0003,epsilon_high=0.0004,max_completion_length=1024"),
        (
            "token_truncate.yaml",
            "ms-swift/token_truncate:2,loss_type=dapo,epsilon_high=0.28,off_policy_sequence_mask_delta=0.05,"
            "max_completion_length=4096",
        ),
    ],
)
def test_real_files(file, spec):
    assert like(f"ms-swift:{DATA / file}").recipe.spec == parse(spec).spec


@pytest.mark.parametrize(
    ("values", "spec"),
    [
        ({}, "ms-swift/none:beta=0.04"),
        ({"beta": 0.0}, "ms-swift/none"),
        *(
            ({MODE: mode, "beta": 0}, f"ms-swift/{mode}")
            for mode in ("token_mask", "sequence_truncate", "sequence_mask")
        ),
        ({MODE: "token_mask", BOUND: 5}, "ms-swift/token_mask:5,beta=0.04"),
        (
            {MODE: None, "loss_type": ["cispo"], "epsilon_high": 5.0},
            "ms-swift/none:loss_type=cispo,epsilon_high=5,beta=0.04",
        ),
        ({"beta": 0.1, "kl_in_reward": True}, "ms-swift/none"),
        ({"beta": 0.1, "advantage_estimator": "reinforce_plus_plus"}, "ms-swift/none"),
        ({"beta": 0.1, "advantage_estimator": "rloo", "kl_in_reward": False}, "ms-swift/none:beta=0.1"),
        ({"loss_type": "fipo", "fipo_clip_range": 0}, "ms-swift/none:loss_type=fipo,fipo_clip_range=none,beta=0.04"),
        ({"max_new_tokens": 2048, "beta": 0}, "ms-swift/none:max_completion_length=2048"),
    ],
)
def test_settings(values, spec, tmp_path):
    assert read(tmp_path, **values).recipe.spec == parse(spec).spec


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({MODE: "token_mask", "use_vllm": False}, "without vLLM ms-swift has nothing to compare"),
        ({BOUND: 5.0}, "without a mode the bound has no effect: set one, or take it out"),
        ({MODE: "tokens_mask"}, "Did you mean 'token_mask'?"),
        ({MODE: "token_mask", "rollout_importance_sampling_treshold": 5}, f"Did you mean '{BOUND}'?"),
        ({MODE: "token_mask", BOUND: 0}, "threshold must be above 0"),
        ({"loss_type": "sigmoid"}, "loss_type must be one of grpo"),
    ],
)
def test_refused_in_one_sentence(values, sentence, tmp_path):
    with pytest.raises(UsageError) as error:
        read(tmp_path, **values)
    assert sentence in str(error.value)


def test_what_is_written():
    """The KL term is turned off in so many words: left out, ms-swift would add it."""
    assert emit(parse("ms-swift/sequence_mask:2,loss_type=dapo"), "ms-swift").lines == (
        "--use_vllm true",
        f"--{MODE} sequence_mask",
        f"--{BOUND} 2.0",
        "--loss_type dapo",
        "--beta 0.0",
    )
