from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iscope.dump import Sides, open_dump
from iscope.dump.reordered import Reordered
from iscope.dump.window import Window, alongside
from iscope.errors import DataError, UsageError

LENGTHS = [3, 0, 17, 5, 1, 0, 40, 8, 2, 11]


def side(lengths=LENGTHS, *, shift=0.0, keys=None, ids=True, **extra) -> pa.Table:
    """One side: logprob -(100 row + position + 1) - shift, so that every value tells where it came from."""
    rows = range(len(lengths))
    columns = {
        "rollout_id": [f"r{row}" for row in rows] if keys is None else keys,
        "logprobs": pa.array(
            [[-(100.0 * r + t + 1) - shift for t in range(n)] for r, n in zip(rows, lengths, strict=True)],
            pa.list_(pa.float32()),
        ),
    }
    if ids:
        columns["token_ids"] = pa.array(
            [[1000 * r + t for t in range(n)] for r, n in zip(rows, lengths, strict=True)], pa.list_(pa.int32())
        )
    return pa.table(columns | extra)


def with_row(table: pa.Table, column: str, row: int, value) -> pa.Table:
    values = table.column(column).to_pylist()
    values[row] = value
    index = table.schema.get_field_index(column)
    return table.set_column(index, column, pa.array(values, table.schema.field(column).type))


def paired(trainer, inference, **options):
    current, ref, on = options.pop("current", ()), options.pop("ref", ()), options.pop("on", "rollout_id")
    return open_dump(sides=Sides(trainer=trainer, inference=inference, current=current, ref=ref, on=on), **options)


def check_zipped(dump, read, kept) -> None:
    found = read(dump)
    assert found.ids == [f"r{row}" for row in kept]
    whole = side().column("logprobs").to_pylist()
    assert found.inference == [whole[row] for row in kept]
    assert found.trainer == [[x - 0.5 for x in whole[row]] for row in kept]


@pytest.mark.parametrize("batch_tokens", [1, 30, 10_000])
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_sides_are_joined_in_any_order(read, batch_tokens, seed):
    order = np.arange(len(LENGTHS)) if seed is None else np.random.default_rng(seed).permutation(len(LENGTHS))
    dump = paired(side(shift=0.5).take(order), side(), batch_tokens=batch_tokens)
    check_zipped(dump, read, range(len(LENGTHS)))
    assert dump.tally.rollouts_read == len(LENGTHS)
    assert dump.tally.excluded == {}
    assert dump.tally.side_files == {"trainer": 1, "inference": 1}
    assert all(batch.tokens <= batch_tokens or len(batch) == 1 for batch in dump.batches())


def test_rollouts_come_in_the_order_of_the_inference_side(read):
    order = [4, 2, 9, 0]
    check_zipped(paired(side(shift=0.5), side().take(order)), read, order)


@settings(max_examples=40)
@given(data=st.data())
def test_any_subset_and_order(data):
    rows = st.lists(st.sampled_from(range(len(LENGTHS))), unique=True, min_size=1)
    trainer, inference = data.draw(rows), data.draw(rows)
    dump = paired(side(shift=0.5).take(trainer), side().take(inference), batch_tokens=data.draw(st.integers(1, 100)))
    batches = list(dump.batches())
    both = [row for row in inference if row in trainer]
    assert [name for batch in batches for name in batch.columns["rollout_id"]] == [f"r{row}" for row in both]
    assert all(((batch.inference_logprobs - batch.trainer_logprobs) == 0.5).all() for batch in batches)
    only_inference, only_trainer = set(inference) - set(trainer), set(trainer) - set(inference)
    expected = {"unmatched_inference": len(only_inference), "unmatched_trainer": len(only_trainer)}
    assert dump.tally.excluded == {reason: count for reason, count in expected.items() if count}
    assert dump.tally.rollouts_read == len(set(inference) | set(trainer))


def test_many_files_and_row_groups_on_each_side(tmp_path, read):
    lengths = [int(n) for n in np.random.default_rng(3).integers(0, 60, 200)]
    order = np.random.default_rng(4).permutation(200)
    for name, table, files in (("t", side(lengths, shift=0.5).take(order), 7), ("v", side(lengths), 4)):
        for index in range(files):
            first, last = 200 * index // files, 200 * (index + 1) // files
            pq.write_table(table.slice(first, last - first), tmp_path / f"{name}{index}.parquet", row_group_size=9)
    dump = paired(
        str(tmp_path / "t*.parquet"), [tmp_path / f"v{index}.parquet" for index in range(4)], batch_tokens=300
    )
    found = read(dump)
    assert found.inference == side(lengths).column("logprobs").to_pylist()
    assert found.trainer == side(lengths, shift=0.5).column("logprobs").to_pylist()
    assert dump.tally.side_files == {"trainer": 7, "inference": 4}
    assert [file.side for file in dump.files] == ["trainer"] * 7 + ["inference"] * 4


