"""``iscope.check``: the same on a dump, on its report and on the saved report, by the command line and from Python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import iscope
from iscope.cli.app import run
from iscope.gates import Config
from iscope.model.check import FAIL, PASS
from iscope.render.check import RENDERERS
from tests.gates.dumps import dump

ROOT = Path(__file__).resolve().parent.parent.parent
MASK = "trl/token_mask:clip_min=0.5,clip_max=2"
GATES = """
defaults = true

[[gates]]
figure = "breakdowns.env[*].k3"
max = 0.001

[[gates]]
figure = "breakdowns.step[*].k3"
max_growth = 1.5
reason = "it drifts"

[[gates]]
figure = "recipes[trl/token_mask:0.5,2].gradient_left.all"
min = 0.99
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dumps")
    for name, made in (
        ("good", dump()),
        ("again", dump(seed=1)),
        ("wide", dump(2.0, seed=1)),
        ("drift", dump([1, 1, 1, 1.5, 2, 2], seed=1)),
        ("cold", dump(seed=1, temperature=0.7)),
    ):
        made.write_parquet(folder / f"{name}.parquet")
    (folder / "iscope.toml").write_text(GATES)
    assert iscope.check(folder / "good.parquet", gates=folder / "iscope.toml", write_baseline=folder / "base.json")
    return folder


@pytest.fixture
def here(files, monkeypatch):
    monkeypatch.chdir(files)
    return files


def without_provenance(result):
    found = result if isinstance(result, dict) else result.to_dict()
    return {name: value for name, value in found.items() if name != "provenance"}


@pytest.mark.parametrize(("name", "code"), [("again", 0), ("wide", 1), ("drift", 1)])
def test_the_command_and_python_give_the_same_and_the_same_again(here, capfd, name, code):
    words = ["check", f"{name}.parquet", "--baseline", "base.json", "--format", "json"]
    assert run(words) == code
    first = capfd.readouterr().out
    assert run(words) == code
    assert capfd.readouterr().out == first
    result = iscope.check(f"{name}.parquet", baseline="base.json")
    assert without_provenance(json.loads(first)) == without_provenance(result)
    assert bool(result) is (code == 0)
    named = iscope.check(f"{name}.parquet", baseline="base.json", gates="iscope.toml")
    assert without_provenance(named) == without_provenance(result)


def test_which_gates_a_wider_and_a_drifting_dump_break(here):
    wide, drift = (iscope.check(f"{name}.parquet", baseline="base.json") for name in ("wide", "drift"))
    broken = {(gate.figure, gate.form) for gate in wide.failures}
    assert {(f"mismatch.by_p[{bucket}].k3", "max_ratio") for bucket in ("0-0.1", "0.1-0.5", "0.5-0.9")} <= broken
    assert {("breakdowns.env[code].k3", "max"), ("breakdowns.env[math].k3", "max")} <= broken
    assert ("breakdowns.step[*].k3", "max_growth") not in broken
    (trend,) = [gate for gate in drift.failures if gate.form == "max_growth"]
    assert trend.compared.value > 2
    assert trend.compared.low > 1.5
    assert trend.reason == "it drifts"


def test_a_report_and_a_saved_report_give_the_same_as_the_dump(here, tmp_path):
    report = iscope.analyze("wide.parquet", recipes=["none", MASK], by=["env"])
    saved = tmp_path / "report.json"
    saved.write_text(json.dumps(report.to_dict()), encoding="utf-8")
    expected = without_provenance(iscope.check("wide.parquet", baseline="base.json"))
    assert without_provenance(iscope.check(report, baseline="base.json")) == expected
    assert without_provenance(iscope.check(saved, baseline="base.json")) == expected


def test_a_gate_of_the_users_fails_where_the_report_lacks_its_figure(here, tmp_path):
    report = iscope.analyze("good.parquet", recipes=["none"])
    result = iscope.check(report)
    assert {gate.figure for gate in result.failures} == {
        "breakdowns.env[*].k3",
        "recipes[trl/token_mask:0.5,2].gradient_left.all",
    }
    lacking = dump().drop("env", "advantage")
    said = {gate.figure: gate.message for gate in iscope.check(lacking).failures}
    assert "the report has no breakdown by env" in said["breakdowns.env[*].k3"]
    assert "advantage" in said[f"recipes[{MASK}].gradient_left.all"]


def test_default_gates_look_only_at_what_the_dump_has(here):
    bare = dump().select("trainer_logprobs", "inference_logprobs")
    result = iscope.check(bare, gates="default")
    assert result.passed
    assert "there is no baseline" in result.notes[0]
    assert str(result).startswith("iscope check · ")
    assert "mismatch.variance_ratio" not in {gate.figure for gate in result.gates}
    assert "mismatch.variance_ratio" in {gate.figure for gate in iscope.check(dump(), gates="default").gates}


