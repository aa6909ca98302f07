from __future__ import annotations

import hashlib

import polars as pl

import iscope


def sampling(**columns):
    rows = len(next(iter(columns.values()))) if columns else 2
    made = {"trainer_logprobs": [[-1.0]] * rows, "inference_logprobs": [[-1.1]] * rows}
    found = iscope.analyze(pl.DataFrame({**made, **columns}), recipes=["none"])
    assert iscope.Report.from_dict(found.to_dict()).parts.keys() == found.parts.keys()
    return found.to_dict().get("sampling")


def test_distinct_values_of_each_recorded_setting():
    assert sampling(
        temperature=pl.Series([0.7, 1.0, 0.7], dtype=pl.Float32),
        top_p=[1.0, None, 1.0],
        top_k=[-1, -1, -1],
        logprobs_mode=["raw_logprobs", "processed_logprobs", "raw_logprobs"],
    ) == {
        "temperature": [0.7, 1.0],
        "top_p": [1.0],
        "top_k": [-1],
        "logprobs_mode": ["processed_logprobs", "raw_logprobs"],
    }


def test_nothing_recorded_is_no_part_of_the_report():
    assert sampling() is None
    assert sampling(temperature=[None, None]) is None
    assert sampling(temperature=[n / 100 for n in range(40)]) is None  # more values than anybody compares


def test_groups_are_a_number_and_a_digest_of_their_set():
    expected = hashlib.sha256(b"".join(len(name).to_bytes(8, "little") + name for name in (b"a", b"b"))).hexdigest()[
        :16
    ]
    for ids in (["a", "b"], ["b", "a", "b"], ["a", None, "b"]):
        assert sampling(group_id=ids) == {"groups": {"count": 2, "digest": expected}}
    assert sampling(group_id=[1, 2])["groups"]["digest"] == sampling(group_id=["1", "2"])["groups"]["digest"]
    assert sampling(group_id=["ab"])["groups"]["digest"] != expected
