from __future__ import annotations

import pyarrow as pa
import pytest

from iscope.dump import open_dump
from iscope.dump.schema import ALIASES, AMBIGUOUS, CANONICAL, PLAIN
from iscope.errors import DataError, UsageError

T, V = [[-1.0, -2.0]], [[-1.5, -2.5]]


def values(columns, /, **options):
    (batch,) = open_dump([pa.table(columns)], **options).batches()
    return batch


@pytest.mark.parametrize(
    ("trainer", "inference"),
    [
        ("old_per_token_logps", "sampling_per_token_logps"),
        ("old_log_probs", "rollout_log_probs"),
        ("log_probs", "rollout_log_probs"),
        ("prev_logprobs", "generation_logprobs"),
        ("action_log_probs", "rollout_logprobs"),
        ("trainer_logprobs", "vllm_logprobs"),
        ("prox_logp", "inference_logprobs"),
    ],
)
def test_names_of_the_frameworks(trainer, inference):
    dump = open_dump([pa.table({inference: V, trainer: T})])
    (batch,) = dump.batches()
    assert batch.trainer_logprobs.tolist() == T[0]
    assert batch.inference_logprobs.tolist() == V[0]
    assert dump.files[0].columns == {"trainer_logprobs": trainer, "inference_logprobs": inference}


@pytest.mark.parametrize(("column", "alias"), [(c, a) for c, aliases in ALIASES.items() for a in aliases])
def test_every_alias_is_recognised(column, alias):
    value = [[1, 0]] if column == "token_ids" else [[-1.0, -2.0]] if column.endswith("s") else [[1, 1]]
    scalars = ("rollout_id", "group_id", "step", "policy_version", "trainer_version", "reward", "finish_reason", "env")
    columns = {"trainer_logprobs": T, "inference_logprobs": V} | {alias: [3] if column in scalars else value}
    if column in ("trainer_logprobs", "inference_logprobs"):
        del columns[column]
    dump = open_dump([pa.table(columns)])
    assert (column in dump.present) == (column != "token_ids")


def test_no_name_means_two_things():
    names = [*CANONICAL, *(alias for aliases in ALIASES.values() for alias in aliases), *AMBIGUOUS]
    assert len(set(names)) == len(names)
    assert set(ALIASES) <= set(CANONICAL)
    assert not set(PLAIN) & (set(names) - {"log_probs", *AMBIGUOUS})


def test_present_and_columns():
    dump = open_dump(
        [
            pa.table(
                {
                    "trainer_logprobs": T,
                    "inference_logprobs": V,
                    "current_logprobs": T,
                    "ref_logprobs": V,
                    "rollout_id": [5],
                    "uid": [9],
                    "global_step": [3],
                    "reward": [True],
                    "advantages": [1],
                    "weight_versions": [[4, 5]],
                    "temperature": [0.7],
                    "text": ["secret"],
                }
            )
        ],
        carry=["global_step", "text", "advantage", "step"],
    )
    (batch,) = dump.batches()
    assert dump.present == {
        "trainer_logprobs",
        "inference_logprobs",
        "current_logprobs",
        "ref_logprobs",
        "rollout_id",
        "group_id",
        "step",
        "reward",
        "advantage",
        "policy_version",
        "temperature",
    }
    assert batch.columns.to_dict(as_series=False) == {
        "rollout_id": ["5"],
        "group_id": ["9"],
        "step": [3],
        "reward": [1.0],
        "policy_version": [[4, 5]],
        "temperature": [0.7],
        "global_step": [3],
        "text": ["secret"],
        "advantage": [1],
    }
    assert dump.carried == ("global_step", "text", "advantage", "step")
    assert batch.current_logprobs.tolist() == T[0]
    assert batch.ref_logprobs.tolist() == V[0]
    assert batch.advantage.tolist() == [1.0]


def test_whole_float_ids_are_integers():
    assert values({"trainer_logprobs": T, "inference_logprobs": V, "rollout_id": [7.0]}).columns["rollout_id"][0] == "7"


def test_null_ids_get_the_default():
    columns = {"trainer_logprobs": T * 2, "inference_logprobs": V * 2, "rollout_id": ["a", None]}
    assert values(columns).columns["rollout_id"].to_list() == ["a", "frame#1"]


