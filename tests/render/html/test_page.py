from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from markupsafe import escape

from iscope.model import Figure, Report
from iscope.render.html import render
from iscope.render.html.page import breakable, script_json
from tests.render.full_reports import DUMPS, HOSTILE, full, real
from tests.render.reports import bare, extreme, future, hollow, hostile, ordinary

VOID = {"meta", "br", "img", "link", "input", "wbr"}


class Page(HTMLParser):
    """The elements of a page, its attributes that load something, its scripts and its ids."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.handlers: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.words: list[str] = []
        self.policy = ""
        self._script: dict[str, str | None] | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += tag != "wbr"  # where a long word may be broken depends on the word
        found = dict(attrs)
        self.handlers += [name for name in found if name.startswith("on")]
        self.loads += [f"{tag} {name}={found[name]}" for name in ("src", "data", "action", "poster") if name in found]
        self.ids += [found["id"] or ""] if "id" in found else []
        if tag == "a":
            self.links.append(found["href"] or "")
        if tag == "meta" and found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""
        if tag == "script":
            self._script = found
            self.scripts.append((found, ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag
        self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts[-1] = (self._script, self.scripts[-1][1] + data)
        else:
            self.words.append(data)

    @property
    def charts(self) -> dict[str, Any]:
        return {
            str(a["data-chart"]): json.loads(text) for a, text in self.scripts if a.get("type") == "application/json"
        }


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave plotly.js out: its five megabytes say nothing about the rest of the page and take long to parse."""
    monkeypatch.setattr("iscope.render.html.page._plotly", lambda: "0")


@pytest.mark.parametrize("name", DUMPS)
def test_a_real_report_is_one_whole_page_that_loads_nothing(name: str) -> None:
    text = render(real(name))
    page = Page(text)
    assert page.open == []
    assert page.loads == page.handlers == []
    assert page.tags["link"] == page.tags["img"] == page.tags["iframe"] == 0
    assert all(link.startswith("#") for link in page.links)
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert len(text.encode()) < 8_000_000


def test_the_same_report_gives_the_same_bytes_saved_or_not() -> None:
    report = real("async")
    once = render(report)
    assert render(report) == once
    saved = json.loads(json.dumps(report.to_dict()))
    assert render(Report.from_dict(saved)) == once


def test_only_the_scripts_of_the_page_may_run() -> None:
    page = Page(render(real("fresh")))
    own = [text for attributes, text in page.scripts if "type" not in attributes]
    hashes = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in own}
    assert set(re.findall(r"'sha256-([^']+)'", page.policy)) == hashes
    assert len(own) == 3
    assert "default-src 'none'" in page.policy
    assert "unsafe-inline" not in page.policy.partition("script-src")[2].partition(";")[0]


@pytest.mark.usefixtures("small")
def test_every_chart_of_a_full_report_is_there_with_its_place() -> None:
    page = Page(render(full("plain")))
    names = {name.removeprefix("plot-") for name in page.charts}
    ratios = {f"ratio_{level}_0" for level in ("token", "sequence", "geometric")}
    assert names == {"timeline", "trade_off", "map_0", "map_1", "keep", "lag", "by_p", "position", *ratios} - {"by_p"}
    assert set(page.charts) <= set(page.ids)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_strings_of_the_user_are_never_markup(text: str) -> None:
    page, plain = Page(render(full(text))), Page(render(full("plain")))
    assert page.tags == plain.tags
    assert page.handlers == page.loads == []
    assert page.ids == plain.ids
    assert page.links == plain.links
    assert page.charts.keys() == plain.charts.keys()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_plotly_gets_no_tags(text: str) -> None:
    def strings(node: Any) -> list[str]:
        if isinstance(node, dict):
            return [found for child in node.values() for found in strings(child)]
        if isinstance(node, list):
            return [found for child in node for found in strings(child)]
        return [node] if isinstance(node, str) else []

    tags = {
        tag
        for chart in Page(render(full(text))).charts.values()
        for one in strings(chart)
        for tag in re.findall("<[^>]*>", one)
    }
    assert tags <= {"<br>", "<extra>", "</extra>"}


@pytest.mark.usefixtures("small")
def test_what_a_user_wrote_stands_in_the_page_as_it_is() -> None:
    page = Page(render(full("<i>&amp; it's</i>")))
    assert "<i>&amp; it's</i>" in "".join(page.words)


@pytest.mark.usefixtures("small")
def test_endless_strings_stay_short() -> None:
    assert len(render(full("x" * 10_000))) - len(render(full("plain"))) < 60_000


@pytest.mark.parametrize("text", [one * 64 for one in ("<", "&", "\x00", "\U000e0001", "\"'")] + ["\u05e9\u202e" * 32])
def test_a_page_full_of_text_stays_small(text: str) -> None:
    report = full("x")
    row: Any = report.parts["worst"]["rollouts"][0]  # type: ignore[index,call-overload]
    strip = {
        "positions": [*range(129)],
        "log_ratios": [1.6] * 129,
        "at": 64,
        "token_ids": [2**62] * 129,
        "texts": [text] * 129,
    }
    whole = {"completion": {"text": text * 157, "characters": 10**6}}
    rows: list[Any] = [row | {"strip": strip} | whole for _ in range(20)]
    worst: Any = {"rollouts": rows, "tokens": [{"rollout_id": "x", "text": text, "token_id": 5}] * 20}
    page = render(replace(report, parts=report.parts | {"worst": worst}))
    assert len(page.encode()) < 8_000_000
    assert Page(page).open == []


