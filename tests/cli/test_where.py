"""--by and --where as a user types them, on the sample data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iscope.cli.app import run


@pytest.fixture
def dump(sample_data: Path) -> str:
    return str(sample_data / "train_async.parquet")


def test_only_rollouts_that_match(dump: str, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["analyze", dump, "--recipe", "none", "--where", "step >= 4", "--by", "length", "--format", "json"]
    assert run(words) == 0
    out, err = capfd.readouterr()
    assert err == ""
    report = json.loads(out)
    assert [row["value"] for row in report["breakdowns"]["step"]] == [4, 5]
    assert list(report["breakdowns"]) == ["length", "step", "lag"]
    assert report["coverage"]["notes"] == {"not_selected": 256}
    assert report["coverage"]["rollouts"]["read"] == 160
    assert "Only rollouts that meet 'step >= 4' are looked at." in report["assumptions"]


def test_nothing_that_matches_is_no_error(dump: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", dump, "--where", "step > 99"]) == 0
    out = capfd.readouterr().out
    assert "VERDICT NO DATA: no rollout was read." in out
    assert "COVERAGE noted: rollouts left out by --where 416" in out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--where", "step >="], 2, "--where 'step >=': unable to parse 'step >=' as Expr; write SQL such as "),
        (["--where", "step + 1"], 2, "--where 'step + 1' is Int32, neither true nor false; compare it to a value."),
        (["--where", "stpe > 1"], 3, "there is no column 'stpe'. Did you mean 'step'? Its columns are: "),
        (["--by", "grop_id"], 3, "there is no column 'grop_id'. Did you mean 'group_id'? Its columns are: "),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    words: list[str], code: int, message: str, dump: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["analyze", dump, *words]) == code
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("iscope: error: ")
    assert message in err
    assert err.count("\n") == 1