@pytest.mark.parametrize("lacking", ["trainer", "inference"])
def test_a_rollout_that_one_side_lacks(read, lacking):
    sides = {"trainer": side(shift=0.5), "inference": side()}
    sides[lacking] = sides[lacking].filter(pa.array([row != 2 for row in range(len(LENGTHS))]))
    dump = paired(**sides)
    check_zipped(dump, read, [row for row in range(len(LENGTHS)) if row != 2])
    other = {"trainer": "inference", "inference": "trainer"}[lacking]
    assert dump.tally.excluded == {f"unmatched_{other}": 1}
    assert dump.tally.rollouts_read == len(LENGTHS)


def test_no_rollout_in_common():
    dump = paired(side([1, 2]), side([1, 2], keys=["x", "y"]))
    assert [len(batch) for batch in dump.batches()] == [0]
    assert dump.tally.excluded == {"unmatched_inference": 2, "unmatched_trainer": 2}
    assert dump.tally.rollouts_read == 4


@pytest.mark.parametrize("row", [0, 2, 9])
@pytest.mark.parametrize("position", [0, -1])
def test_a_differing_token_id(read, row, position):
    ids = side().column("token_ids")[row].as_py()
    ids[position] += 1
    dump = paired(with_row(side(shift=0.5), "token_ids", row, ids), side())
    check_zipped(dump, read, [r for r in range(len(LENGTHS)) if r != row])
    assert dump.tally.excluded == {"token_ids_differ": 1}


def test_token_ids_of_other_integer_types(read):
    table = side(shift=0.5)
    table = table.set_column(2, "token_ids", table.column("token_ids").cast(pa.large_list(pa.int64())))
    check_zipped(paired(table, side()), read, range(len(LENGTHS)))


@pytest.mark.parametrize("column", ["logprobs", "token_ids"])
@pytest.mark.parametrize("change", [1, -1])
def test_differing_lengths_are_never_zipped(read, column, change):
    values = side(shift=0.5).column(column)[6].as_py()
    values = [*values, values[-1]] if change == 1 else values[:-1]
    dump = paired(with_row(side(shift=0.5), column, 6, values), side())
    check_zipped(dump, read, [row for row in range(len(LENGTHS)) if row != 6])
    assert dump.tally.excluded == {"lengths_differ": 1}


@pytest.mark.parametrize("where", ["trainer", "inference"])
def test_duplicated_keys(read, where):
    sides = {"trainer": side(shift=0.5), "inference": side()}
    sides[where] = pa.concat_tables([sides[where], sides[where].slice(2, 1)])
    dump = paired(**sides)
    check_zipped(dump, read, [row for row in range(len(LENGTHS)) if row != 2])
    assert dump.tally.excluded == {"duplicate_key": 1}
    assert dump.tally.rollouts_read == len(LENGTHS)


def test_null_keys_and_null_lists(read):
    trainer = with_row(with_row(side(shift=0.5), "rollout_id", 0, None), "logprobs", 3, None)
    dump = paired(trainer, with_row(side(), "token_ids", 4, None))
    check_zipped(dump, read, [1, 2, 5, 6, 7, 8, 9])
    assert dump.tally.excluded == {
        "null_key": 1,
        "unmatched_inference": 1,
        "null_trainer_logprobs": 1,
        "null_inference_token_ids": 1,
    }
    assert dump.tally.rollouts_read == len(LENGTHS) + 1


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.float64(), pa.string(), pa.large_string()], ids=str)
def test_keys_of_different_types(kind):
    keys = pa.array(range(len(LENGTHS))).cast(kind)
    dump = paired(side(keys=keys), side(keys=[str(row) for row in range(len(LENGTHS))]))
    assert sum(map(len, dump.batches())) == len(LENGTHS)
    assert dump.tally.excluded == {}


def test_another_key():
    trainer = side([2, 3], keys=["a", "b"], sample_index=[7, 8])
    inference = side([2, 3], keys=["x", "y"], sample_index=[7, 8])
    (batch,) = paired(trainer, inference, on="sample_index").batches()
    assert batch.columns["rollout_id"].to_list() == ["7", "8"]


def test_an_aliased_key():
    trainer = side([2, 3]).rename_columns(["trajectory_id", "logprobs", "token_ids"])
    (batch,) = paired(trainer, side([2, 3])).batches()
    assert batch.columns["rollout_id"].to_list() == ["r0", "r1"]