def strip_of(text: str) -> str:
    return render(full(text)).partition('<div class="strip">')[2].partition("</div>")[0]


@pytest.mark.usefixtures("small")
def test_a_token_of_a_strip_shows_its_text_or_else_its_id() -> None:
    boxes = Page(strip_of(" a\nb"))
    assert boxes.words == ["3 before …", "\u2212\u2212\u2212", "␣a\\nb", "+", "… 9 after"]
    assert 'title="position 3: d -2.000, ratio 0.1353, id 50256, text ␣a\\nb"' in strip_of(" a\nb")
    plain = full("x")
    rows: Any = plain.parts["worst"]["rollouts"]  # type: ignore[index,call-overload]
    strip = {name: node for name, node in rows[0]["strip"].items() if name != "texts"}
    worst: Any = {"rollouts": [rows[0] | {"strip": strip}], "tokens": []}
    page = render(replace(plain, parts=plain.parts | {"worst": worst}))
    assert ">\u2212\u2212\u2212<bdi>50256</bdi></span>" in page


@pytest.mark.usefixtures("small")
def test_what_all_strips_lack_is_said_once_and_what_one_lacks_beside_it() -> None:
    rows: list[Any] = [
        {"rollout_id": name, "strip": {"positions": [0], "log_ratios": [0.1], "at": 0, "token_ids": {"why": why}}}
        for name, why in (("a", "no such column"), ("b", "no such column"))
    ]
    scored: list[Any] = [row | {"log_ratio_sum": Figure(1.0)} for row in rows]
    several = replace(ordinary(), parts={"worst": {"rollouts": scored, "tokens": []}})
    assert render(several).count("No token ids: no such column.") == 1
    scored[1]["strip"]["token_ids"] = {"why": "another"}
    page = render(replace(ordinary(), parts={"worst": {"rollouts": scored, "tokens": []}}))
    assert page.count("No token ids: no such column.") == page.count("No token ids: another.") == 1


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("report", [ordinary(), bare(), hollow(), extreme(), future(), hostile("a<b")], ids=range(6))
def test_reports_with_gaps_are_pages_too(report: Report) -> None:
    page = Page(render(report))
    assert page.open == []
    assert not {"nan", "NaN", "inf", "Infinity", "None"} & {words.strip() for words in page.words}


@pytest.mark.usefixtures("small")
def test_a_reason_stands_below_the_table_that_lacks_a_figure() -> None:
    words = " ".join(Page(render(hollow())).words)
    assert "no scored token" in words


def test_many_settings_and_steps_stay_small() -> None:
    report = ordinary()
    rows = [dict(report.breakdowns["step"][0], value=n) for n in range(12_000)]
    many = Report.from_dict(report.to_dict() | {"recipes": [report.recipes[1].to_dict()] * 1_200} | _steps(rows))
    text = render(many)
    assert len(text.encode()) < 8_000_000
    longest = max(
        len(v) for chart in Page(text).charts.values() for t in chart["data"] for v in t.values() if isinstance(v, list)
    )
    assert 4_000 <= longest <= 5_000


def _steps(rows: list[Any]) -> dict[str, Any]:
    from iscope.model import nodes_to_json

    return {"breakdowns": {"step": [nodes_to_json(row) for row in rows]}}


@pytest.mark.parametrize("text", [*HOSTILE, "", "prime-rl/mis_po:low=0.5,high=2 keeps a/b", "a,b=c:d/e<f,&g=h"])
def test_words_that_may_be_broken_say_the_same(text: str) -> None:
    made = str(breakable(text))
    page = Page(f"<p>{made}</p>")
    assert "".join(page.words) == "".join(Page(f"<p>{escape(text)}</p>").words)
    assert page.tags == Counter({"p": 1})
    assert "<wbr>" not in str(breakable("all of a/b is short"))
    assert str(breakable("prime-rl/mis_po:low=0.5,high=2")) == (
        "prime-rl/<wbr>mis_po:<wbr>low=<wbr>0.5,<wbr>high=<wbr>2"
    )


def test_json_in_a_script_is_the_value_and_nothing_html_could_read() -> None:
    value = {"a": [*HOSTILE[:-1], None, 1.5, True]}
    text = str(script_json(value))
    assert json.loads(text) == value
    assert not re.search("[<>&\u2028\u2029]", text)
    with pytest.raises(ValueError, match="JSON"):
        script_json(float("nan"))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("text", ["plain", *HOSTILE], ids=range(len(HOSTILE) + 1))
def test_a_notebook_gets_a_small_fragment_without_scripts(text: str) -> None:
    fragment = full(text)._repr_html_()
    page, plain = Page(fragment), Page(full("plain")._repr_html_())
    assert page.tags == plain.tags
    assert page.tags["script"] == 0
    assert page.handlers == page.loads == []
    assert len(fragment) < 120_000
    fragment.encode()
