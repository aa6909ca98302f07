"""A framework's own configuration on the command line and in Python: ``--like`` of three commands, and ``--emit``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from iscope import analyze, replay
from iscope.cli.app import run
from iscope.errors import UsageError
from iscope.ledger import store
from iscope.model import Report
from iscope.recipes import DEFAULT_RECIPES, parse
from iscope.render import renderer
from tests.contract_cases import batch_of, ragged

CONFIGS = Path(__file__).parents[1] / "data" / "configs"
LIKE = f"trl:{CONFIGS / 'trl' / 'recipe.yaml'}"
SPEC = "trl/token_mask:clip_min=none,clip_max=3,epsilon_high=0.3,max_completion_length=8192"
LISTS = ragged(seed=3, lengths=(5, 9, 2, 7), spread=0.3)
BATCH = batch_of({name: values for name, values in LISTS.items() if name != "ref_logprobs"})


@pytest.fixture
def dump(tmp_path):
    file = tmp_path / "dump.parquet"
    names = ("trainer_logprobs", "inference_logprobs", "loss_mask", "advantage")
    pl.DataFrame({name: LISTS[name] for name in names}).write_parquet(file)
    return file


def test_it_stands_behind_none_and_is_marked():
    report = analyze(BATCH, like=LIKE)
    assert [recipe.spec for recipe in report.recipes[:3]] == ["none", SPEC, parse(DEFAULT_RECIPES[1]).spec]
    assert len(report.recipes) == len(DEFAULT_RECIPES) + 1
    assert [(recipe.named, recipe.like) for recipe in report.recipes[:2]] == [(False, ""), (True, LIKE)]
    assert report.recipes[1].why is None
    assert report.assumptions[0].startswith(f"{LIKE}: {SPEC} from use_vllm=true (line 4), ")
    again = Report.from_dict(json.loads(json.dumps(report.to_dict())))
    assert again == report
    assert "like" not in report.to_dict()["recipes"][0]


def test_the_terminal_marks_the_row():
    report = analyze(BATCH, like=LIKE)
    page = renderer("terminal")(report, width=120, verbose=False, color=False)
    rows = [line for line in page.splitlines() if line.startswith(("> ", ">trl"))]
    assert rows
    assert all("trl/token_mask" in line for line in rows)
    assert f"ASSUMED {LIKE}"[:40] in page


def test_a_recipe_of_the_default_list_is_not_there_twice(tmp_path):
    file = tmp_path / "args.json"
    file.write_text('{"use_vllm": true, "vllm_importance_sampling_clip_max": 3}')
    report = analyze(BATCH, like=f"trl:{file}")
    specs = [recipe.spec for recipe in report.recipes]
    assert specs.count("trl/sequence_mask:clip_min=none,clip_max=3") == 1
    assert specs.index("trl/sequence_mask:clip_min=none,clip_max=3") == 1


def test_it_stands_before_the_recipes_that_are_named():
    report = analyze(BATCH, like=[LIKE, f"prime-rl:{CONFIGS / 'prime_rl' / 'trainer.toml'}"], recipes=["none"])
    assert [recipe.name for recipe in report.recipes] == ["trl/token_mask", "prime-rl/icepop", "none"]


def test_the_same_figures_as_the_recipe_by_name():
    mine, named = analyze(BATCH, like=LIKE, recipes=[]).recipes[0], analyze(BATCH, recipes=[SPEC]).recipes[0]
    assert mine.figures == named.figures
    assert mine.framework == named.framework


def test_a_ledger_keeps_the_mark(tmp_path):
    analyze(BATCH, like=LIKE, ledger=tmp_path / "ledger")
    recipe = store.load(tmp_path / "ledger").plan.recipes[1]
    assert (recipe.spec, recipe.named, recipe.like) == (SPEC, True, LIKE)


def test_without_reference_logprobs_the_kl_term_stays_out():
    report = analyze(BATCH, like=f"trl:{CONFIGS / 'trl' / 'args.json'}")
    mine = report.recipes[1]
    assert mine.why is None
    assert mine.options["beta"] == 0
    assert any("the KL term is left out (beta 0.04 becomes 0)" in said for said in report.assumptions)
    assert mine.like


def test_with_reference_logprobs_it_stays():
    report = analyze(batch_of(LISTS), like=f"trl:{CONFIGS / 'trl' / 'args.json'}")
    assert report.recipes[1].options["beta"] == 0.04
    assert not any("left out" in said for said in report.assumptions)


def test_replay_in_python():
    mine, named = replay(BATCH, like=LIKE), replay(BATCH, recipe=SPEC)
    assert mine.recipe == named.recipe == SPEC
    assert mine.loss == named.loss
    for given in ({}, {"recipe": "none", "like": LIKE}):
        with pytest.raises(UsageError, match="exactly one recipe"):
            replay(BATCH, **given)


def test_analyze(dump, capfd):
    assert run(["analyze", str(dump), "--like", LIKE, "--format", "json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["recipes"][1]["spec"] == SPEC
    assert report["recipes"][1]["like"] == LIKE
    assert any(said.startswith(LIKE) for said in report["assumptions"])


def test_replay(dump, tmp_path, capfd):
    weights = tmp_path / "weights.parquet"
    assert run(["replay", str(dump), "--like", LIKE, "-o", str(weights)]) == 0
    said = capfd.readouterr().err
    assert f"{LIKE}: {SPEC[:30]}" in said
    assert pl.read_parquet(weights).height == 4
    assert run(["replay", str(dump), "--like", LIKE, "--recipe", "none", "-o", str(weights), "--force"]) == 2
    assert "exactly one recipe; 2 were given" in capfd.readouterr().err


@pytest.mark.parametrize("command", ["analyze", "replay", "recipes"])
def test_a_bad_configuration_is_one_sentence(command, dump, tmp_path, capfd):
    file = tmp_path / "args.yaml"
    file.write_text("vllm_importance_sampling_mode: token_msk\n")
    words = {"analyze": [str(dump)], "replay": [str(dump), "-o", str(tmp_path / "w.parquet")], "recipes": []}[command]
    assert run([command, *words, "--like", f"trl:{file}"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "args.yaml" in err
    assert "Did you mean 'token_mask'" in err


def test_the_recipe_of_a_configuration(capfd):
    assert run(["recipes", "--like", LIKE]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("trl/token_mask\n")
    assert "epsilon_high = 0.3" in out
    assert err.startswith(f"{LIKE}: trl/token_mask")


def test_lines_that_give_the_recipe_back(tmp_path, capfd):
    assert run(["recipes", "--like", f"verl:{CONFIGS / 'verl' / 'several_rejections.sh'}", "--emit", "verl"]) == 0
    file = tmp_path / "again.sh"
    file.write_text(capfd.readouterr().out)
    assert run(["recipes", "--like", f"verl:{file}", "--format", "json"]) == 0
    spec = json.loads(capfd.readouterr().out)["recipe"]["spec"]
    assert spec == "verl/bypass_ppo_clip_rs:option=token_k1,seq_max_k2,rs_threshold=0.6_1.6,2.5"


def test_lines_for_another_framework(capfd):
    assert run(["recipes", "icepop:0.5,5", "--emit", "trl"]) == 0
    out, err = capfd.readouterr()
    assert out.splitlines() == [
        "use_vllm: true",
        "vllm_importance_sampling_correction: true",
        "vllm_importance_sampling_mode: token_mask",
        "vllm_importance_sampling_clip_min: 0.5",
        "vllm_importance_sampling_clip_max: 5.0",
    ]
    assert err == "iscope: note: written as trl/token_mask:clip_min=0.5,clip_max=5.\n"


def test_lines_as_json(capfd):
    assert run(["recipes", "prime-rl/seq_mis", "--emit", "prime-rl", "--format", "json"]) == 0
    emitted = json.loads(capfd.readouterr().out)["emit"]
    assert emitted["settings"]["trainer.loss.type"] == "seq_mis"
    assert emitted["lines"][:2] == ["[trainer.loss]", 'type = "seq_mis"']


def test_what_cannot_be_written(capfd):
    assert run(["recipes", "trl/token_mask:0.5,2", "--emit", "skyrl"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "Nearest is skyrl/token_mask:token_low=0.5,token_high=2, but its weight is 1, not the token ratio." in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--emit", "trl"], "--emit takes one recipe"),
        (["none", "--like", LIKE], "not several of them"),
        (["none", "--emit", "trll"], "Did you mean 'trl'"),
        (["trl", "--emit", "trl"], "is a framework, not a recipe"),
    ],
)
def test_refused(words, said, capfd):
    assert run(["recipes", *words]) == 2
    assert said in capfd.readouterr().err


def test_reading_and_writing_need_no_torch():
    code = "import sys; from iscope.cli.app import run; code = run(sys.argv[1:]); print('torch' in sys.modules, code)"
    words = ["recipes", "--like", LIKE, "--emit", "trl"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "False 0", done.stderr
