from __future__ import annotations

import math

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import iscope
from iscope.dump import Sides, open_dump
from iscope.errors import DataError, UsageError
from iscope.rollouts import RolloutBatch

WORDS = pa.dictionary(pa.int8(), pa.string())
RECIPES = ["none", "icepop:0.5,5", "trl/sequence_mask"]
ROWS = 24


def plain_rows():
    """Rollouts as dicts, in an order in which steps come in runs."""
    rows = []
    for i in range(ROWS):
        length = i % 5
        inference = [-0.25 * (1 + (i * 7 + t * 3) % 11) for t in range(length)]
        rows.append(
            {
                "rollout_id": f"r{i}",
                "global_step": i // 4 if i % 11 != 10 else None,
                "env": ["math", "code", None][i % 3],
                "reward": math.nan if i == 5 else i / 8,
                "advantage": [1.0, -0.5, 0.0, 2.0][i % 4],
                "group_id": i // 3,
                "trainer_logprobs": [v + 0.125 * ((i + t) % 7 - 3) - 0.375 for t, v in enumerate(inference)],
                "inference_logprobs": inference,
                "loss_mask": [1] * length,
            }
        )
    return rows


def table_of(rows):
    floats = pa.list_(pa.float32())
    kinds = {
        "rollout_id": pa.string(),
        "global_step": pa.int32(),
        "env": pa.string(),
        "reward": pa.float64(),
        "advantage": pa.float64(),
        "group_id": pa.int64(),
        "trainer_logprobs": floats,
        "inference_logprobs": floats,
        "loss_mask": pa.list_(pa.int8()),
    }
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


def known(value, test):
    return value is not None and test(value)


# Expressions and what they mean, row by row. In SQL a comparison with NULL is not met, and NaN is the largest number.
CONDITIONS = {
    "step >= 3": lambda r: known(r["global_step"], lambda s: s >= 3),
    "global_step >= 3": lambda r: known(r["global_step"], lambda s: s >= 3),
    "3 > step": lambda r: known(r["global_step"], lambda s: s < 3),
    "step = 2 AND env = 'math'": lambda r: r["global_step"] == 2 and r["env"] == "math",
    "step >= 2 and step <= 4 and reward > 1.5": lambda r: (
        known(r["global_step"], lambda s: 2 <= s <= 4) and not r["reward"] <= 1.5
    ),
    "reward > 1000": lambda r: math.isnan(r["reward"]),
    "step < 2 OR env = 'code'": lambda r: known(r["global_step"], lambda s: s < 2) or r["env"] == "code",
    "step BETWEEN 2 AND 3": lambda r: known(r["global_step"], lambda s: 2 <= s <= 3),
    "NOT step = 2": lambda r: known(r["global_step"], lambda s: s != 2),
    "step IS NULL": lambda r: r["global_step"] is None,
    "CASE WHEN step = 5 AND step = 1 THEN false ELSE true END": lambda _: True,
    "env IN ('code', 'math') AND step > 0": lambda r: r["env"] is not None and known(r["global_step"], lambda s: s > 0),
    "env = 'a AND step > 5'": lambda _: False,
    "env <> 'x' -- AND step > 5": lambda r: r["env"] is not None,
    "advantage > 0": lambda r: r["advantage"] > 0,
    "group_id = '3'": lambda r: r["group_id"] == 3,
    "rollout_id LIKE 'r1%'": lambda r: r["rollout_id"].startswith("r1"),
    "step + 0 >= 3": lambda r: known(r["global_step"], lambda s: s >= 3),
    "true": lambda _: True,
    "step > 99": lambda _: False,
}


def expected_rows(text):
    return [row for row in plain_rows() if CONDITIONS[text](row)]


def figures(report):
    data = report.to_dict()
    del data["provenance"]
    del data["coverage"]["files"]
    data["coverage"]["notes"].pop("not_selected", None)
    data["assumptions"] = [text for text in data["assumptions"] if "Only rollouts that meet" not in text]
    return data


