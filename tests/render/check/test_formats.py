"""Every format of a check's result: what it holds, at any width, whatever strings are in it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from rich.cells import cell_len

from iscope.cli.app import run
from iscope.gates import Gate, baseline_of, judge
from iscope.model import Figure, Verdict
from iscope.model.check import CheckResult, GateVerdict
from iscope.render.check import RENDERERS, check_renderer
from iscope.render.check.markdown import MOST_BYTES
from tests.gates.reports import report
from tests.render.full_reports import HOSTILE

NASTY = (*HOSTILE, "]]>", "a]]><x>", "::error::b", "%0A::error::c\r\n::error::d", "50%, a:b,c", "\x00\x08\ufffe\uffff")


def gates(failed=1, warned=1, passed=1, text=""):
    """A result with so many verdicts, and a text wherever a string of the user's can stand."""
    words = ["FAIL"] * failed + ["WARN"] * warned + ["PASS"] * passed
    return CheckResult(
        gates=[
            GateVerdict(
                word=word,
                figure=f"breakdowns.env[{text}{place}].k3",
                form="max_ratio",
                rule="<= 1.25 x baseline",
                unit="nats per token",
                value=Figure(0.004, low=0.003, high=0.005),
                limit=1.25,
                compared=Figure(2.5, low=2.0, high=3.0) if place % 2 else Figure.absent(f"no {text}"),
                baseline=Figure(0.0016),
                message=f"{word.lower()} number {place}: {text}.",
                reason=text,
            )
            for place, word in enumerate(words)
        ],
        dump=Verdict("NOT HEALTHY", f"it is {text}"),
        counts={"rollouts": 10, "tokens": 1234, "groups": None},
        notes=[f"a note: {text}"],
        changes=[{"figure": f"x{text}", "before": None, "after": {"value": 1.0}}],
        provenance={"files": [{"path": f"/data/{text}"}], "gates": f"{text}.toml", "baseline": text},
    )


def real():
    before = report(Figure(0.001, low=0.0009, high=0.0011))
    now = report(Figure(0.002, low=0.0018, high=0.0022), abs_max=Figure(1.0))
    written = (Gate("mismatch.k3", max_ratio=1.25, reason="ours"), Gate("mismatch.abs_max", max=0.5, level="warn"))
    return judge(now, written, baseline_of(before, written))


def text_of(name, result, **options):
    return check_renderer(name)(result, **options)


@pytest.mark.parametrize("width", [30, 60, 80, 100, 160])
def test_the_terminal_page(width):
    page = text_of("terminal", real(), width=width)
    assert max(map(cell_len, page.splitlines())) <= width
    words = " ".join(page.split())
    assert "CHECK FAIL: 1 failed, 1 warned, 1 passed of 3 gates" in words
    for piece in ("FAIL mismatch.k3", "2 [1.74, 2.31] x", "<= 1.25 x baseline", "Reason: ours."):
        assert piece.replace(" ", "") in words.replace(" ", "")
    assert "\x1b" not in page
    quiet = text_of("terminal", real(), width=width, quiet=True)
    assert " ".join(quiet.split()) == "CHECK FAIL: 1 failed, 1 warned, 1 passed of 3 gates"


def test_the_terminal_page_colours_what_words_say():
    plain, coloured = (text_of("terminal", real(), color=color) for color in (False, True))
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_passes_are_counted_beyond_forty_unless_all_are_wanted():
    many = gates(0, 0, 100)
    assert "60 more passed; --verbose and JSON have all" in text_of("terminal", many, width=200)
    assert "more passed" not in text_of("terminal", many, width=200, verbose=True)
    assert "60 more passed; the JSON result has all." in text_of("markdown", many)


def test_json_is_the_result():
    assert CheckResult.from_dict(json.loads(text_of("json", real()))) == real()
    with pytest.raises(ValueError, match="not a result of schema"):
        CheckResult.from_dict({"schema": {}})


def test_junit_has_a_case_for_each_gate_and_a_failure_for_each_that_failed():
    suites = ElementTree.fromstring(text_of("junit", gates(2, 3, 4)))
    (suite,) = suites
    for element in (suites, suite):
        assert (element.get("tests"), element.get("failures"), element.get("errors")) == ("9", "2", "0")
    cases = suite.findall("testcase")
    assert len(cases) == 9
    assert len({case.get("name") for case in cases}) == 9
    assert {case.get("classname") for case in cases} == {"iscope.breakdowns"}
    assert [len(case.findall("failure")) for case in cases] == [1, 1, *[0] * 7]
    assert [len(case.findall("system-out")) for case in cases] == [0, 0, 1, 1, 1, 0, 0, 0, 0]
    assert cases[0].find("failure").get("message") == "fail number 0: ."


