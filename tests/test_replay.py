"""What a replay says of every token: against the slow reference, the report, and the frameworks' own code."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import iscope
from iscope.dump import open_dump
from iscope.engines.replay_pass import Task, replay_dump
from iscope.recipes.grammar import parse
from iscope.recipes.model import Aggregation, Denominator, Level, Pair, Penalty
from iscope.rollouts import RolloutBatch
from tests.golden_cases import relative_error
from tests.reference import slow
from tests.rollout_factory import batch_of, rollouts, table_of
from tests.test_golden_prime_rl import CASES as GOLDEN
from tests.test_golden_prime_rl import replayed
from tests.test_readme import ROOT, snippet

SLOW = [
    ("none", "none", None, None),
    ("trl/token_truncate:clip_min=0.5,clip_max=2", "token_truncate", 0.5, 2.0),
    ("icepop:0.5,5", "token_mask", 0.5, 5.0),
    ("trl/sequence_truncate:clip_min=0.5,clip_max=2", "sequence_truncate", 0.5, 2.0),
    ("trl/sequence_mask", "sequence_mask", None, 3.0),
    ("geometric_mask:0.996,1.001", "geometric_mask", 0.996, 1.001),
]
REPORTED = (
    "none",
    "trl/token_mask:0.5,2",
    "trl/token_truncate:clip_max=2",
    "trl/sequence_mask",
    "geometric_mask:0.99,1.01",
    "prime-rl/ipo:eps=0.05",
    "prime-rl/seq_mis",
    "prime-rl/ppo",
    "prime-rl/default@2026-08:kl_tau=0",
)
few = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def flat(lists):
    return np.array([x for row in lists for x in row if x is not None], dtype=np.float64)


def is_scored(t, v, m):
    return m and all(-9000 < x <= 0.2 for x in (t, v))


def scored_flags(rollout):
    return [is_scored(*token) for token in zip(rollout["trainer"], rollout["inference"], rollout["mask"], strict=True)]


@pytest.mark.parametrize(("spec", "kind", "low", "high"), SLOW, ids=[case[0] for case in SLOW])
@given(drawn=rollouts(min_size=1, unusable=True))
def test_every_token_against_the_slow_reference(spec, kind, low, high, drawn):
    loss_tokens = max(sum(sum(r["mask"]) for r in drawn), 1)
    result = iscope.replay(table_of(drawn), recipe=spec)
    losses = []
    for rollout, row in zip(drawn, result.to_polars().iter_rows(named=True), strict=True):
        d = slow.differences(rollout)
        fates = iter(slow.correct(kind, d, low, high) if d else [])
        expected = [next(fates) if scored else None for scored in scored_flags(rollout)]
        assert row["rollout_id"] == rollout["id"]
        assert row["keep"] == [None if x is None else not x[1].startswith("masked") for x in expected]
        assert row["weight"] == [None if x is None else pytest.approx(x[0], rel=1e-6) for x in expected]
        coefficients = [None if x is None else -rollout["advantage"] * x[0] / loss_tokens for x in expected]
        assert row["coefficient"] == [None if c is None else pytest.approx(c, rel=1e-6) for c in coefficients]
        losses += [c for c in coefficients if c is not None]
    assert result.loss == {"all": pytest.approx(math.fsum(losses), rel=1e-9, abs=1e-12)}
    assert (result.rollouts, result.tokens) == (len(drawn), len(losses))


def aggregated(result: iscope.Replay, rows: list[dict], loss_tokens: int) -> dict:
    """The report's figures by hand, from the lists of a replay and the rollouts it came from."""
    weights, keeps, gradients, bases = [], [], [], []
    for row, rollout in zip(result.to_polars().iter_rows(named=True), rows, strict=True):
        at = [place for place, keep in enumerate(row["keep"]) if keep is not None]
        if not at:
            continue
        uncertainty = np.array([max(-math.expm1(rollout["trainer"][place]), 0.0) for place in at])
        weights.append(np.array([row["weight"][place] for place in at]))
        keeps.append(np.array([row["keep"][place] for place in at]))
        coefficient = np.array([row["coefficient"][place] for place in at])
        gradients.append((np.abs(coefficient) * uncertainty).sum() * loss_tokens)
        bases.append(abs(rollout["advantage"]) * uncertainty.sum())
    tokens, means = np.concatenate(weights), np.array([w.mean() for w in weights])
    return {
        "kept": {"tokens": sum(k.sum() for k in keeps), "rollouts": sum(k.any() for k in keeps)},
        "masked": {"tokens": sum((~k).sum() for k in keeps), "rollouts": sum(not k.any() for k in keeps)},
        "mean": {"tokens": tokens.mean(), "rollouts": means.mean()},
        "ess": {"token": slow.ess(tokens), "rollout": slow.ess(means)},
        "effective_batch_size": slow.ess(gradients),
        "gradient_left": sum(gradients) / sum(bases) if sum(bases) else None,
    }


