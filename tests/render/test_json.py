from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from iscope.errors import DataError, UsageError
from iscope.model import Report
from iscope.render.json import error_json, render
from tests.render import reports


@pytest.mark.parametrize("make", [reports.ordinary, reports.extreme, reports.hollow, reports.bare, reports.future])
def test_it_holds_the_whole_report(make: Callable[[], Report]) -> None:
    text = render(make())
    assert json.loads(text, parse_constant=pytest.fail) == make().to_dict()
    assert text.endswith("}\n")


@pytest.mark.parametrize("make", [reports.ordinary, reports.extreme, reports.hollow, reports.bare])
def test_it_reads_back(make: Callable[[], Report]) -> None:
    assert Report.from_dict(json.loads(render(make()))) == make()


def test_page_options_change_nothing() -> None:
    assert render(reports.ordinary(), width=40, verbose=True, color=True) == render(reports.ordinary())


@pytest.mark.parametrize("string", ["</script>", "日本", '"\\\n\x00', "\udcff", "\u2028"])
def test_strings_survive(string: str) -> None:
    text = render(reports.hostile(string))
    assert json.loads(text.encode("utf-8"))["findings"][0]["title"] == string


def test_errors() -> None:
    schema = {"name": "iscope.error", "version": 1}
    assert json.loads(error_json(DataError("a\n'b'"))) == {
        "schema": schema,
        "error": {"kind": "data", "message": "a\n'b'", "exit_code": 3},
    }
    assert json.loads(error_json(UsageError("u")))["error"]["kind"] == "usage"
    assert json.loads(error_json(ZeroDivisionError("z")))["error"] == {
        "kind": "internal",
        "message": "z",
        "exit_code": 4,
    }
    assert json.loads(error_json(KeyboardInterrupt(), 130, "interrupted"))["error"]["kind"] == "interrupted"
