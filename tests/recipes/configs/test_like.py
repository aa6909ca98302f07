"""Frameworks' own configurations: which recipe they make, and what is said where they make none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from iscope.errors import UsageError
from iscope.recipes.configs.like import like

DATA = Path(__file__).parents[2] / "data" / "configs"

EXAMPLES = {
    "trl:trl/recipe.yaml": (
        "trl/token_mask:clip_min=none,clip_max=3,epsilon_high=0.3,max_completion_length=8192",
        ["vllm_importance_sampling_mode=token_mask (line 18)", "epsilon_high=0.3 (line 15)", "13 other settings"],
    ),
    "trl:trl/args.json": (
        "trl/token_truncate:clip_min=none,clip_max=2,loss_type=dr_grpo,epsilon_high=0.28,beta=0.04,"
        "max_completion_length=1024",
        ["vllm_importance_sampling_clip_max=2.0", "7 other settings"],
    ),
    "trl:trl/before_1_6.json": (
        "trl/sequence_mask:clip_min=none,clip_max=3,use_bias_correction_kl=false",
        ["vllm_importance_sampling_cap=3.0"],
    ),
    "trl:trl/launch.sh": (
        "trl/sequence_truncate:clip_min=0.5,clip_max=5,loss_type=grpo,epsilon_high=0.28,beta=0.01",
        ["beta=0.01 (line 10)", "by default vllm_importance_sampling_correction=true"],
    ),
    "trl:trl/train.py": (
        "trl/token_truncate:clip_min=none,clip_max=2,loss_type=dr_grpo,epsilon_high=0.28,max_completion_length=1024",
        ["vllm_importance_sampling_mode=token_truncate (line 27)", "max_completion_length=1024 (line 23)"],
    ),
    "prime-rl:prime_rl/no_loss_section.toml": (
        "prime-rl/ipo:eps=0.3,max_importance_ratio=10000",
        ["from no setting of the file; ", " absent, at their default", "14 other settings"],
    ),
    "prime-rl:prime_rl/default_2026_08.toml": (
        "prime-rl/default@2026-08:dppo_mask_low=0.2,dppo_mask_high=0.28,kl_tau=0.001",
        ["trainer.loss.dppo_mask_high=0.28"],
    ),
    "prime-rl:prime_rl/trainer.toml": (
        "prime-rl/icepop:ratio_low=0.5,ratio_high=5",
        ["loss.type=icepop, loss.ratio_low=0.5, loss.ratio_high=5.0"],
    ),
    "verl:verl/rloo_sequence_weights.sh": (
        "verl/bypass_pg:level=sequence,is_threshold=2,batch_normalize=true,option=none,rs_threshold=none",
        ["algorithm.rollout_correction.rollout_is=sequence (line 40)", "23 other settings"],
    ),
    "verl:verl/several_rejections.sh": (
        "verl/bypass_ppo_clip_rs:option=token_k1,seq_max_k2,rs_threshold=0.6_1.6,2.5",
        ["algorithm.rollout_correction.rollout_is=token (line 40): no part of verl/bypass_ppo_clip_rs"],
    ),
    "verl:verl/config.yaml": (
        "verl/rollout_correction:level=token,is_threshold=0.5_5,batch_normalize=false,option=seq_mean_k3,"
        "rs_threshold=0.01,clip_ratio_high=0.28,clip_ratio_c=10,loss_agg_mode=seq-mean-token-mean,use_kl_loss=true",
        ["rollout_rs_threshold=0.01 (line 11)"],
    ),
    "verl:verl/tis_cap.sh": (
        "verl/rollout_is:level=token,threshold=2,batch_normalize=false,clip_ratio_high=0.28,clip_ratio_c=10",
        ["actor_rollout_ref.actor.tis_imp_ratio_cap=2.0 (line 6)"],
    ),
    "verl:verl/first_names.sh": (
        "verl/rollout_is:level=token,threshold=2,batch_normalize=false",
        ["algorithm.rollout_is_level=token (line 5)"],
    ),
    "skyrl:skyrl/geometric_fully_async.sh": (
        "skyrl/geometric:geo_mask_low=0.99,geo_mask_high=1.01,loss_type=rollout_is,max_seq_len=40960",
        ["trainer.algorithm.off_policy_correction.sequence_mask_metric=geometric (line 38)"],
    ),
    "skyrl:skyrl/cispo.sh": ("skyrl/none:loss_type=cispo", ["trainer.algorithm.policy_loss_type=cispo (line 14)"]),
    "skyrl:skyrl/tis.yaml": (
        "skyrl/tis:ratio_type=token,token_clip=2,seq_clip=5,eps_clip_high=0.28,max_seq_len=262144",
        ["trainer.algorithm.off_policy_correction.tis_ratio_type=token (line 11)"],
    ),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples(example):
    framework, _, name = example.partition(":")
    spec, said = EXAMPLES[example]
    found = like(f"{framework}:{DATA / name}")
    assert found.recipe.spec == spec
    assert found.recipe.named
    assert found.recipe.like == f"{framework}:{DATA / name}"
    for text in said:
        assert any(text in sentence for sentence in found.said), found.said


def test_every_example_is_read():
    names = {path.parent.name for path in DATA.glob("*/*")}
    mine = {path for path in DATA.glob("*/*") if path.parent.name in ("trl", "prime_rl", "verl", "skyrl")}
    assert {str(path.relative_to(DATA)) for path in mine} == {name.partition(":")[2] for name in EXAMPLES}
    assert names >= {"trl", "prime_rl", "verl", "skyrl"}


def from_text(tmp_path, framework, text, name):
    (tmp_path / name).write_text(text)
    return like(f"{framework}:{tmp_path / name}")


VLLM = "use_vllm: true\n"
IS = "algorithm.rollout_correction.rollout_is"
REFUSED = {
    "a slip below a section": ("trl", "a.yaml", VLLM + "vllm_importance_sampling_clipmax: 2\n", "Did you mean"),
    "a slip": ("trl", "a.yaml", "max_completion_lenght: 2\n", "'max_completion_length'"),
    "no such mode": ("trl", "a.yaml", "vllm_importance_sampling_mode: token_msk\n", "Did you mean 'token_mask'"),
    "no such loss": ("trl", "a.yaml", "loss_type: grp\n", "loss_type must be one of"),
    "no vLLM": ("trl", "a.yaml", "use_vllm: false\nvllm_importance_sampling_mode: token_mask\n", "use_vllm is false"),
    "correction off": (
        "trl",
        "a.json",
        '{"vllm_importance_sampling_correction": false, "vllm_importance_sampling_clip_max": 2}',
        "has no effect",
    ),
    "bounds in the wrong order": (
        "trl",
        "a.yaml",
        "vllm_importance_sampling_clip_min: 5\n",
        "clip_min must be below clip_max",
    ),
    "two names of one setting": (
        "trl",
        "a.yaml",
        "vllm_importance_sampling_cap: 5\nvllm_importance_sampling_clip_max: 2\n",
        "two names of one setting",
    ),
    "not a number": ("trl", "a.yaml", "epsilon: lots\n", "epsilon must be a number, not 'lots'"),
    "sections elsewhere": ("verl", "a.sh", f"python3 x {IS}_treshold=2\n", "Did you mean"),
    "without weights": ("verl", "a.sh", f"python3 x {IS}_batch_normalize=true\n", "rollout_is is null"),
    "without its bound": ("verl", "a.sh", "python3 x algorithm.rollout_correction.rollout_rs=token_k1\n", "threshold"),
    "a number that looks like a pair": (
        "verl",
        "a.yaml",
        "algorithm: {rollout_correction: {rollout_is: token, rollout_is_threshold: 0.5_2}}\n",
        "is the number 0.52 in YAML",
    ),
    "geometric weights of verl 0.6": (
        "verl",
        "a.sh",
        "x algorithm.rollout_is=true algorithm.rollout_is_level=geometric algorithm.rollout_is_threshold=2\n",
        "iscope replays no correction of verl",
    ),
    "a value that must be run for": ("trl", "a.sh", "x --epsilon $(cat eps)\n", "not told by this file alone"),
    "a value of the environment": ("trl", "a.yaml", "epsilon: ${oc.env:EPS}\n", "not told by this file alone"),
    "a value that Python works out": ("trl", "a.py", "GRPOConfig(epsilon=eps())\n", "not told by this file alone"),
    "a name with two values": ("trl", "a.py", "E = 1\nE = 2\nGRPOConfig(epsilon=E)\n", "not told by this file alone"),
    "two calls": ("trl", "a.py", "GRPOConfig(epsilon=.1)\nGRPOConfig(epsilon=.2)\n", "given twice"),
    "twice corrected": (
        "skyrl",
        "a.sh",
        "x trainer.algorithm.policy_loss_type=cispo trainer.algorithm.cispo.cispo_anchor=rollout "
        "trainer.algorithm.off_policy_correction.tis_ratio_type=token\n",
        "SkyRL refuses both",
    ),
    "a loss that is not replayed": ("skyrl", "a.sh", "x trainer.algorithm.policy_loss_type=clip_cov\n", "at random"),
    "a type of its own": ("prime-rl", "a.toml", '[loss]\ntype = "custom"\n', "iscope replays no correction"),
    "both names of the threshold": (
        "prime-rl",
        "a.toml",
        "[trainer.loss]\neps = 0.3\nipo_threshold = 0.2\n",
        "eps is its newer name",
    ),
    "an option of another type": ("prime-rl", "a.toml", "[loss]\nratio_hihg = 3\n", "Did you mean 'loss.ratio_high'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, tmp_path):
    framework, name, text, said = REFUSED[case]
    with pytest.raises(UsageError) as error:
        from_text(tmp_path, framework, text, name)
    message = str(error.value)
    assert said in message
    assert name in message
    assert message.endswith((".", "?"))
    assert "\n" not in message


@pytest.mark.parametrize("text", ["trl", "trl:", ":a.json", "tlr:a.json", ""])
def test_no_framework_or_file(text):
    with pytest.raises(UsageError, match=r"FRAMEWORK:FILE|no configuration of a framework"):
        like(text)


SPELLINGS = {
    "a.yaml": "use_vllm: True\nepsilon: 3e-1\nbeta: '1e-2'\nvllm_importance_sampling_clip_min: ~\n",
    "a.json": '{"use_vllm": "true", "epsilon": 0.3, "beta": "0.01", "vllm_importance_sampling_clip_min": null}',
    "a.toml": 'use-vllm = true\nepsilon = 0.3\nbeta = 0.01\nvllm_importance_sampling_clip_min = "None"\n',
    "a.sh": "E=.3\nx --use_vllm --epsilon=$E --beta '1e-2' \\\n  --vllm-importance-sampling-clip-min None\n",
    "a.args": "use_vllm=true\nepsilon=0.3\n--beta\n--beta 0.01\n",
    "config.yaml": "use_vllm:\n  desc: null\n  value: true\nepsilon:\n  desc: null\n  value: 0.3\nbeta:\n  desc: null\n"
    "  value: 0.01\n",
    "a.py": "E = 0.3\nargs = trl.GRPOConfig(use_vllm=True, epsilon=E, beta=1e-2, lr=f(2), **more)\n",
    "bare": "use_vllm: true\nepsilon: 0.3\nbeta: 0.01\n",
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_one_configuration_in_every_spelling(name, tmp_path):
    found = from_text(tmp_path, "trl", SPELLINGS[name], name)
    assert found.recipe.spec == "trl/sequence_mask:clip_min=none,clip_max=3,epsilon=0.3,beta=0.01"


def test_references_between_settings(tmp_path):
    text = (
        "trainer: {algorithm: {eps_clip_low: 0.1, eps_clip_high: '${.eps_clip_low}', "
        "off_policy_correction: {tis_ratio_type: token, token_tis_ratio_clip_high: '${caps.high}'}}}\n"
        "caps: {high: '${oc.select:caps.other,4}'}\n"
    )
    found = from_text(tmp_path, "skyrl", text, "a.yaml")
    assert found.recipe.options["eps_clip_high"] == 0.1
    assert found.recipe.options["token_clip"] == 4


def test_references_in_a_circle(tmp_path):
    with pytest.raises(UsageError, match="not told by this file alone"):
        from_text(tmp_path, "trl", "epsilon: ${beta}\nbeta: ${epsilon}\n", "a.yaml")


def test_later_overrides_win_and_a_tilde_takes_away(tmp_path):
    text = f"x {IS}=token\n y {IS}=sequence ++{IS}_threshold=3 trainer.use_v1=false ~trainer.use_v1\n"
    found = from_text(tmp_path, "verl", text, "a.sh")
    assert found.recipe.spec == "verl/rollout_is:level=sequence,threshold=3,batch_normalize=false"


def test_what_is_not_replayed_is_said(tmp_path):
    found = from_text(tmp_path, "trl", "use_vllm: true\ntop_entropy_quantile: 0.2\n", "a.yaml")
    assert any("top_entropy_quantile=0.2 is not replayed" in sentence for sentence in found.said)


HOSTILE = {
    "python.yaml": "epsilon: !!python/object/apply:os.system ['touch {mark}']\n",
    "ignored.yaml": "lr: !!python/object/apply:os.system ['touch {mark}']\n",
    "key.yaml": "? !!python/object/apply:os.system ['touch {mark}']\n: 1\n",
    "list.yaml": "a: [1, !!python/object/apply:os.system ['touch {mark}']]\n",
    "tag.yaml": "epsilon: !custom 0.2\n",
    "two.yaml": "epsilon: 0.1\n---\nepsilon: 0.2\n",
    "twice.yaml": "epsilon: 0.1\nepsilon: 0.2\n",
    "twice.json": '{{"epsilon": 0.1, "epsilon": 0.2}}',
    "deep.json": '{{"a":' * 3000 + "1" + "}}" * 3000,
    "deep.yaml": "".join(" " * level + "a:\n" for level in range(60)) + " " * 60 + "a: 1\n",
    "bomb.yaml": "a0: &a0 {{x: 1, y: 2}}\n"
    + "".join(f"a{level}: &a{level} {{{{p: *a{level - 1}, q: *a{level - 1}}}}}\n" for level in range(1, 30)),
    "bomb_without_leaves.yaml": "a0: &a0 {{}}\n"
    + "".join(f"a{level}: &a{level} {{{{p: *a{level - 1}, q: *a{level - 1}}}}}\n" for level in range(1, 30)),
    "bomb_of_merges.yaml": "a0: &a0 {{x: 1}}\n"
    + "".join(f"a{level}: &a{level} {{{{<<: [*a{level - 1}, *a{level - 1}]}}}}\n" for level in range(1, 30)),
    "digits.json": '{{"epsilon": ' + "9" * 5000 + "}}",
    "digits.toml": "epsilon = " + "9" * 5000,
    "broken.toml": "[loss\ntype = 1\n",
    "quote.sh": "x --epsilon '0.2\n",
    "broken.py": "GRPOConfig(\n",
    "nothing.py": "import os\nos.system('touch {mark}')\n",
    "deep.py": "GRPOConfig(epsilon=" + "(" * 5000 + ")" * 5000 + ")\n",
    "nothing.sh": "echo hello\n",
    "empty.yaml": "\n",
    "list_on_top.json": "[1, 2]",
    "scalar.yaml": "hello\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name, tmp_path):
    mark = tmp_path / "executed"
    with pytest.raises(UsageError) as error:
        from_text(tmp_path, "trl", HOSTILE[name].format(mark=mark), name)
    assert name in str(error.value)
    assert len(str(error.value)) < 1000
    assert not mark.exists()


@pytest.mark.parametrize(
    ("framework", "name", "text"),
    [
        ("verl", "a.json", '{"actor_rollout_ref": {"actor": {"tis_imp_ratio_cap": %s}}}' % ("9" * 400)),
        ("prime-rl", "a.toml", f"[trainer.loss]\ntype = 'icepop'\nratio_high = 0x{'f' * 6000}\n"),
        ("slime", "a.toml", f"custom_config_path = 0x{'f' * 6000}\n"),
    ],
)
def test_whole_numbers_that_no_float_holds(tmp_path, framework, name, text):
    with pytest.raises(UsageError, match=r"a\.(json|toml)"):
        from_text(tmp_path, framework, text, name)


def test_a_script_is_not_run(tmp_path):
    mark = tmp_path / "executed"
    python = (
        f"import os\nos.system('touch {mark}')\nGRPOConfig(use_vllm=True, lr=os.system('touch {mark}'), epsilon=0.3)\n"
    )
    assert from_text(tmp_path, "trl", python, "a.py").recipe.options["epsilon"] == 0.3
    text = f"#!/bin/bash\ntouch {mark}\nX=$(touch {mark})\nx --use_vllm true --epsilon 0.3 --note `touch {mark}`\n"
    assert from_text(tmp_path, "trl", text, "a.sh").recipe.options["epsilon"] == 0.3
    assert not mark.exists()


def test_files_that_are_no_configurations(tmp_path):
    (tmp_path / "binary.bin").write_bytes(bytes(range(256)))
    (tmp_path / "large.yaml").write_text("a: 1\n" * 300_000)
    for name, said in (("binary.bin", "not a text file"), ("large.yaml", "1 MiB"), ("absent.json", "no such file")):
        with pytest.raises(UsageError, match=said):
            like(f"trl:{tmp_path / name}")
    with pytest.raises(UsageError, match="a folder"):
        like(f"trl:{tmp_path}")


def test_no_torch():
    code = f"import sys; from iscope.recipes.configs.like import like; like('trl:{DATA / 'trl' / 'args.json'}'); "
    run = subprocess.run([sys.executable, "-c", code + "print('torch' in sys.modules)"], capture_output=True, text=True)
    assert run.stdout.strip() == "False", run.stderr


def test_a_full_dump_of_arguments(tmp_path):
    """TRL's own dump names every argument, null where it is not set, deprecated ones too."""
    arguments = json.loads((DATA / "trl" / "args.json").read_text()) | {"use_vllm": False}
    del arguments["vllm_importance_sampling_mode"], arguments["vllm_importance_sampling_clip_max"]
    found = from_text(tmp_path, "trl", json.dumps(arguments), "args.json")
    assert found.recipe.name == "trl/none"


def test_a_cap_below_zero_that_stands_by_default(tmp_path):
    (tmp_path / "a.sh").write_text("x trainer.algorithm.use_tis=true\n")
    assert like(f"skyrl:{tmp_path}/a.sh").recipe.spec == "skyrl/tis:ratio_type=token,token_clip=-1,seq_clip=5"