def agree(report: iscope.Report, results: list[iscope.Replay], rows: list[dict]):
    loss_tokens = sum(sum(row["mask"]) for row in rows)
    for recipe, result in zip(report.recipes, results, strict=True):
        figures, found = recipe.figures, aggregated(result, rows, loss_tokens)
        for name in ("kept", "masked"):
            assert {unit: figures[name][unit] for unit in ("tokens", "rollouts")} == found[name], recipe.spec
        assert (result.kept, result.tokens) == (found["kept"]["tokens"], report.coverage.tokens_scored)
        assert found["mean"][recipe.unit] == pytest.approx(figures["applied"]["mean"].value, rel=1e-9)
        for unit in ("token", "rollout"):
            assert found["ess"][unit] == pytest.approx(figures["ess"][unit].value, rel=1e-9)
        left = figures["gradient_left"]["all"].value
        if left is None:
            assert found["gradient_left"] is None
            continue
        assert found["gradient_left"] == pytest.approx(left, rel=1e-9, abs=1e-300), recipe.spec
        size = figures["effective_batch_size"]["value"]
        assert found["effective_batch_size"] == pytest.approx(size, rel=1e-9), recipe.spec


def test_the_report_on_sample_data(sample_data):
    dump = sample_data / "train_async.parquet"
    columns = {"trainer_logprobs": "trainer", "loss_mask": "mask", "advantage": "advantage"}
    rows = pl.read_parquet(dump, columns=list(columns)).rename(columns).to_dicts()
    report = iscope.analyze(dump, recipes=REPORTED, precision="float64")
    agree(report, [iscope.replay(dump, recipe=spec, precision="float64") for spec in REPORTED], rows)


@given(drawn=rollouts(min_size=1, unusable=True))
def test_the_report_on_random_dumps(drawn):
    table = table_of(drawn)
    if not any(any(scored_flags(rollout)) for rollout in drawn):
        return
    rows = [r | {"trainer": t} for r, t in zip(drawn, table["trainer_logprobs"].to_list(), strict=True)]
    report = iscope.analyze(table, recipes=REPORTED, precision="float64")
    agree(report, [iscope.replay(table, recipe=spec, precision="float64") for spec in REPORTED], rows)


@pytest.mark.parametrize(("file", "index"), GOLDEN)
def test_golden_losses_and_gradients(golden, file, index):
    case, batch, recipe = replayed(golden, file, index)
    result = iscope.replay(batch, recipe=recipe.spec, precision="float64")
    loss_tokens = int(batch.loss_mask.sum())
    assert result.loss["all"] == pytest.approx(math.fsum(case["loss"]) / loss_tokens, rel=1e-12)
    coefficients = result.to_polars()["coefficient"].to_list()
    assert [[x is not None for x in row] for row in coefficients] == [
        mask.tolist() for mask in batch.loss_mask.split((batch.offsets[1:] - batch.offsets[:-1]).tolist())
    ]
    pairs = zip((c for row in coefficients for c in row), (g for row in case["grad"] for g in row), strict=True)
    found = [(c * loss_tokens, g) for c, g in pairs if c is not None]
    assert relative_error([c for c, _ in found], [g for _, g in found]) <= 1e-12


def test_an_advantage_for_each_token():
    lists = [[1.0, -2.0, 0.5], [3.0]]
    batch = RolloutBatch.from_lists([[-1.0, -0.5, -2.0], [-1.0]], [[-1.5, -0.5, -1.0], [-3.0]], advantage=lists)
    row = iscope.replay(batch, recipe="tis:2", precision="float64").to_polars()
    assert row["weight"].to_list() == [[pytest.approx(math.exp(0.5)), 1.0, pytest.approx(math.exp(-1.0))], [2.0]]
    expected = [[-math.exp(0.5) / 4, 2.0 / 4, -0.5 * math.exp(-1.0) / 4], [-6.0 / 4]]
    assert flat(row["coefficient"].to_list()) == pytest.approx(flat(expected))