def write(rows, path, group=3):
    pq.write_table(table_of(rows), path, row_group_size=group)
    return path


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (form, text)
        for form in ("file", "files", "table", "batch")
        for text in CONDITIONS
        if form != "batch" or "global_step" not in text  # a batch in memory has canonical names
    ],
)
def test_it_equals_filtering_beforehand(form, text, tmp_path):
    rows, wanted = plain_rows(), expected_rows(text)
    if form == "file":
        sources = [write(rows, tmp_path / "a.parquet")]
    elif form == "files":
        sources = [write(rows[:7], tmp_path / "a.parquet"), write(rows[7:], tmp_path / "b.parquet", group=5)]
    elif form == "table":
        sources = [table_of(rows)]
    else:
        sources = [batch_of(rows)]
    found = iscope.analyze(*sources, recipes=RECIPES, where=text)
    assert found.coverage.notes.get("not_selected", 0) == ROWS - len(wanted)
    assert f"Only rollouts that meet {text!r} are looked at." in found.assumptions
    assert found.coverage.rollouts_read == len(wanted)
    if wanted:
        before = batch_of(wanted) if form == "batch" else table_of(wanted)
        assert figures(found) == figures(iscope.analyze(before, recipes=RECIPES))
    else:
        assert found.mismatch["k3"].why == "no scored tokens"


def batch_of(rows):
    names = ("rollout_id", "env", "reward", "group_id")
    frame = pl.from_arrow(table_of(rows)).rename({"global_step": "step"}).cast({"group_id": pl.String})
    return RolloutBatch.from_lists(
        [row["trainer_logprobs"] for row in rows],
        [row["inference_logprobs"] for row in rows],
        [row["loss_mask"] for row in rows],
        advantage=[row["advantage"] for row in rows],
        columns=frame.select("step", *names),
    )


@pytest.mark.parametrize("text", CONDITIONS)
def test_it_equals_filtering_both_sides_beforehand(text):
    def sides(rows):
        table = table_of(rows)
        own = table.select(["rollout_id", "trainer_logprobs", "loss_mask", "advantage", "reward", "global_step"])
        other = table.select(["rollout_id", "inference_logprobs", "env", "group_id"])
        return {"trainer": own, "vllm": other.take(list(range(len(rows)))[::-1])}

    wanted = expected_rows(text)
    found = iscope.analyze(**sides(plain_rows()), recipes=RECIPES, where=text)
    assert found.coverage.notes.get("not_selected", 0) == ROWS - len(wanted)
    if wanted:
        assert figures(found) == figures(iscope.analyze(**sides(wanted), recipes=RECIPES))
    else:
        assert found.mismatch["k3"].why == "no scored tokens"


