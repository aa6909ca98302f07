"""No text of prompts or completions in any report, whatever its format, unless it is asked for."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from iscope import analyze, inspect
from iscope.cli.app import run
from iscope.render import EXTENSIONS, RENDERERS

SECRETS = ("SECRETprompt", "SECRETtoken", "SECRETwhole", "SECRETreply")
COMMANDS = {
    "analyze": ["analyze"],
    "compare": ["compare", "--recipe", "trl/token_mask", "--sweep", "clip_max=2,3"],
}


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    rows = range(40)
    frame = pl.DataFrame(
        {
            "rollout_id": [f"r{row}" for row in rows],
            "trainer_logprobs": [[-1.0 - 0.02 * row, -0.5] for row in rows],
            "inference_logprobs": [[-1.0, -0.4] for _ in rows],
            "advantage": [float(row % 3 - 1) for row in rows],
            "token_ids": [[7, 8] for _ in rows],
            "prompt": ["SECRETprompt"] * 40,
            "prompts": [["SECRETprompt"]] * 40,
            "token_texts": [["SECRETtoken", " x"]] * 40,
            "completion": ["SECRETwhole"] * 40,
            "messages": [[{"role": "assistant", "content": "SECRETreply"}]] * 40,
        }
    )
    path = tmp_path / "dump.parquet"
    frame.write_parquet(path)
    return path


def found(text: str) -> set[str]:
    return {secret for secret in SECRETS if secret in text}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", RENDERERS)
def test_without_the_option_no_format_holds_text(
    dump: Path, name: str, command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [*COMMANDS[command], str(dump), "--format", name, "--verbose"]
    assert run(words) == 0
    out, err = capfd.readouterr()
    assert len(out) > 200
    assert found(out + err) == set()


def test_nor_do_the_prompt_the_notebook_and_an_inspection(dump: Path) -> None:
    report = analyze(dump)
    pages = [repr(report), str(report), report._repr_html_(), str(report.to_dict()), str(inspect(dump).to_dict())]
    assert [found(page) for page in pages] == [set()] * len(pages)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("extension", EXTENSIONS)
def test_with_the_option_html_and_json_hold_it_and_the_others_say_that_they_do_not(
    dump: Path, extension: str, command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / f"out{extension}"
    assert run([*COMMANDS[command], str(dump), "--include-text", "-o", str(out)]) == 0
    shows = EXTENSIONS[extension] in ("html", "json")
    # What the prompt and messages beside the text say is never looked at.
    assert found(out.read_text(encoding="utf-8")) == ({"SECRETtoken"} if shows else set())
    err = capfd.readouterr().err
    assert ("reports show no text; write HTML or JSON" in err) != shows
    assert found(err) == set()


def test_the_text_of_rollouts_stands_in_where_tokens_have_none(dump: Path, tmp_path: Path) -> None:
    pl.read_parquet(dump).drop("token_texts").write_parquet(dump)
    saved, page = tmp_path / "a.json", tmp_path / "a.html"
    assert run(["analyze", str(dump), "--include-text", "-o", str(saved)]) == 0
    assert found(saved.read_text(encoding="utf-8")) == {"SECRETwhole"}
    assert run(["report", str(saved), "-o", str(page)]) == 0
    assert found(page.read_text(encoding="utf-8")) == {"SECRETwhole"}