def test_null_where_not_scored():
    nan = math.nan
    batch = RolloutBatch.from_lists(
        [[-1.0, nan, -2.0, -1.0], [], [-1.0]],
        [[-1.5, -0.5, -9999.0, -1.0], [], [-1.0]],
        [[1, 1, 1, 0], [], [0]],
        advantage=[1.0, 2.0, 3.0],
    )
    result = iscope.replay(batch, recipe="trl/token_mask:clip_max=1.5")
    row = result.to_polars()
    assert row["keep"].to_list() == [[False, None, None, None], [], [None]]
    assert row["weight"].to_list() == [[0.0, None, None, None], [], [None]]
    assert row["coefficient"].to_list() == [[0.0, None, None, None], [], [None]]
    assert (result.rollouts, result.tokens, result.kept) == (3, 1, 0)
    assert "2 loss tokens with an unusable logprob are null and stay in the loss's denominators." in result.assumptions
    neutral = iscope.replay(batch, recipe="trl/token_mask:clip_max=1.5", unscored="neutral")
    assert neutral.to_polars()["weight"].to_list() == [[0.0, 1.0, 1.0, None], [], [None]]
    assert flat(neutral.to_polars()["coefficient"].to_list()) == pytest.approx([0.0, -1 / 3, -1 / 3])
    assert "2 loss tokens with an unusable logprob count as ratio 1." in neutral.assumptions


def test_current_logprobs_take_part_in_the_coefficient_not_in_the_weight():
    trainer, inference, current = [-1.0, -1.0, -1.0], [-1.2, -1.0, -0.9], [-0.95, -0.5, -1.6]
    batch = RolloutBatch.from_lists([trainer], [inference], current_logprobs=[current], advantage=[1.0])
    result = iscope.replay(batch, recipe="trl/token_truncate", precision="float64")
    row = result.to_polars().row(0, named=True)
    theta = torch.tensor(current, dtype=torch.float64, requires_grad=True)
    weight = (batch.trainer_logprobs.double() - batch.inference_logprobs.double()).exp()
    ratio = (theta - batch.trainer_logprobs.double()).exp()
    loss = -(torch.minimum(ratio, ratio.clamp(0.8, 1.2)) * weight).sum() / 3
    loss.backward()
    assert row["weight"] == pytest.approx(weight.tolist(), rel=1e-12)
    assert row["keep"] == [True] * 3
    assert row["coefficient"] == pytest.approx(theta.grad.tolist(), rel=1e-6, abs=1e-15)
    assert row["coefficient"][1] == 0
    assert not any("on-policy" in sentence for sentence in result.assumptions)


@few
@given(drawn=rollouts(min_size=1, unusable=True), data=st.data())
def test_dump_order_and_every_bit_whatever_files_and_batches(drawn, data, tmp_path: Path):
    table = table_of(drawn)
    spec = data.draw(st.sampled_from(REPORTED))
    batch = data.draw(st.sampled_from(["all", "step", 1, 3]))
    whole = iscope.replay(table, recipe=spec, batch=batch)
    cut = data.draw(st.integers(0, table.height))
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    for name, part in (("a", table[:cut]), ("b", table[cut:])):
        part.write_parquet(folder / f"{name}.parquet", row_group_size=data.draw(st.integers(1, 4)))
    small = open_dump([folder], batch_tokens=data.draw(st.integers(1, 30)), carry=["step"])
    split = replay_dump(small, Task(parse(spec), batch))
    assert split.table.combine_chunks().equals(whole.table.combine_chunks())
    assert split.loss == whole.loss


