"""Token ids and text of the worst rollouts and tokens, against plain loops over what was written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iscope import RolloutBatch, analyze, compare
from iscope.dump import lookup
from iscope.errors import DataError, UsageError
from iscope.model import Report
from iscope.model.shown import Completion, StripTokens
from tests.dump.importers import layouts

Rows = list[dict[str, Any]]
NO_TEXT = "the dump has no column of text, and no tokenizer is loaded to decode token ids"


def made(count: int = 30, *, masked: bool = True) -> Rows:
    """Rollouts of 1 to 9 tokens whose ids and texts say where they are from; some tokens do not train."""
    rows = []
    for row in range(count):
        tokens = range(1 + row * 7 % 9)
        rows.append(
            {
                "rollout_id": f"r{row:02}",
                "trainer_logprobs": [-1.0 - 0.01 * row for _ in tokens],
                "inference_logprobs": [-1.0 - 0.1 * ((row + token) % 5) for token in tokens],
                "loss_mask": [not masked or (row + token) % 3 != 0 for token in tokens],
                "token_ids": [1000 * row + token for token in tokens],
                "token_texts": [f" {row}/{token}" for token in tokens],
                "completion": f"all of {row}",
            }
        )
    return rows


def without(rows: Rows, *names: str) -> Rows:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def worst(report: Report) -> Any:
    return report.parts["worst"]


def strips(report: Report) -> list[Any]:
    return [row["strip"] for row in worst(report)["rollouts"]]


def run(rows: Rows, **options: Any) -> Report:
    return analyze(pl.DataFrame(rows), recipes=["none"], **options)


def expected(row: dict[str, Any], positions: list[int], column: str) -> list[Any]:
    first = row["loss_mask"].index(True)
    return [row[column][first + position] for position in positions]


def check(report: Report, rows: Rows, *, text: bool) -> None:
    by_id = {row["rollout_id"]: row for row in rows}
    listed = worst(report)["rollouts"]
    assert listed
    for one in listed:
        strip, row = one["strip"], by_id[one["rollout_id"]]
        assert strip["token_ids"] == expected(row, strip["positions"], "token_ids")
        assert ("texts" in strip) == text
        assert strip.get("texts", []) == (expected(row, strip["positions"], "token_texts") if text else [])
        assert "completion" not in one
    for token in worst(report)["tokens"]:
        row = by_id[token["rollout_id"]]
        assert [token["token_id"]] == expected(row, [token["position"]], "token_ids")
        assert ([token["text"]] if text else []) == (
            expected(row, [token["position"]], "token_texts") if text else [token[k] for k in ("text",) if k in token]
        )


@pytest.mark.parametrize("text", [False, True])
def test_a_strip_says_which_tokens_it_is_of(text: bool) -> None:
    rows = made()
    check(run(rows, include_text=text), rows, text=text)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("group", [1, 4, 100])
def test_in_files_of_many_row_groups(tmp_path: Path, group: int, text: bool) -> None:
    rows = made(60)
    for part in (0, 1):
        table = pa.Table.from_pylist(rows[30 * part : 30 * part + 30])
        pq.write_table(table, tmp_path / f"{part}.parquet", row_group_size=group)
    check(analyze(tmp_path, recipes=["none"], include_text=text), rows, text=text)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.tuples(st.booleans(), st.floats(-3, 0, width=32)), max_size=6), min_size=1, max_size=8))
def test_whatever_trains(drawn: list[list[tuple[bool, float]]]) -> None:
    rows = [
        {
            "rollout_id": f"r{row}",
            "trainer_logprobs": [value for _, value in tokens],
            "inference_logprobs": [-1.0] * len(tokens),
            "loss_mask": [mask for mask, _ in tokens],
            "token_ids": [100 * row + token for token in range(len(tokens))],
        }
        for row, tokens in enumerate(drawn)
    ]
    kinds = {"loss_mask": pa.list_(pa.bool_()), "token_ids": pa.list_(pa.int32()), "rollout_id": pa.string()}
    schema = pa.schema([(name, kinds.get(name, pa.list_(pa.float32()))) for name in rows[0]])
    report = analyze(pa.Table.from_pylist(rows, schema), recipes=["none"])
    by_id = {row["rollout_id"]: row for row in rows}
    for one in worst(report)["rollouts"] if "worst" in report.parts else []:
        row = by_id[one["rollout_id"]]
        scored = [index for index, mask in enumerate(row["loss_mask"]) if mask]
        assert one["strip"]["token_ids"] == [row["token_ids"][index] for index in scored]


def reading(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """The columns and row groups of everything that is read from now on."""
    calls: list[tuple[tuple[str, ...], tuple[int, ...]]] = []
    original = pq.ParquetFile.iter_batches

    def read(self: Any, batch_size: int, row_groups: Any = None, columns: Any = None, **more: Any) -> Any:
        calls.append((tuple(columns), tuple(row_groups)))
        return original(self, batch_size, row_groups=row_groups, columns=columns, **more)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", read)
    return calls


def test_only_the_row_groups_of_what_is_shown_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = made(300, masked=False)
    for row in rows:
        far = row["rollout_id"] in ("r100", "r101", "r250")
        row["trainer_logprobs"] = [-1.0 - 5.0 * far] * len(row["token_ids"])
        row["inference_logprobs"] = [-1.0] * len(row["token_ids"])
    monkeypatch.setattr("iscope.analysis.worst.ROLLOUTS", 3)
    monkeypatch.setattr("iscope.analysis.worst.TOKENS", 3)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=10)
    calls = reading(monkeypatch)
    report = analyze(tmp_path / "a.parquet", recipes=["none"])
    check(report, rows, text=False)
    ids = [groups for columns, groups in calls if "token_ids" in columns]
    assert sorted(group for groups in ids for group in groups) == [10, 25]
    assert [columns for columns, _ in calls if "token_ids" in columns] == [("token_ids",)] * len(ids)
    assert not [columns for columns, _ in calls if {"token_texts", "completion"} & set(columns)]


def test_a_dump_without_ids_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(
        pa.Table.from_pylist(without(made(), "token_ids", "token_texts", "completion")), tmp_path / "a.parquet"
    )
    calls = reading(monkeypatch)
    report = analyze(tmp_path / "a.parquet", recipes=["none"], include_text=True)
    assert len(calls) == 1
    assert {json.dumps(strip["token_ids"]) for strip in strips(report)} == {'{"why": "the dump has no token ids"}'}
    assert all(row["completion"] == {"why": NO_TEXT} for row in worst(report)["rollouts"])
    assert all("token_id" not in token for token in worst(report)["tokens"])


def test_rollouts_without_an_id_are_found_by_file_and_row(tmp_path: Path) -> None:
    rows = made()
    pq.write_table(pa.Table.from_pylist(without(rows, "rollout_id")), tmp_path / "a#b.parquet", row_group_size=4)
    named = [row | {"rollout_id": f"{tmp_path / 'a#b.parquet'}#{index}"} for index, row in enumerate(rows)]
    check(analyze(tmp_path, recipes=["none"]), named, text=False)
    some = [row | {"rollout_id": None if index % 2 else f"own{index}"} for index, row in enumerate(rows)]
    named = [row | {"rollout_id": row["rollout_id"] or f"frame#{index}"} for index, row in enumerate(some)]
    check(run(some), named, text=False)


def test_rollouts_of_one_id_get_none_of_the_others_tokens() -> None:
    rows = made(6)
    rows[3]["rollout_id"] = rows[2]["rollout_id"]
    report = run(rows, include_text=True)
    for one in worst(report)["rollouts"]:
        twice = one["rollout_id"] == rows[2]["rollout_id"]
        assert ("log_ratios" in one["strip"]) != twice
        assert one.get("completion") == ({"why": "2 rollouts of the dump have this rollout_id"} if twice else None)
    assert all("token_id" not in token for token in worst(report)["tokens"] if token["rollout_id"] == "r02")
    assert any("token_id" in token for token in worst(report)["tokens"])


def test_a_condition_tells_two_rollouts_of_one_id_apart() -> None:
    rows = [row | {"step": index % 2} for index, row in enumerate(made(10))]
    doubled = [*rows, *({**row, "step": 2, "token_ids": [7] * len(row["token_ids"])} for row in rows)]
    report = run(doubled, where="step < 2", include_text=True)
    check(report, rows, text=True)


@pytest.mark.parametrize("having", ["trainer", "vllm", "both"])
def test_ids_are_taken_from_the_side_that_has_them(tmp_path: Path, having: str) -> None:
    rows = made()
    shown = ("token_ids", "token_texts", "completion")
    for side, own, order in (("trainer", "trainer_logprobs", rows), ("vllm", "inference_logprobs", rows[::-1])):
        left = {"trainer_logprobs", "inference_logprobs"} - {own} | ({"loss_mask"} if side == "vllm" else set())
        left |= set() if having in (side, "both") else set(shown)
        pq.write_table(pa.Table.from_pylist(without(order, *left)), tmp_path / f"{side}.parquet", row_group_size=7)
    report = analyze(
        trainer=tmp_path / "trainer.parquet", vllm=tmp_path / "vllm.parquet", recipes=["none"], include_text=True
    )
    check(report, rows, text=True)


def test_more_ids_than_tokens_are_no_ids() -> None:
    rows = made()
    for row in rows:
        row["token_ids"] = [5, *row["token_ids"]]
        row["token_texts"] = ["a", *row["token_texts"]]
    report = run(without(rows, "completion"), include_text=True)
    first = worst(report)["rollouts"][0]
    tokens = len(next(row for row in rows if row["rollout_id"] == first["rollout_id"])["loss_mask"])
    said = "the dump has {} {} for the {} tokens of this rollout"
    assert first["strip"]["token_ids"] == {"why": said.format(tokens + 1, "token ids", tokens)}
    assert first["completion"] == {"why": said.format(tokens + 1, "token texts", tokens)}


def test_nulls_are_nulls() -> None:
    rows = made()
    for row in rows:
        row["token_ids"] = None
        row["token_texts"] = [None, *row["token_texts"][1:]]
    report = run([*rows, made(31)[30]], include_text=True)
    by_id = {row["rollout_id"]: row for row in rows}
    told = [one for one in worst(report)["rollouts"] if one["rollout_id"] in by_id]
    assert all(one["strip"]["token_ids"] == {"why": "it is null for this rollout"} for one in told)
    assert all(
        one["strip"]["texts"] == expected(by_id[one["rollout_id"]], one["strip"]["positions"], "token_texts")
        for one in told
    )


@pytest.mark.parametrize("name", ["response", "output", "completion_text", "generated_text"])
def test_frameworks_names_of_the_text_are_known(name: str) -> None:
    rows = [{**row, name: row["completion"]} for row in made()]
    report = run(without(rows, "completion", "token_texts"), include_text=True)
    for one in worst(report)["rollouts"]:
        text = f"all of {int(one['rollout_id'][1:])}"
        assert one["completion"] == {"text": text, "characters": len(text)}


def test_messages_are_text_too() -> None:
    rows = [
        {**row, "completion": [{"role": "assistant", "content": "a"}, {"role": "tool", "content": "b"}]}
        for row in made()
    ]
    report = run(without(rows, "token_texts"), include_text=True)
    assert {one["completion"]["text"] for one in worst(report)["rollouts"]} == {"a\nb"}


def test_two_texts_are_an_error_only_where_text_is_asked_for() -> None:
    rows = [{**row, "response": "x", "output": "y"} for row in without(made(), "completion", "token_texts")]
    run(rows)
    with pytest.raises(
        DataError, match=r"'response' and 'output' could each be completion; choose with --columns completion=NAME\.$"
    ):
        run(rows, include_text=True)
    report = run(rows, include_text=True, columns={"completion": "output"})
    assert {one["completion"]["text"] for one in worst(report)["rollouts"]} == {"y"}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"completion": "token_ids"}, "'token_ids' is .*, but completion must be a string or a list of messages"),
        ({"token_texts": "completion"}, "'completion' is .*, but token_texts must be a list of strings"),
        ({"completion": "completoin"}, "no column 'completoin'.* Did you mean 'completion'"),
    ],
)
def test_a_column_named_for_text_must_hold_it(columns: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        run(made(), include_text=True, columns=columns)
    run(made(), columns=columns)


def test_a_misspelt_name_for_text_is_said() -> None:
    with pytest.raises(UsageError, match=r"'token_text' is not a column of a dump\. Did you mean 'token_texts'"):
        run(made(), include_text=True, columns={"token_text": "x"})


def test_two_columns_of_ids_are_no_error_but_a_reason() -> None:
    rows = [{**row, "responses": row["token_ids"], "completion_ids": row["token_ids"]} for row in made()]
    report = run(without(rows, "token_ids"))
    assert all("choose with --columns token_ids=NAME" in strip["token_ids"]["why"] for strip in strips(report))
    check(run(without(rows, "token_ids"), columns={"token_ids": "responses"}), rows, text=False)


def test_bytes_that_are_no_text_are_replaced() -> None:
    rows = without(made(), "token_texts", "completion")
    broken = pa.array([b"a\xff\xedb"] * len(rows), pa.binary())
    table = pa.Table.from_pylist(rows)
    buffers = [None, *broken.buffers()[1:]]
    text = pa.StringArray.from_buffers(len(rows), buffers[1], buffers[2])
    report = analyze(table.append_column("completion", text), recipes=["none"], include_text=True)
    assert {one["completion"]["text"] for one in worst(report)["rollouts"]} == {"a\ufffd\ufffdb"}


def test_long_text_is_cut_and_said_to_be() -> None:
    rows = made()
    for row in rows:
        row["completion"] = "a" * 15_000 + "b" * 15_000
    report = run(without(rows, "token_texts"), include_text=True)
    for one in worst(report)["rollouts"]:
        text = one["completion"]["text"]
        assert (len(text), one["completion"]["characters"]) == (10_000, 30_000)
        assert text.startswith("a" * 4_999)
        assert text.endswith("b" * 4_999)
    for row in rows:
        row["token_texts"] = ["x" * 5_000] * len(row["token_ids"])
    report = run(rows, include_text=True)
    assert {len(text) for strip in strips(report) for text in strip["texts"]} == {64}
    assert any("The report holds text of the dump (--include-text)" in said for said in report.assumptions)


def test_the_decoding_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = made(40)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=2)
    monkeypatch.setattr(lookup, "MOST_BYTES", 1)
    report = analyze(tmp_path / "a.parquet", recipes=["none"])
    found = [strip["token_ids"] for strip in strips(report)]
    assert any(isinstance(ids, list) for ids in found)
    assert any("far into a row group" in ids["why"] for ids in found if isinstance(ids, dict))


def test_a_dump_that_is_gone_by_then_costs_the_ids_not_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(made()), path)
    find = lookup.Lookup.find

    def gone(self: Any, rollouts: Any) -> Any:
        path.unlink()
        return find(self, rollouts)

    monkeypatch.setattr(lookup.Lookup, "find", gone)
    report = analyze(path, recipes=["none"])
    assert all("cannot be reached any more" in strip["token_ids"]["why"] for strip in strips(report))


def test_batches_in_memory_have_no_ids() -> None:
    rows = made()
    lists = {name: [row[name] for row in rows] for name in ("trainer_logprobs", "inference_logprobs", "loss_mask")}
    batch = RolloutBatch.from_lists(**lists)
    report = analyze(batch, recipes=["none"], include_text=True)
    assert {strip["token_ids"]["why"] for strip in strips(report)} == {"the dump has no token ids"}
    assert torch.is_tensor(batch.trainer_logprobs)


def test_imported_files_have_their_ids_and_text(tmp_path: Path) -> None:
    rows = made()
    path = tmp_path / "dump.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    check(analyze(path, recipes=["none"], include_text=True), rows, text=True)


@pytest.mark.parametrize("name", ["prime-rl", "nemo-rl", "slime", "miles", "verl", "trl", "skyrl"])
def test_frameworks_files_have_their_ids(tmp_path: Path, name: str) -> None:
    rows = layouts.rollouts()
    report = analyze(layouts.WHOLE[name](rows, tmp_path), recipes=["none"])
    trained = {
        tuple(number for number, mask in zip(row.ids, row.mask, strict=True) if mask): [
            trainer - inference
            for trainer, inference, mask in zip(row.trainer, row.inference, row.mask, strict=True)
            if mask
        ]
        for row in rows
    }
    assert strips(report)
    for strip in strips(report):
        assert strip["log_ratios"] == pytest.approx(trained[tuple(strip["token_ids"])], abs=2e-4)


def openai(row: dict[str, Any]) -> dict[str, Any]:
    named = zip(row["token_texts"], row["token_ids"], row["inference_logprobs"], strict=True)
    content = [{"token": text, "token_id": number, "logprob": logprob} for text, number, logprob in named]
    return {"id": row["rollout_id"], "choices": [{"index": 0, "logprobs": {"content": content}}]}


def vllm(row: dict[str, Any]) -> dict[str, Any]:
    named = zip(row["token_texts"], row["token_ids"], row["inference_logprobs"], strict=True)
    logprobs = [
        {"1": {"logprob": -0.5, "decoded_token": "likelier"}, str(number): {"logprob": value, "decoded_token": text}}
        for text, number, value in named
    ]
    output = {"index": 0, "token_ids": row["token_ids"], "logprobs": logprobs}
    return {"request_id": row["rollout_id"], "outputs": [output]}


@pytest.mark.parametrize("form", [openai, vllm])
def test_responses_of_an_engine_have_the_text_of_their_tokens(
    tmp_path: Path, form: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    rows = made()
    engine, trainer = tmp_path / "engine.jsonl", tmp_path / "trainer.parquet"
    engine.write_text("".join(json.dumps(form(row)) + "\n" for row in rows), encoding="utf-8")
    pq.write_table(
        pa.Table.from_pylist(without(rows, "inference_logprobs", "token_ids", "token_texts", "completion")), trainer
    )
    check(analyze(trainer=trainer, vllm=engine, recipes=["none"], include_text=True), rows, text=True)


def test_a_comparison_and_two_dumps_say_which_tokens_too() -> None:
    rows = made()
    frame = pl.DataFrame(rows)
    check(compare(frame, recipes=["trl/token_mask"], sweep=["clip_max=2,3"], include_text=True), rows, text=True)
    other = [{**row, "token_texts": ["other"] * len(row["token_ids"]), "completion": "other"} for row in rows]
    report = compare(frame, recipes=["none"], against=pl.DataFrame(other), include_text=True)
    check(report, rows, text=True)
    assert "other" not in [text for strip in strips(report) for text in strip["texts"]]


def test_a_saved_report_has_them_still() -> None:
    report = run(made(), include_text=True)
    saved = Report.from_dict(json.loads(json.dumps(report.to_dict())))
    assert saved == report


@pytest.mark.parametrize("build", [lambda junk: {"token_ids": junk, "texts": junk}, lambda junk: junk])
@pytest.mark.parametrize("junk", [None, 3, "x", [], {}, [[1], {"a": 1}, True, "y", 2.5, 7], {"why": 3}])
def test_what_a_report_holds_is_read_whatever_it_is(build: Callable[[Any], Any], junk: Any) -> None:
    strip = build(junk)
    if isinstance(strip, dict):
        tokens = StripTokens.from_dict(strip)
        assert all(number is None or type(number) is int for number in tokens.ids)
        assert all(text is None or type(text) is str for text in tokens.texts)
    found = Completion.from_dict(strip)
    assert found is None or isinstance(found.text, str)