def test_who_wins_shared_columns_and_which_conflicts_are_counted():
    shared = {"reward": [1.0, 2.0], "policy_version": [1, 1], "group_id": ["g", "g"], "temperature": [1.0, 1.0]}
    trainer = side([1, 2], step=[5, 6], advantage=pa.array([0.1, 0.2], pa.float32()), loss_mask=[[1], [1, 0]], **shared)
    inference = side(
        [1, 2],
        step=[5, 7],
        advantage=[0.1, 0.2],
        loss_mask=[[True], [True, True]],
        reward=[1.0, None],
        policy_version=[2, 2],
        group_id=["g", "h"],
        temperature=[1.0, 0.7],
        trainer_version=[3, 3],
    )
    dump = paired(trainer, inference)
    (batch,) = dump.batches()
    assert batch.loss_mask.tolist() == [True, True, False]
    assert batch.columns.to_dict(as_series=False) == {
        "rollout_id": ["r0", "r1"],
        "group_id": ["g", "h"],
        "step": [5, 6],
        "reward": [1.0, 2.0],
        "policy_version": [2, 2],
        "trainer_version": [3, 3],
        "temperature": [1.0, 0.7],
    }
    assert dump.tally.conflicts == {"step": 1, "loss_mask": 1, "policy_version": 2, "group_id": 1, "temperature": 1}


def test_carried_columns_come_from_the_side_that_has_them():
    dump = paired(side([1, 2], loss=[0.5, 0.25]), side([1, 2], prompt_id=[3, 4]), carry=["prompt_id", "loss"])
    (batch,) = dump.batches()
    assert batch.columns["prompt_id"].to_list() == [3, 4]
    assert batch.columns["loss"].to_list() == [0.5, 0.25]


@pytest.mark.parametrize("extra", ["current", "ref"])
def test_a_third_side(extra):
    dump = paired(side(shift=0.5), side(), **{extra: side(shift=0.75).slice(1)})
    batches = list(dump.batches())
    for batch in batches:
        assert (batch.inference_logprobs - getattr(batch, f"{extra}_logprobs") == 0.75).all()
    assert sum(map(len, batches)) == len(LENGTHS) - 1
    assert dump.tally.excluded == {f"missing_{extra}": 1}
    assert f"{extra}_logprobs" in dump.present


def test_a_third_side_with_a_rollout_of_its_own():
    dump = paired(side([1]), side([1]), current=side([1, 2]))
    assert sum(map(len, dump.batches())) == 1
    assert dump.tally.excluded == {"unmatched_current": 1}


def test_current_logprobs_in_the_trainer_file():
    trainer = side([2, 1], current_logprobs=[[-1.0, -2.0], [-3.0]])
    (batch,) = paired(trainer, side([2, 1])).batches()
    assert batch.current_logprobs.tolist() == [-1.0, -2.0, -3.0]


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        (True, "The sides trainer, inference were paired on rollout_id; their token ids were compared."),
        (
            False,
            "The sides trainer, inference were paired on rollout_id; token ids were not compared for all of them, "
            "since there are none on: trainer.",
        ),
    ],
)
def test_pairing_is_said(ids, sentence):
    assert paired(side([1], ids=ids), side([1])).assumptions[0] == sentence


def test_framework_names_and_overrides_on_sides():
    trainer = side([1]).rename_columns(["rollout_id", "old_log_probs", "token_ids"])
    inference = side([1]).rename_columns(["rollout_id", "lp", "token_ids"])
    dump = paired(trainer, inference, columns={"inference": "lp"})
    assert sum(map(len, dump.batches())) == 1


STRICT = {
    "unmatched": (side([1, 2]), side([1]), "row 1 has no row with 'rollout_id' 'r1' on the inference side"),
    "duplicate": (side([1]), side([1, 2], keys=["r0", "r0"]), "row 0 shares its 'rollout_id' 'r0' with another row"),
    "null key": (side([1]), side([1, 2], keys=["r0", None]), "row 1 has a null in 'rollout_id'"),
    "ids": (side([1, 2]), with_row(side([1, 2]), "token_ids", 1, [5, 6]), "row 1: trainer_token_ids and"),
    "lengths": (side([1, 3]), side([1, 2]), "row 1: trainer_logprobs and inference_logprobs of this rollout differ"),
}


@pytest.mark.parametrize(("trainer", "inference", "text"), STRICT.values(), ids=STRICT)
def test_strict(trainer, inference, text):
    with pytest.raises(DataError) as caught:
        list(paired(trainer, inference, strict=True).batches())
    assert text in str(caught.value)
    assert "--strict" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_mask_that_does_not_fit_its_own_file():
    with pytest.raises(DataError, match="trainer: row 1: 'loss_mask' has 1 tokens and 'logprobs' 2"):
        list(paired(side([1, 2], loss_mask=[[1], [1]]), side([1, 2])).batches())


