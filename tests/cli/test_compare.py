"""``iscope compare`` as a user runs it."""

from __future__ import annotations

import json

import pytest

from iscope.cli.app import run


def words(sample, dump="engine_int8", trainer="trainer_bf16"):
    return ["compare", "--trainer", f"{sample / dump / trainer}.parquet", "--vllm", f"{sample / dump / 'vllm.parquet'}"]


SWEEP = ["--recipe", "none", "--recipe", "trl/token_mask", "--sweep", "clip_max=1.5,2,3,5", "--sweep", "clip_min=.2,.5"]


def test_the_page_says_what_to_run_and_why(sample, capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert run([*words(sample), *SWEEP]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert all(len(line) <= 100 for line in lines)
    assert "ADVICE no mask repairs this: cut lag or gap" in lines
    assert "    vllm_importance_sampling_mode: token_mask" in lines
    assert "SETTINGS 9 compared" in lines
    assert sum(line.startswith("> trl/token_mask") for line in lines) >= 1


@pytest.mark.parametrize("width", [40, 60, 80, 160])
def test_at_any_width(width, sample, capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    assert run([*words(sample, "train_async", "trainer_fp32"), *SWEEP]) == 0
    out, _ = capfd.readouterr()
    assert max(map(len, out.splitlines())) <= width
    assert "BY LAG" in out


def test_many_settings_are_cut_and_json_has_all(sample, capfd):
    sweep = ["--recipe", "trl/token_mask", "--sweep", "clip_max=1.5:9:10", "--sweep", "clip_min=0.1:0.9:9"]
    assert run([*words(sample), *sweep]) == 0
    out, _ = capfd.readouterr()
    assert "of 90 settings not shown; --verbose and JSON have all" in " ".join(out.split())
    assert run([*words(sample), *sweep, "--format", "json"]) == 0
    report = json.loads(capfd.readouterr()[0])
    assert report["schema"] == {"name": "iscope.report", "version": 1}
    assert len(report["recipes"]) == report["settings"]["tried"] == 90
    assert report["advice"]["rule"] == "no_mask_repairs"
    assert {point["spec"] for point in report["front"]} <= {entry["spec"] for entry in report["recipes"]}
    assert report["provenance"]["plan"]["recipes"] == [entry["spec"] for entry in report["recipes"]]


def test_another_dump(sample, capfd):
    other = ["--against-trainer", f"{sample / 'engine_int8' / 'trainer_fp32.parquet'}"]
    assert run([*words(sample), *other, "--recipe", "none"]) == 0
    out, _ = capfd.readouterr()
    assert "96 rollouts of both have the same rollout_id" in " ".join(out.split())
    assert "CHANGED k3 is 0.0377 nats per token here and 0.0369 there" in " ".join(out.split())
    assert "FIGURE" in out
    assert "ADVICE" not in out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--sweep", "clip_mx=2", "--recipe", "trl/token_mask"], "no recipe has the option 'clip_mx'"),
        (["--sweep", "clip_max=2", "--recipe", "none"], "no recipe has the option 'clip_max'"),
        (["--require", "gradient_left"], "a requirement is FIGURE and a bound"),
        (["--require", "gradient_left.al > 0.5"], "Did you mean 'gradient_left.all'"),
        (["--rank-by", "nothing"], "no setting has a figure 'nothing'"),
        (["--emit", "trll"], "Did you mean 'trl'"),
        (["--against", "x.parquet", "--against-trainer", "y.parquet"], "give it, or --against-trainer"),
        (["--against-trainer", "y.parquet", "--sweep", "clip_max=2"], "with another dump"),
    ],
)
def test_usage_errors(more, said, sample, capfd):
    recipes = [] if "--recipe" in more else ["--recipe", "trl/token_mask"]
    assert run([*words(sample), *recipes, *more]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err


def test_a_dump_that_is_not_there(sample, capfd):
    assert run([*words(sample), "--recipe", "none", "--against", "nowhere.parquet", "--format", "json"]) == 3
    out, err = capfd.readouterr()
    assert "nowhere.parquet" in err
    assert json.loads(out)["error"]["kind"] == "data"


def test_what_was_required_is_counted(sample, capfd):
    assert run([*words(sample), *SWEEP, "--format", "json"]) == 0
    every = json.loads(capfd.readouterr()[0])["recipes"]
    met = sum(entry["gradient_left"]["all"]["value"] >= 0.95 for entry in every)
    assert 0 < met < 9
    require = ["--require", "gradient_left.all >= 95%", "--rank-by", "product_left"]
    assert run([*words(sample), *SWEEP, *require]) == 0
    out, _ = capfd.readouterr()
    assert f"9 compared; {met} meet gradient_left.all >= 95%; best product_left first" in " ".join(out.split())


def test_none_meets_the_requirement(sample, capfd):
    assert run([*words(sample), *SWEEP, "--require", "gradient_left.all >= 5"]) == 0
    out, _ = capfd.readouterr()
    assert "9 compared; 0 meet" in " ".join(out.split())
