from __future__ import annotations

import gzip
import itertools
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import iscope
from iscope.dump import open_dump
from tests.dump.importers import layouts

ROWS = layouts.rollouts()


def scored(dump):
    """What figures are made of: per rollout with loss tokens, its loss tokens' values and its labels, sorted."""
    found = []
    for batch in dump.batches():
        edges = batch.offsets.tolist()
        per_token = batch.advantage_per_token
        for row, (first, last) in enumerate(itertools.pairwise(edges)):
            mask = batch.loss_mask[first:last]
            advantage = batch.advantage[first:last][mask] if per_token else batch.advantage[row : row + 1]
            values = [x[first:last][mask].tolist() for x in (batch.trainer_logprobs, batch.inference_logprobs)]
            if mask.any():
                found.append((*values, set(advantage.tolist()), batch.columns["step"][row]))
    return sorted(found, key=lambda row: row[:2])


@pytest.fixture(scope="module")
def expected():
    return scored(open_dump([layouts.canonical(ROWS)]))


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("name", layouts.WHOLE)
def test_every_loss_token_arrives(tmp_path, name, expected, forced):
    path = layouts.WHOLE[name](ROWS, tmp_path)
    dump = open_dump([path], from_format=layouts.NAMES[name] if forced else None)
    assert scored(dump) == expected
    assert scored(dump) == expected  # a second pass reads the same
    assert dump.tally.excluded == {}


def figures(report):
    """A report without what names files or tells its rollouts apart."""
    data = report.to_dict()
    for name in ("provenance", "assumptions", "findings", "coverage", "verdict", "worst", "sampling"):
        data.pop(name, None)
    return data


def close(found, expected, path=""):
    """Equal up to the order in which rollouts are added."""
    if isinstance(expected, dict):
        # Intervals draw groups in the order of their names, and TRL's batch has no groups.
        keys, ours = (set(side) - {"low", "high"} for side in (expected, found))
        assert ours == keys, path
        for key in keys:
            close(found[key], expected[key], f"{path}/{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), path
        for index, item in enumerate(expected):
            close(found[index], item, f"{path}/{index}")
    elif isinstance(expected, float):
        assert math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12), (path, found, expected)
    else:
        assert found == expected, path


@pytest.mark.parametrize("name", layouts.WHOLE)
def test_figures_are_those_of_the_canonical_dump(tmp_path, name):
    rows = [row for row in ROWS if row.length]  # long form and prime-rl cannot tell rollouts without tokens
    recipes = ["none", "trl/token_mask", "icepop", "prime-rl/seq_mis"]
    report = iscope.analyze(layouts.WHOLE[name](rows, tmp_path), recipes=recipes)
    table = layouts.canonical(rows)
    if name == "prime-rl":  # its trainer logprobs are those of the step that consumes the sample
        table = table.append_column("trainer_version", table.column("step"))
    close(figures(report), figures(iscope.analyze(table, recipes=recipes)))


@pytest.mark.parametrize("name", layouts.ENGINE)
def test_an_engines_responses_are_the_inference_side(tmp_path, name):
    ids = [f"q{index // 4}/{index % 4}" for index in range(len(ROWS))]
    trainer = pa.table(
        {
            "rollout_id": ids,
            "logprobs": [row.trainer for row in ROWS],
            "token_ids": pa.array([row.ids for row in ROWS], pa.list_(pa.int64())),
            "loss_mask": [row.mask for row in ROWS],
            "advantage": [row.advantage for row in ROWS],
        }
    )
    engine = layouts.ENGINE[name](ROWS, tmp_path)
    dump = open_dump(sides=iscope.dump.Sides(trainer=trainer, inference=engine))
    (batch,) = dump.batches()
    assert batch.columns["rollout_id"].to_list() == ids
    assert batch.inference_logprobs.tolist() == [x for row in ROWS for x in row.inference]
    assert batch.trainer_logprobs.tolist() == [x for row in ROWS for x in row.trainer]
    assert dump.tally.excluded == {}
    assert "token ids were compared" in dump.assumptions[0]
    assert any("the inference side" in said for said in dump.assumptions)