def read_groups(monkeypatch):
    """Record which row groups are decoded, by file."""
    seen = []
    plain = pq.ParquetFile.iter_batches

    def spy(self, *args, row_groups=None, **options):
        seen.extend(row_groups)
        return plain(self, *args, row_groups=row_groups, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    return seen


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("step >= 4", [4, 5]),
        ("step > 4", [5]),
        ("step = 2", [2]),
        ("1 >= step", [0, 1]),
        ("step < 1", [0]),
        ("step >= 2 AND env = 'math' AND step < 4", [2, 3]),
        ("step = 2 AND (env = 'math' OR reward > 0)", [2]),
        ("env = 'zebra'", []),
        ("step = 99", []),
        ("step >= 4 OR env = 'math'", [0, 1, 2, 3, 4, 5]),
        ("NOT step >= 4", [0, 1, 2, 3, 4, 5]),
        ("reward > 2.5", [0, 1, 2, 3, 4, 5]),
        ("step + 0 >= 4", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_row_groups_that_cannot_match_are_not_read(text, groups, tmp_path, monkeypatch):
    path = write(plain_rows(), tmp_path / "a.parquet", group=4)
    seen = read_groups(monkeypatch)
    dump = open_dump([path], where=text)
    ids = [name for batch in dump.batches() for name in batch.columns["rollout_id"]]
    assert seen == groups
    wanted = [row for row in plain_rows() if row["rollout_id"] in ids]
    assert dump.tally.not_selected == ROWS - len(wanted)


def side_files(tmp_path, inference_steps=False):
    """Two files of the same order; the inference side's steps, if it has any, are wrong and must not count."""
    table = table_of(plain_rows())
    trainer, vllm = tmp_path / "trainer.parquet", tmp_path / "vllm.parquet"
    pq.write_table(table.drop(["inference_logprobs", "env"]), trainer, row_group_size=6)
    other = table.select(["rollout_id", "inference_logprobs", "env"])
    if inference_steps:
        other = other.append_column("step", pa.array([99] * ROWS, pa.int64()))
    other = other.append_column("policy_version", pa.array([i // 8 for i in range(ROWS)]))
    pq.write_table(other, vllm, row_group_size=4)
    return {"trainer": trainer, "inference": vllm}


@pytest.mark.parametrize("inference_steps", [False, True])
@pytest.mark.parametrize(
    ("text", "test", "groups"),
    [
        ("step >= 4", lambda r, _: known(r["global_step"], lambda s: s >= 4), [3, 4, 5]),
        ("step = 2", lambda r, _: r["global_step"] == 2, [1, 2]),
        ("policy_version >= 2", lambda _, i: i // 8 >= 2, [4, 5]),
        ("policy_version = 1 AND step = 2", lambda r, i: i // 8 == 1 and r["global_step"] == 2, [2]),
        ("policy_version = 0 AND step = 5", lambda *_: False, []),
        ("step = 77", lambda *_: False, []),
        ("env = 'zebra'", lambda *_: False, []),
    ],
)
def test_row_groups_of_paired_files(text, test, groups, inference_steps, tmp_path, monkeypatch):
    sides = side_files(tmp_path, inference_steps)
    plain = pq.ParquetFile.iter_batches
    seen = []

    def spy(self, *args, row_groups=None, columns=None, **options):
        if "inference_logprobs" in columns:
            seen.extend(row_groups)
        return plain(self, *args, row_groups=row_groups, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    dump = open_dump(sides=Sides(**sides), where=text)
    batches = list(dump.batches())
    wanted = [row for i, row in enumerate(plain_rows()) if test(row, i)]
    assert seen == groups
    assert [name for batch in batches for name in batch.columns["rollout_id"]] == [row["rollout_id"] for row in wanted]
    for name in ("trainer_logprobs", "inference_logprobs"):
        found = [value for batch in batches for value in getattr(batch, name).tolist()]
        assert found == [value for row in wanted for value in row[name]]
    assert (dump.tally.rollouts_read, dump.tally.not_selected) == (len(wanted), ROWS - len(wanted))
    assert dump.tally.excluded == {}


def test_row_groups_without_a_partner_are_not_read(tmp_path, monkeypatch):
    sides = side_files(tmp_path)
    sides["trainer"] = table_of(plain_rows()[9:11])
    seen = read_groups(monkeypatch)
    dump = open_dump(sides=Sides(**sides))
    (batch,) = dump.batches()
    assert batch.columns["rollout_id"].to_list() == ["r9", "r10"]
    assert seen == [0, 1, 2, 3, 4, 5, 2]  # the keys of all, then the tokens of one
    assert dump.tally.excluded == {"unmatched_inference": ROWS - 2}


def test_folders_that_cannot_match_are_not_read(tmp_path, monkeypatch):
    for step in (1, 2, 10):
        folder = tmp_path / f"step={step}"
        folder.mkdir()
        pq.write_table(table_of(plain_rows()[step : step + 2]).drop(["global_step"]), folder / "a.parquet")
    seen = read_groups(monkeypatch)
    dump = open_dump([tmp_path], where="step >= 2 AND step < 10")
    (batch,) = dump.batches()
    assert batch.columns["rollout_id"].to_list() == ["r2", "r3"]
    assert len(seen) == 1
    assert dump.tally.not_selected == 4


def test_default_ids_count_the_rows_that_were_skipped(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(table_of(plain_rows()).drop(["rollout_id"]), path, row_group_size=4)
    (batch,) = open_dump([path], where="step = 2 OR step = 5").batches()
    chosen = [i for i, row in enumerate(plain_rows()) if row["global_step"] in (2, 5)]
    assert batch.columns["rollout_id"].to_list() == [f"{path}#{i}" for i in chosen]
    (batch,) = open_dump([path], where="step = 5").batches()
    chosen = [i for i, row in enumerate(plain_rows()) if row["global_step"] == 5]
    assert batch.columns["rollout_id"].to_list() == [f"{path}#{i}" for i in chosen]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_pruning_never_loses_a_rollout(data, tmp_path):
    kind = data.draw(
        st.sampled_from([pa.int8(), pa.uint64(), pa.float32(), pa.string(), pa.dictionary(pa.int8(), pa.string())])
    )
    numbers = data.draw(st.lists(st.none() | st.integers(0, 6), min_size=1, max_size=12))
    words = pa.types.is_string(kind) or pa.types.is_dictionary(kind)
    values = [None if n is None else "abcdefg"[n] if words else n for n in numbers]
    bound = data.draw(st.integers(0, 6))
    operator = data.draw(st.sampled_from(["<", "<=", "=", ">=", ">"]))
    test = {"<": "__lt__", "<=": "__le__", "=": "__eq__", ">=": "__ge__", ">": "__gt__"}[operator]
    column = pa.array(values, pa.string() if words else kind)
    table = pa.table(
        {
            "trainer_logprobs": [[-1.0]] * len(values),
            "inference_logprobs": [[-1.5]] * len(values),
            "rollout_id": [str(i) for i in range(len(values))],
            "x": column.dictionary_encode() if pa.types.is_dictionary(kind) else column,
        }
    )
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, row_group_size=data.draw(st.integers(1, 4)))
    constant = f"'{'abcdefg'[bound]}'" if words else bound
    dump = open_dump([path], where=f"x {operator} {constant}")
    found = [name for batch in dump.batches() for name in batch.columns["rollout_id"]]
    assert found == [str(i) for i, n in enumerate(numbers) if n is not None and getattr(n, test)(bound)]


def test_bad_rows_that_were_not_asked_for_are_no_defect():
    rows = plain_rows()
    rows[0]["trainer_logprobs"] = None
    report = iscope.analyze(table_of(rows), recipes=["none"], where="step >= 1")
    assert report.coverage.rollouts_excluded == {}
    assert iscope.analyze(table_of(rows), recipes=["none"], where="step = 0").coverage.rollouts_excluded == {
        "null_trainer_logprobs": 1
    }


def test_a_second_pass_counts_again():
    dump = open_dump([table_of(plain_rows())], where="step = 2")
    assert [len(list(dump.batches())) for _ in range(2)] == [1, 1]
    assert dump.tally.not_selected == ROWS - 4 + 1


def test_an_empty_selection_is_a_report_without_figures():
    report = iscope.analyze(table_of(plain_rows()), where="step > 99", by=["env", "length", "p", "group"])
    assert report.verdict.word == "NO DATA"
    assert report.coverage.notes["not_selected"] == ROWS
    assert report.mismatch["gap"].why == "no scored tokens"
    assert {row["k3"].why for row in report.mismatch["by_p"]} == {"no scored tokens"}
    assert {row["tokens"] for row in report.mismatch["by_p"]} == {0}
    assert report.breakdowns["env"] == report.breakdowns["length"] == report.breakdowns["group"] == []
    assert all(recipe.figures["gradient_left"]["all"].why for recipe in report.recipes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("step >=", "unable to parse 'step >=' as Expr; write SQL such as step >= 10 AND env = 'math'."),
        ("", "unable to parse '' as Expr"),
        ("SELECT 1", "expected an expression"),
        ("step + 1", "neither true nor false"),
        ("env > 1", "cannot compare string with numeric type"),
        ("MAX(step) = step", "MAX looks at several rollouts, but each is judged by itself."),
        ("step > AVG (step)", "AVG looks at several rollouts"),
        ("reward > AVG(reward) OVER (PARTITION BY env)", "AVG looks at several rollouts"),
        ("ROW_NUMBER() OVER (ORDER BY step) = 1", "OVER looks at several rollouts"),
        ("COUNT(*) > 1", "COUNT looks at several rollouts"),
        ("trainer_logprobs > 1", "trainer_logprobs has a value per token; name columns of rollouts."),
    ],
)
@pytest.mark.parametrize("form", ["table", "batch"])
def test_an_expression_that_is_no_condition(text, words, form):
    with pytest.raises(UsageError) as caught:
        open_dump([table_of(plain_rows()) if form == "table" else batch_of(plain_rows())], where=text)
    message = str(caught.value)
    assert message.startswith(f"--where {text!r}")
    assert words in message
    assert "\n" not in message


def test_words_in_quotes_are_no_functions():
    (batch,) = open_dump([table_of(plain_rows())], where="env = 'max (x)'").batches()
    assert len(batch) == 0
    (batch,) = open_dump([table_of(plain_rows())], where="CAST(step AS VARCHAR(10)) = '1'").batches()
    assert batch.columns["step"].to_list() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("stpe > 1", "frame: there is no column 'stpe'. Did you mean 'step'?"),
        ("envv = 'a' AND step > 1", "frame: there is no column 'envv'. Did you mean 'env'?"),
    ],
)
def test_a_column_that_is_not_there(text, start):
    with pytest.raises(DataError) as caught:
        open_dump([table_of(plain_rows())], where=text)
    assert str(caught.value).startswith(start)


def test_a_column_that_is_only_asked_about_is_not_carried():
    table = table_of(plain_rows()).append_column("difficulty", pa.array(range(ROWS)))
    (batch,) = open_dump([table], where="difficulty < 3").batches()
    assert batch.columns["rollout_id"].to_list() == ["r0", "r1", "r2"]
    assert "difficulty" not in batch.columns.columns


def test_a_run_time_error_is_one_sentence():
    table = table_of(plain_rows())
    with pytest.raises(UsageError, match=r"^--where .*conversion from") as caught:
        list(open_dump([table], where="CAST(env AS INTEGER) = 1").batches())
    assert "\n" not in str(caught.value)