def test_missing_mask_is_said():
    dump = open_dump([pa.table({"trainer_logprobs": T, "inference_logprobs": V})])
    assert [batch.loss_mask for batch in dump.batches()] == [None]
    assert dump.assumptions == [
        "The dump has no loss_mask: every token is taken as trained, prompt and tool tokens included."
    ]
    with_mask = {"trainer_logprobs": T, "inference_logprobs": V, "loss_mask": [[1, 1]]}
    assert open_dump([pa.table(with_mask)]).assumptions == []


@pytest.mark.parametrize(
    "overrides",
    [{"trainer": "a", "inference": "b"}, {"trainer_logprobs": "a", "inference_logprobs": "b", "mask": "c"}],
)
def test_overrides(overrides):
    batch = values({"b": V, "a": T, "c": [[0, 1]]}, columns=overrides)
    assert batch.trainer_logprobs.tolist() == T[0]
    assert batch.inference_logprobs.tolist() == V[0]
    assert (batch.loss_mask is None) == ("mask" not in overrides)


def test_an_override_settles_what_is_ambiguous():
    columns = {"old_log_probs": T, "prev_logprobs": V, "rollout_logprobs": V, "loss_mask": [[1, 1]]}
    assert values(columns, columns={"trainer": "prev_logprobs"}).trainer_logprobs.tolist() == V[0]


def test_an_empty_override_leaves_a_column_out():
    columns = {"trainer_logprobs": T, "inference_logprobs": V, "rewards": [[1.0]]}
    with pytest.raises(DataError, match=r"'rewards' \(read as reward\) is list<\w+: double>"):
        open_dump([pa.table(columns)])
    assert "reward" not in values(columns, columns={"reward": ""}).columns.columns


def test_an_all_null_optional_column_is_absent():
    columns = {"trainer_logprobs": T, "inference_logprobs": V, "advantage": pa.nulls(1)}
    assert values(columns).advantage is None


def test_unknown_override():
    with pytest.raises(UsageError, match=r"'trainr' is not a column of a dump\. Did you mean 'trainer'\?"):
        open_dump([pa.table({"trainer_logprobs": T})], columns={"trainr": "x"})


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_names_that_differ_between_frameworks_are_refused(name):
    with pytest.raises(DataError, match="means different policies") as caught:
        open_dump([pa.table({name: T, "vllm_logprobs": V})])
    assert "--columns trainer=NAME,inference=NAME" in str(caught.value)
    assert values({name: T, "vllm_logprobs": V}, columns={"trainer": name}).trainer_logprobs.tolist() == T[0]


def test_plain_logprobs_say_nothing_without_sides():
    with pytest.raises(DataError, match="'logprobs' does not say whose logprobs it holds") as caught:
        open_dump([pa.table({"logprobs": V, "old_log_probs": T})])
    assert "--columns inference=logprobs" in str(caught.value)


@pytest.mark.parametrize(
    ("extra", "column"),
    [
        ({"old_log_probs": T}, "trainer_logprobs"),
        ({"vllm_logprobs": V}, "inference_logprobs"),
        ({"loss_mask": [[1, 1]], "response_mask": [[1, 1]]}, "loss_mask"),
        ({"advantage": [1.0], "advantages": [1.0]}, "advantage"),
        ({"global_step": [1], "train_step": [1]}, "step"),
    ],
)
def test_two_candidates_are_refused(extra, column):
    with pytest.raises(DataError, match=f"could each be {column}; choose with --columns {column}="):
        open_dump([pa.table({"trainer_logprobs": T, "inference_logprobs": V} | extra)])


def test_a_canonical_id_wins_over_its_aliases():
    columns = {"trainer_logprobs": T, "inference_logprobs": V, "sample_id": ["x"], "rollout_id": ["y"]}
    assert values(columns).columns["rollout_id"].to_list() == ["y"]


def test_unknown_carried_column():
    with pytest.raises(DataError, match=r"there is no column 'lenght'\. Did you mean 'length'\?"):
        open_dump([pa.table({"trainer_logprobs": T, "inference_logprobs": V, "length": [2]})], carry=["lenght"])


def test_names_that_would_break_a_sentence_are_spelled_out():
    with pytest.raises(DataError) as caught:
        open_dump([pa.table({"trainer_logprobs": T, "inference_logprobs": V, "a\nb": [2]})], carry=["c"])
    assert str(caught.value).endswith(r"Its columns are: trainer_logprobs, inference_logprobs, 'a\nb'.")