@pytest.mark.parametrize("aggregation", Aggregation)
@pytest.mark.parametrize("batch", ["all", "step", 2])
def test_aggregation_over_the_batch(aggregation, batch):
    masks = [[1, 1, 0], [1], [0, 0], [1, 1, 1], []]
    steps = [7, 7, 9, 9, 7]
    advantages = [1.0, -2.0, 3.0, 0.5, 1.0]
    logprobs = [[-0.5] * len(mask) for mask in masks]
    groups = ["a", "b", "a", "b", "c"]
    columns = {"step": steps, "group_id": groups}
    dump = RolloutBatch.from_lists(logprobs, logprobs, masks, advantage=advantages, columns=columns)
    recipe = parse("none")
    loss = replace(recipe.loss, aggregation=aggregation, denominator=Denominator(norm_length=8.0))
    recipe = replace(recipe, loss=loss)
    result = iscope.replay(dump, recipe=recipe, batch=batch, precision="float64")
    scopes = {"all": {"all": range(5)}, "step": {7: [0, 1, 4], 9: [2, 3]}, 2: {0: [0, 1], 1: [2, 3], 2: [4]}}[batch]
    rows = result.to_polars()["coefficient"].to_list()
    assert list(result.loss) == list(scopes)
    for label, members in scopes.items():
        tokens = {row: sum(masks[row]) for row in members}
        present = {groups[row] for row in members}
        of_group = {group: sum(n for row, n in tokens.items() if groups[row] == group) for group in present}
        divisor = {
            Aggregation.GROUP_MEAN_TOKEN_SUM: dict.fromkeys(members, len(present)),
            Aggregation.GROUP_MEAN_TOKEN_MEAN: {row: len(present) * max(of_group[groups[row]], 1) for row in members},
            Aggregation.TOKEN_MEAN: dict.fromkeys(members, max(sum(tokens.values()), 1)),
            Aggregation.TOKEN_SUM: dict.fromkeys(members, 1),
            Aggregation.SEQ_MEAN_TOKEN_SUM: dict.fromkeys(members, len(members)),
            Aggregation.SEQ_MEAN_TOKEN_SUM_NORM: dict.fromkeys(members, len(members) * 8),
            Aggregation.SEQ_MEAN_TOKEN_MEAN: {row: len(members) * max(tokens[row], 1) for row in members},
        }[aggregation]
        for row in members:
            expected = [-advantages[row] / divisor[row] if token else None for token in masks[row]]
            assert rows[row] == [None if x is None else pytest.approx(x, rel=1e-12) for x in expected]
        loss = math.fsum(-advantages[row] * tokens[row] / divisor[row] for row in members)
        assert result.loss[label] == pytest.approx(loss, rel=1e-12)


@pytest.mark.parametrize("acts_on", ["token", "rollout"])
def test_a_filter_that_drops_shrinks_mask_and_denominator(acts_on):
    nan = math.nan
    dump = RolloutBatch.from_lists(
        [[-1.0, -1.0, nan], [-1.0, -1.0]], [[-1.5, -3.0, -1.0], [-1.25, -0.5]], advantage=[1.0, 2.0]
    )
    recipe = parse("icepop:0.5,2")
    recipe = replace(
        recipe,
        filters=(replace(recipe.filters[0], drops=True, acts_on=acts_on),),
        loss=replace(recipe.loss, penalty=Penalty("squared", Pair.TRAINER_INFERENCE, 0.5)),
    )
    result = iscope.replay(dump, recipe=recipe, precision="float64")
    row = result.to_polars()
    left = 4 if acts_on == "token" else 2
    first = None if acts_on == "rollout" else (-math.exp(0.5) + 0.5) / left
    assert row["keep"].to_list() == [[first is not None, False, None], [True, True]]
    assert row["coefficient"].to_list()[0] == [0.0 if first is None else pytest.approx(first), 0.0, None]
    second = [(-2 * math.exp(d) + d) / left for d in (0.25, -0.5)]
    assert row["coefficient"].to_list()[1] == pytest.approx(second)
    losses = [-2 * math.exp(d) + d * d / 2 for d in (0.25, -0.5)]
    losses += [] if first is None else [-math.exp(0.5) + 0.125]
    assert result.loss["all"] == pytest.approx(math.fsum(losses) / left)


def test_weights_beyond_float32_are_what_a_trainer_would_have_got():
    dump = RolloutBatch.from_lists([[-1.0] * 3], [[-61.0] * 3], advantage=[1.0])
    recipe = replace(parse("none"), weight=replace(parse("none").weight, level=Level.SEQUENCE))
    assert iscope.replay(dump, recipe=recipe).to_polars()["weight"].to_list() == [[math.inf] * 3]
    wide = iscope.replay(dump, recipe=recipe, precision="float64").to_polars()["weight"].to_list()
    assert wide == [pytest.approx([math.exp(180.0)] * 3)]