def test_the_sampled_tokens_entry_is_missing(tmp_path):
    """Never the first entry: a position whose sampled token has none is unscored."""
    outputs = [{"index": 0, "token_ids": [5, 6], "logprobs": [{"5": {"logprob": -1.0}}, {"9": {"logprob": -0.1}}]}]
    path = layouts.lines(tmp_path / "o.jsonl", [{"request_id": "a", "outputs": outputs}])
    trainer = pa.table({"rollout_id": ["a"], "logprobs": [[-1.0, -2.0]]})
    (batch,) = open_dump(sides=iscope.dump.Sides(trainer=trainer, inference=path)).batches()
    assert batch.inference_logprobs[0] == -1.0
    assert batch.nulls["inference_logprobs"].tolist() == [False, True]


def test_groups_are_told_by_the_prompt(tmp_path):
    for name in ("prime-rl", "nemo-rl", "slime", "miles", "skyrl", "verl"):
        folder = tmp_path / name
        folder.mkdir()
        dump = open_dump([layouts.WHOLE[name](ROWS, folder)])
        frames = [batch.columns for batch in dump.batches()]
        groups = [group for frame in frames for group in frame["group_id"].to_list()]
        sizes = sorted(groups.count(group) for group in set(groups))
        assert sizes == ([3, 4, 4] if name == "prime-rl" else [4, 4, 4]), name


def test_prompts_and_padding_stay_out(tmp_path):
    (batch,) = open_dump([layouts.write_nemo_rl(ROWS, tmp_path)]).batches()
    assert batch.offsets.diff().tolist() == [len(row.prompt) + row.length for row in ROWS]
    assert not batch.trainer_logprobs.isnan().any()
    (batch,) = open_dump([layouts.write_skyrl(ROWS, tmp_path)]).batches()
    assert batch.offsets.diff().tolist() == [row.length for row in ROWS]
    assert -3.5 not in batch.trainer_logprobs.tolist()
    assert torch.allclose(batch.ref_logprobs, torch.tensor([x for row in ROWS for x in row.ref]), atol=0.05)


def test_a_folder_is_read_without_evaluations_and_unfinished_steps(tmp_path):
    home = layouts.write_prime_rl(ROWS, tmp_path)
    unfinished = home / "step_8"
    unfinished.mkdir()
    (unfinished / "rank_0.jsonl").write_text('{"half')
    dump = open_dump([home])
    assert [file.path.rsplit("/", 2)[1:] for file in dump.files] == [
        ["step_7", "rank_0.jsonl"],
        ["step_7", "rank_1.jsonl"],
    ]


def test_a_folder_with_both_kinds_of_slimes_files(tmp_path):
    dump = open_dump([layouts.write_slime(ROWS, tmp_path)])
    assert [file.path.rsplit("/", 2)[1:] for file in dump.files] == [["train_data", "7.pt"]]
    assert any("rollout_data/7.pt" in said for said in dump.assumptions)


def test_slimes_two_files_can_be_paired(tmp_path):
    home = layouts.write_slime(ROWS, tmp_path)
    sides = iscope.dump.Sides(trainer=home / "train_data", inference=home / "rollout_data" / "7.pt")
    dump = open_dump(sides=sides)
    (batch,) = dump.batches()
    assert dump.tally.excluded == {}
    assert batch.columns["policy_version"].to_list() == [3] * len(ROWS)
    assert batch.inference_logprobs.tolist() == [x for row in ROWS for x in row.inference]


def test_prime_rls_traces_and_their_annotations_are_paired(tmp_path):
    stream, trainer = layouts.write_traces(ROWS, tmp_path)
    dump = open_dump(sides=iscope.dump.Sides(trainer=trainer, inference=stream), from_format="prime-rl")
    (batch,) = dump.batches()
    rows = [row for row in ROWS if any(row.mask)]
    assert dump.tally.excluded == {"unmatched_trainer": len(ROWS) - len(rows)}
    mask = batch.loss_mask
    for values, name in ((batch.trainer_logprobs, "trainer"), (batch.inference_logprobs, "inference")):
        kept = [x for row in rows for x, keep in zip(getattr(row, name), row.mask, strict=True) if keep]
        assert values[mask].tolist() == kept
    assert batch.columns["policy_version"].to_list() == [layouts.STEP - 1] * len(rows)
    assert any("4 decimals" in said for said in dump.assumptions)