@pytest.mark.parametrize("given", ["trainer", "inference"])
def test_one_side_alone_is_refused(given):
    other, option = {"trainer": ("inference", "--vllm"), "inference": ("trainer", "--trainer")}[given]
    with pytest.raises(UsageError, match=f"the {given} side was given without the {other} side \\({option}\\)"):
        open_dump(sides=Sides(**{given: side([1])}))


def test_a_spilled_glob_is_hinted_at():
    with pytest.raises(UsageError, match="quote it so that the shell does not expand it"):
        open_dump(["b.parquet"], sides=Sides(trainer=side([1]), inference=side([1])))


@pytest.mark.parametrize(
    ("trainer", "inference", "options", "text"),
    [
        (side([1]).drop(["rollout_id"]), side([1]), {}, "trainer: there is no column 'rollout_id'"),
        (side([1]).drop(["logprobs"]), side([1]), {}, "trainer: there is no column 'trainer_logprobs'"),
        (side([1]), side([]), {}, "inference: the inference side is empty"),
        (side([1]), side([1]), {"columns": {"mask": "m"}}, "no file of the side it would belong to has a column 'm'"),
        (side([1]), side([1]), {"columns": {"trainer": "x"}}, "trainer: there is no column 'x'"),
        (side([1]), side([1]), {"carry": ["x"]}, "there is no column 'x'"),
        (side([1]), side([1]).rename_columns(["rollout_id", "old_logp", "token_ids"]), {}, "different policies"),
    ],
)
def test_sides_that_cannot_be_read(trainer, inference, options, text):
    with pytest.raises(DataError) as caught:
        paired(trainer, inference, **options)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


VERDICTS = {
    "equal": ([5, 6, 7], [5, 6, 7]),
    "prefix": ([5, 6, 7], [5, 6]),
    "prefix ": ([5, 6], [5, 6, 7]),
    "prefix  ": ([], [5]),
    "suffix": ([4, 5, 6], [5, 6]),
    "ids_differ": ([5, 6, 7], [5, 9, 7]),
    "ids_differ ": ([5, 6, 7], [5, 9]),
}


@pytest.mark.parametrize(("verdict", "ids"), VERDICTS.items(), ids=VERDICTS)
def test_a_verdict_on_the_ids(verdict, ids):
    """Also where the sides are left out for it: what they had in common is what tells the cause."""
    tables = [
        pa.table(
            {
                "rollout_id": ["a"],
                "logprobs": pa.array([[-1.0] * len(row)], pa.list_(pa.float32())),
                "token_ids": pa.array([row], kind),
            }
        )
        for row, kind in zip(ids, (pa.list_(pa.int32()), pa.large_list(pa.int64())), strict=True)
    ]
    dump = paired(*tables)
    kept = sum(map(len, dump.batches()))
    assert dump.tally.pairing == {verdict.strip(): 1}
    reason = "token_ids_differ" if len(ids[0]) == len(ids[1]) else "lengths_differ"
    assert dump.tally.excluded == ({} if verdict == "equal" else {reason: 1})
    assert kept == (verdict == "equal")


def test_ids_that_are_not_there_are_unknown():
    dump = paired(side([1, 2], ids=False), side([1, 2]))
    list(dump.batches())
    assert dump.tally.pairing == {"ids_unknown": 2}


@pytest.mark.parametrize("buckets", [1, 3, 7, 1000])
@pytest.mark.parametrize("batch_tokens", [1, 30, 10_000])
def test_a_side_sorted_on_disk_is_joined_alike(monkeypatch, read, buckets, batch_tokens):
    taken = []

    def sorted_on_disk(table, asked, tokens):
        taken.append(Reordered(table, asked, tokens, buckets))
        return taken[-1]

    monkeypatch.setattr("iscope.dump.pairing.alongside", sorted_on_disk)
    order = np.random.default_rng(5).permutation(len(LENGTHS))
    check_zipped(paired(side(shift=0.5).take(order), side(), batch_tokens=batch_tokens), read, range(len(LENGTHS)))
    kept = [row for row in range(len(LENGTHS)) if row not in (1, 4, 9)]
    check_zipped(paired(side(shift=0.5).take(kept[::-1]), side(), batch_tokens=batch_tokens), read, kept)
    assert len(taken) == 2


def test_a_side_is_sorted_on_disk_where_a_window_would_hold_too_much():
    from iscope.dump.sides import open_sides

    rows = side([50] * 200)
    order = np.random.default_rng(6).permutation(200)
    table = open_sides(Sides(trainer=rows, inference=rows), {}, [], strict=False).tables["trainer"]
    assert isinstance(alongside(table, np.arange(200), 1000, most=rows.nbytes // 10), Window)
    assert isinstance(alongside(table, order, 1000, most=rows.nbytes // 10), Reordered)
    assert isinstance(alongside(table, order, 1000), Window)