def test_a_saved_report_needs_no_torch(here, tmp_path):
    saved = tmp_path / "report.json"
    saved.write_text(json.dumps(iscope.analyze("good.parquet", recipes=["none"]).to_dict()), encoding="utf-8")
    code = (
        "import sys; from iscope.cli.app import run\n"
        f"code = run(['check', {str(saved)!r}, '--gates', 'default', '-q'])\n"
        "print(code, 'torch' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines()[-1] == "0 False", done.stderr
    assert done.stdout.startswith("CHECK PASS: 0 failed")


def test_exit_codes(here, capfd):
    assert run(["check", "wide.parquet", "--baseline", "base.json", "--exit-zero", "-q"]) == 0
    assert capfd.readouterr().out.startswith("CHECK FAIL: ")
    assert run(["check", "nothere.parquet"]) == 3
    assert run(["check", "good.parquet", "--gates", "nothere.toml"]) == 2
    assert run(["check"]) == 2
    assert run(["check", "cold.parquet", "--baseline", "base.json"]) == 2
    assert "another temperature (1.0 there, 0.7 here)" in capfd.readouterr().err
    assert run(["check", "wide.parquet", "--update-baseline"]) == 2
    assert "there is no baseline to update" in capfd.readouterr().err
    assert run(["check", "good.parquet", "--framework", "prime-rll"]) == 2
    assert "Did you mean 'prime-rl'?" in capfd.readouterr().err
    assert run(["check", "cold.parquet", "--baseline", "base.json", "--format", "json", "--exit-zero"]) == 2
    assert json.loads(capfd.readouterr().out)["error"]["exit_code"] == 2


def test_writing_and_updating_a_baseline(here, tmp_path, capfd):
    base = tmp_path / "base.json"
    bad = [{"figure": "mismatch.k3", "max": 1e-9}]
    refused = iscope.check("good.parquet", gates=bad, write_baseline=base)
    assert not refused
    assert not base.exists()
    assert "was not written: a gate failed" in refused.notes[-1]
    words = ["check", "good.parquet", "--write-baseline", str(base)]
    assert run(words) == 0
    assert "holds this dump's figures now" in " ".join(capfd.readouterr().out.split())
    first = base.read_bytes()
    assert run(words) == 2
    assert "add --force" in capfd.readouterr().err
    assert run([*words, "--force"]) == 0
    assert base.read_bytes() == first
    capfd.readouterr()
    assert run(["check", "cold.parquet", "--baseline", str(base), "--update-baseline"]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert "was of something else: another temperature (1.0 there, 0.7 here)" in shown
    assert "CHANGE mismatch.k3 " in shown
    assert base.read_bytes() != first
    assert run(["check", "cold.parquet", "--baseline", str(base)]) == 0


def test_a_first_run_is_judged_against_itself_where_gates_need_a_baseline(here, tmp_path):
    gates = [{"figure": "mismatch.k3", "max_ratio": 1.1}, {"figure": "mismatch.k3", "max": 0.01}]
    first = iscope.check("good.parquet", gates=gates, write_baseline=tmp_path / "base.json")
    assert first.passed
    assert any("held against this very dump" in note for note in first.notes)
    assert not iscope.check("good.parquet", gates=gates)
    assert iscope.check("again.parquet", gates=Config(tuple(), defaults=True), baseline=tmp_path / "base.json")


def test_the_baseline_that_the_gates_name(here, tmp_path):
    (tmp_path / "gates.toml").write_text('baseline = "base.json"\n')
    gates = tmp_path / "gates.toml"
    with pytest.raises(iscope.UsageError, match="cannot read the baseline"):
        iscope.check("good.parquet", gates=gates)
    assert iscope.check("good.parquet", gates=gates, write_baseline=tmp_path / "base.json")
    assert not iscope.check("wide.parquet", gates=gates)


def test_other_prompts_are_refused_unless_any_will_do(here, tmp_path):
    fresh = dump(seed=1).with_columns(group_id="new-" + pl.col("group_id"))
    with pytest.raises(iscope.UsageError, match="other prompts, by their group_id"):
        iscope.check(fresh, gates="default", baseline="base.json")
    (tmp_path / "any.toml").write_text('[baseline]\nprompts = "any"\n')
    assert iscope.check(fresh, gates=tmp_path / "any.toml", baseline="base.json")


def test_prompts_are_told_by_their_column(here, tmp_path):
    prompts = dump().with_columns(
        prompt_token_ids=pl.col("group_id").str.len_chars().map_elements(lambda n: [n], pl.List(pl.Int64))
    )
    base = tmp_path / "base.json"
    assert iscope.check(prompts, gates="default", write_baseline=base)
    renamed = prompts.with_columns(group_id="new-" + pl.col("group_id"))
    assert iscope.check(renamed, gates="default", baseline=base)
    other = prompts.with_columns(prompt_token_ids=pl.col("prompt_token_ids").list.concat([7]))
    with pytest.raises(iscope.UsageError, match=r"other prompts \(2 there, 2 here\)"):
        iscope.check(other, gates="default", baseline=base)


def test_limits_of_a_framework(here):
    found = iscope.check("good.parquet", gates="default", framework="nemo-rl")
    assert "mismatch.token_mult_prob_error" in {gate.figure for gate in found.gates}
    assert "mismatch.token_mult_prob_error" not in {
        gate.figure for gate in iscope.check("good.parquet", gates="default").gates
    }


def test_a_healthy_level_of_ones_own(here):
    limits = {
        gate.limit
        for gate in iscope.check("good.parquet", gates="default", healthy_k3=0.01).gates
        if gate.figure == "mismatch.k3"
    }
    assert limits == {0.01, 0.05}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"gates": []}, "the list is empty"),
        ({"gates": [{"figure": "recipes[trl/tokn_mask].kept.tokens", "min": 1}]}, "Did you mean 'trl/token_mask'"),
        ({"gates": [{"figure": "mismatch.k3", "maxx": 1}]}, r"gates \[0\]: there is no key 'maxx'"),
        ({"framework": "x"}, "there is no framework"),
        ({"write_baseline": "/nonexistent/folder/base.json"}, "there is no folder"),
    ],
)
def test_usage_errors(here, arguments, said):
    with pytest.raises(iscope.UsageError, match=said):
        iscope.check("good.parquet", **arguments)