def test_github_has_at_most_ten_annotations_of_each_kind():
    for failed, warned in ((1, 0), (10, 10), (11, 30)):
        lines = text_of("github", gates(failed, warned, 2)).splitlines()
        errors = [line for line in lines if line.startswith("::error ")]
        warnings = [line for line in lines if line.startswith("::warning ")]
        assert (len(errors), len(warnings)) == (min(failed, 10), min(warned, 10))
        assert lines[-1].startswith("CHECK FAIL: ")
        if failed > 10:
            assert errors[-1].startswith("::error title=iscope%3A 2 more gates::2 more gates: breakdowns.env[9].k3, ")
            assert "21 more gates" in warnings[-1]


def test_github_properties_and_messages_are_escaped():
    (line, _) = text_of("github", gates(1, 0, 0, text="50%, a:b")).splitlines()
    properties, _, message = line.removeprefix("::error title=").partition("::")
    assert properties == "iscope%3A breakdowns.env[50%25%2C a%3Ab0].k3 <= 1.25 x baseline"
    assert message.startswith("fail number 0: 50%25, a:b.")


def test_a_summary_is_below_what_github_takes():
    huge = text_of("markdown", gates(3_000, 0, 0, text="é" * 100))
    assert len(huge.encode()) < MOST_BYTES + 100 < 2**20
    assert huge.endswith("Cut here; the JSON result has all.\n")
    assert "Cut here" not in text_of("markdown", gates(30, 0, 0))


@pytest.mark.parametrize("name", RENDERERS)
@pytest.mark.parametrize("nasty", NASTY, ids=range(len(NASTY)))
def test_strings_of_users_break_no_format(name, nasty):
    found = text_of(name, gates(2, 2, 2, text=nasty), width=80, verbose=True)
    assert found.endswith("\n")
    found.encode("utf-8")
    assert name == "json" or all(character.isprintable() or character == "\n" for character in found)
    if name == "terminal":
        assert max(map(cell_len, found.splitlines())) <= 80
    if name == "json":
        assert CheckResult.from_dict(json.loads(found)).notes == [f"a note: {nasty}"]
    if name == "junit":
        cases = ElementTree.fromstring(found).findall(".//testcase")
        assert len(cases) == 6
    if name == "github":
        assert [line.split(" ")[0] for line in found.splitlines()] == ["::error"] * 2 + ["::warning"] * 2 + ["CHECK"]
    if name == "markdown":
        html = MarkdownIt("gfm-like", {"linkify": False}).render(found)
        assert "<script" not in html
        assert "<img" not in html
        assert "<svg" not in html
        assert "href" not in html
        assert html.count("<tr>") == 7


@pytest.mark.parametrize(
    ("name", "start"), [("a.json", "{"), ("a.md", "# iscope check"), ("a.xml", "<?xml"), ("a.txt", "iscope")]
)
def test_the_extension_of_the_file_names_the_format(tmp_path, capfd, name, start):
    saved = tmp_path / "report.json"
    saved.write_text(json.dumps(report().to_dict()), encoding="utf-8")
    assert run(["check", str(saved), "--gates", "default", "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines()[0] == "CHECK PASS: 0 failed, 0 warned, 5 passed of 5 gates"
    assert run(["check", str(saved), "-o", str(tmp_path / "a.html")]) == 2
    assert "names no format" in capfd.readouterr().err
    assert run(["check", str(saved), "--format", "junitt"]) == 2
    assert "Did you mean 'junit'?" in capfd.readouterr().err


def test_the_summary_of_a_step_is_appended_to(tmp_path, capfd, monkeypatch):
    saved, summary = tmp_path / "report.json", tmp_path / "summary.md"
    saved.write_text(json.dumps(report().to_dict()), encoding="utf-8")
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert run(["check", str(saved), "--gates", "default", "--format", "github"]) == 0
    assert summary.read_text(encoding="utf-8").startswith("before\n# iscope check: ")
    before = summary.read_text(encoding="utf-8")
    assert run(["check", str(saved), "--gates", "default"]) == 0
    assert summary.read_text(encoding="utf-8") == before
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    assert run(["check", str(saved), "--gates", "default", "--format", "github"]) == 2
    assert "GITHUB_STEP_SUMMARY" in capfd.readouterr().err


def test_absent_figures_say_so_in_every_format():
    gone = judge(report(Figure.absent("no scored tokens")), [Gate("mismatch.k3", max=1.0)])
    for name in RENDERERS:
        assert "no scored tokens" in " ".join(text_of(name, gone).split())
    big = replace(report(), mismatch={"k3": Figure(None, why="it overflows", log10=400.3)})
    assert "2.0e400" in text_of("terminal", judge(big, [Gate("mismatch.k3", max=1.0)]))