def test_without_advantages_there_is_no_coefficient():
    dump = RolloutBatch.from_lists([[-1.0, -2.0]], [[-1.5, -2.0]])
    result = iscope.replay(dump, recipe="trl/token_mask:clip_max=1.5")
    assert result.loss == {}
    assert result.to_polars()["coefficient"].to_list() == [[None, None]]
    assert result.to_polars()["weight"].to_list() == [[0.0, 1.0]]
    assert "the dump has no advantages: there is no loss, and every coefficient is null." in result.assumptions


@pytest.mark.parametrize(
    ("recipe", "column", "remedy"),
    [
        ("prime-rl/ref_kl", "ref_logprobs", "--columns ref=NAME, or give its files with --ref."),
        ("prime-rl/default@2026-08", "advantage", "--columns advantage=NAME."),
    ],
)
def test_a_column_that_the_recipe_needs(recipe, column, remedy, tmp_path):
    batch = RolloutBatch.from_lists([[-1.0]], [[-1.0]])
    table = pl.DataFrame({"trainer_logprobs": [[-1.0]], "inference_logprobs": [[-1.5]]})
    table.write_parquet(tmp_path / "a.parquet")
    for dump, name in ((batch, "the batch given"), (tmp_path / "a.parquet", str(tmp_path / "a.parquet"))):
        with pytest.raises(iscope.DataError) as caught:
            iscope.replay(dump, recipe=recipe, output=tmp_path / "w.parquet")
        assert str(caught.value).startswith(f"{name}: there is no column {column!r}, which {parse(recipe).spec} needs;")
        assert str(caught.value).endswith(remedy)
    assert os.listdir(tmp_path) == ["a.parquet"]


def test_bad_rows_are_left_out_and_said():
    floats = pl.List(pl.Float32)
    table = pl.DataFrame(
        {"trainer_logprobs": [None, [-1.0]], "inference_logprobs": [[-1.0], [-1.0]], "advantage": [1.0, 2.0]},
        schema_overrides={"trainer_logprobs": floats, "inference_logprobs": floats},
    )
    result = iscope.replay(table, recipe="none")
    assert (result.rollouts, result.loss) == (1, {"all": -2.0})
    said = "1 rollouts that cannot be used are left out (1 null_trainer_logprobs)."
    assert said in result.assumptions
    with pytest.raises(iscope.DataError, match="trainer_logprobs is null"):
        iscope.replay(table, recipe="none", strict=True)
    nothing = iscope.replay(table[:1], recipe="none")
    assert (nothing.rollouts, nothing.loss, nothing.table.num_rows) == (0, {"all": 0.0}, 0)


@pytest.mark.parametrize("batch", [0, -1, True, "stepp", "1.5", "", 10**18 + 1, "9" * 19, "9" * 5000])
def test_a_batch_scope_that_is_none(batch):
    with pytest.raises(iscope.UsageError, match=r"The batch must be all, step or a number of rollouts from 1, not"):
        iscope.replay(batch_of([]), recipe="none", batch=batch)


def test_every_rollout_needs_a_step_where_steps_are_batches():
    logprobs = [[-1.0], [-2.0]]
    dump = RolloutBatch.from_lists(logprobs, logprobs, advantage=[1.0, 1.0], columns={"step": [1, None]})
    with pytest.raises(iscope.DataError, match=r"^rollout #1: its step is null; with --batch step every rollout"):
        iscope.replay(dump, recipe="none", batch="step")
    with pytest.raises(iscope.DataError, match="there is no column 'step'"):
        iscope.replay(RolloutBatch.from_lists(logprobs, logprobs), recipe="none", batch="step")


@pytest.mark.parametrize("first", ["iscope.api", "iscope.replay", "iscope.replay.view", "iscope.replay.segments"])
def test_the_function_is_not_hidden_by_the_folder_of_its_name(first):
    code = f"import iscope, sys\nimport {first}\nfn = iscope.replay\nprint(fn is sys.modules['iscope.api'].replay)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_readme_snippet(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    names = {}
    exec(snippet("## Token by token"), names)
    assert capsys.readouterr().out == f"{names['result'].loss}\n"
    assert list(names["result"].loss) == sorted(set(pl.read_parquet("sample_data/train_async.parquet")["step"]))
    assert names["frame"].columns == ["rollout_id", "weight", "keep", "coefficient"]