def test_a_report_is_as_it_was_made(here):
    report = iscope.analyze("good.parquet", recipes=["none"])
    with pytest.raises(iscope.UsageError, match="recipes: a report is as it was made"):
        iscope.check(report, recipes=["none"])
    with pytest.raises(iscope.UsageError, match="checked alone"):
        iscope.check(report, report)


def test_a_dump_without_a_loss_token_fails(here):
    masked = dump().with_columns(loss_mask=pl.Series([[False] * 40] * 288))
    result = iscope.check(masked, gates="default")
    assert not result
    assert [gate.figure for gate in result.failures] == ["coverage.tokens.scored"]
    assert result.dump.word == "NO DATA"


def test_all_recipes_by_a_star(here):
    gates = [{"figure": "recipes[*].gradient_left.all", "min": 0.1}]
    names = {gate.figure for gate in iscope.check("good.parquet", gates=gates).gates}
    assert len(names) > 5
    assert {gate.word for gate in iscope.check("good.parquet", gates=gates, recipes=["none"]).gates} == {PASS}
    two = [*gates, {"figure": f"recipes[{MASK}].kept.tokens", "min": 10**9}]
    found = iscope.check("good.parquet", gates=two)
    assert {gate.figure for gate in found.gates if gate.word == FAIL} == {f"recipes[{MASK}].kept.tokens"}


def test_recipes_of_ones_own(here, tmp_path):
    (tmp_path / "mine.toml").write_text('[recipes]\n"mine/tight" = "trl/token_mask:clip_max=1.5"\n')
    gates = [{"figure": "recipes[mine/tight].masked.token_fraction", "max": 0.5}]
    found = iscope.check("good.parquet", gates=gates, recipes_file=tmp_path / "mine.toml")
    assert found.passed
    assert any(gate.figure.startswith("recipes[mine/tight:") for gate in found.gates)
    with pytest.raises(iscope.UsageError, match="mine/tight"):
        iscope.check("good.parquet", gates=gates)


def test_a_recipe_that_was_given_is_replayed_once(here):
    gates = [{"figure": "recipes[trl/token_mask:0.5,2].kept.tokens", "min": 1}]
    found = iscope.check("good.parquet", gates=gates, recipes=["trl/token_mask:clip_max=2,clip_min=.5"])
    assert found.passed
    assert found.provenance["plan"]["recipes"] == [MASK]


def test_names_of_users_go_through_paths_baselines_and_formats(here, tmp_path, capfd):
    nasty = ["<script>x</script>", "[/bold] a.b[0]", ']]>"\\', "line\nfeed\r::error::x", "*", "-5:", "", "\u202e"]
    made = dump(groups=16).with_columns(
        env=pl.col("group_id")
        .str.split("-")
        .list.last()
        .cast(pl.Int64)
        .map_elements(lambda n: nasty[n // 2], pl.String)
    )
    made.write_parquet(tmp_path / "nasty.parquet")
    (tmp_path / "gates.toml").write_text('[[gates]]\nfigure = "breakdowns.env[*].k3"\nmax_ratio = 1.5\n')
    base = tmp_path / "base.json"
    words = ["check", str(tmp_path / "nasty.parquet"), "--gates", str(tmp_path / "gates.toml")]
    assert run([*words, "--write-baseline", str(base)]) == 0
    for name in RENDERERS:
        capfd.readouterr()
        assert run([*words, "--baseline", str(base), "--format", name]) == 0, name
        out = capfd.readouterr().out
        assert "PASS" in out or name == "junit"
        if name == "json":
            figures = [gate["figure"] for gate in json.loads(out)["gates"]]
            assert len(set(figures)) == 1 + len(nasty)
            assert 'breakdowns.env["*"].k3' in figures
    single = [{"figure": gate, "max": 1.0} for gate in figures_of(base)]
    assert iscope.check(tmp_path / "nasty.parquet", gates=single).passed


def figures_of(base):
    return [path for path in json.loads(base.read_text())["figures"] if path.startswith("breakdowns")]