def test_a_node_that_branches_share_trains_once(tmp_path):
    def node(parent, ids, mask, logprobs):
        return {"parent": parent, "token_ids": ids, "mask": mask, "logprobs": logprobs}

    nodes = [node(None, [1], [0], []), node(0, [2, 3], [1, 1], [-1.0, -2.0])]
    nodes += [node(1, [4], [1], [-3.0]), node(1, [5, 6], [0, 1], [-4.0])]
    path = layouts.lines(tmp_path / "00000.jsonl", [{"id": "e", "traces": [{"id": "t", "nodes": nodes}]}])
    lengths = {"t/0": 4, "t/1": 5}
    trainer = pa.table({"rollout_id": list(lengths), "logprobs": [[-1.0] * n for n in lengths.values()]})
    (batch,) = open_dump(sides=iscope.dump.Sides(trainer=trainer, inference=path)).batches()
    assert batch.loss_mask.tolist() == [False, True, True, True, False, False, False, False, True]
    assert batch.inference_logprobs[batch.loss_mask].tolist() == [-1.0, -2.0, -3.0, -4.0]


def test_miles_columns_are_the_inference_side(tmp_path):
    rows = [row for row in ROWS if row.length]
    table = pa.table(
        {
            "sample_index": list(range(len(rows))),
            "response_length": [row.length for row in rows],
            "total_length": [len(row.prompt) + row.length for row in rows],
            "tokens": [row.prompt + row.ids for row in rows],
            "loss_mask": [row.mask for row in rows],
            "rollout_log_probs": [row.inference for row in rows],
        }
    )
    (tmp_path / "dashboard_columns").mkdir()
    pq.write_table(table, tmp_path / "dashboard_columns" / "rollout_7.parquet", row_group_size=8)
    sides = iscope.dump.Sides(trainer=layouts.write_miles(rows, tmp_path), inference=tmp_path / "dashboard_columns")
    dump = open_dump(sides=sides)
    batches = list(dump.batches())
    assert sum(map(len, batches)) == len(rows)
    assert dump.tally.excluded == {}


@pytest.mark.parametrize("order", ["positions", "scattered"])
def test_long_form_in_any_order(tmp_path, order, expected):
    table = layouts.long_table(ROWS)
    rng = np.random.default_rng(1)
    if order == "scattered":
        table = table.take(pa.array(rng.permutation(table.num_rows)))
    else:
        key = np.array(table.column("rollout_id").to_pylist())
        table = table.take(pa.array(np.lexsort((rng.random(len(key)), key))))
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=7)
    assert scored(open_dump([tmp_path])) == expected


def test_long_form_in_memory(expected):
    assert scored(open_dump([layouts.long_table(ROWS)])) == expected


@pytest.mark.parametrize("compress", ["gz", "zst"])
def test_compressed_lines(tmp_path, compress, expected):
    data = layouts.write_canonical_jsonl(ROWS, tmp_path).read_bytes()
    path = tmp_path / f"other.jsonl.{compress}"
    path.write_bytes(gzip.compress(data) if compress == "gz" else pa.compress(data, "zstd", asbytes=True))
    assert scored(open_dump([path])) == expected


def test_null_and_nan_are_told_apart(tmp_path):
    record = {"trainer_logprobs": [-1.0, None, math.nan, -math.inf], "inference_logprobs": [-1.0] * 4}
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(record) + "\n\n")
    report = iscope.analyze(path, recipes=["none"])
    assert report.coverage.tokens_unscored["nan"] == 1
    assert report.coverage.tokens_unscored["null"] == 1
    assert report.coverage.tokens_unscored["neg_inf"] == 1


def test_hive_folders_of_lines(tmp_path):
    (tmp_path / "step=3").mkdir()
    rows = [{name: value for name, value in r.items() if name != "step"} for r in layouts.canonical(ROWS).to_pylist()]
    layouts.lines(tmp_path / "step=3" / "a.jsonl", rows)
    (batch,) = open_dump([tmp_path]).batches()
    assert batch.columns["step"].to_list() == [3] * len(ROWS)


def test_temporary_files_go_with_the_dump(tmp_path, monkeypatch):
    import gc

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    dump = open_dump([layouts.write_canonical_jsonl(ROWS, tmp_path)])
    assert len(list((tmp_path / "temporary").iterdir())) == 1
    list(dump.batches())
    del dump
    gc.collect()
    assert list((tmp_path / "temporary").iterdir()) == []
