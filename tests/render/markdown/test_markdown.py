from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from iscope.model import Report
from iscope.render.markdown import render
from iscope.render.markdown.text import block, code, text
from tests.render.full_reports import DUMPS, HOSTILE, full, real
from tests.render.reports import bare, extreme, future, hollow, ordinary

FLAVOUR = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def parsed(page: str) -> list[Token]:
    return [part for token in FLAVOUR.parse(page) for part in (token, *(token.children or []))]


def shape(page: str) -> list[str]:
    """Every element of a page in order, but how its text is cut into pieces."""
    return [token.type for token in parsed(page) if token.type not in ("text", "text_special")]


def rendered(page: str) -> str:
    return "".join(
        token.content for token in parsed(page) if token.type in ("text", "text_special", "code_inline", "fence")
    )


@pytest.mark.parametrize("name", DUMPS)
def test_a_real_report_has_its_verdict_first_and_a_row_per_recipe(name: str) -> None:
    report = real(name)
    page = render(report)
    assert page.index("VERDICT") < page.index("## Recipes") < page.index("## Mismatch")
    recipes = page.partition("## Recipes")[2].partition("\n## ")[0]
    rows = [line for line in recipes.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(report.recipes)
    assert len({len(re.split(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert render(report) == page
    assert len(page) < 60_000


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_strings_of_the_user_are_never_markup(hostile: str) -> None:
    page = render(full(hostile))
    kinds = shape(page)
    assert not {"html_inline", "html_block", "link_open", "image", "hr", "blockquote_open"} & set(kinds)
    plain = shape(render(full("plain")))
    assert [kind for kind in kinds if kind.startswith(("table", "tr", "td", "th", "heading", "fence"))] == [
        kind for kind in plain if kind.startswith(("table", "tr", "td", "th", "heading", "fence"))
    ]
    assert kinds.count("strong_open") == plain.count("strong_open")


@pytest.mark.parametrize("report", [ordinary(), bare(), hollow(), extreme(), future()], ids=range(5))
def test_reports_with_gaps_are_pages_too(report: Report) -> None:
    page = render(report)
    assert "html_inline" not in shape(page)
    assert not re.search(r"\|\s*(nan|NaN|inf|Infinity|None)\s*\|", page)


def test_a_long_breakdown_is_cut_unless_verbose() -> None:
    rows = [dict(ordinary().breakdowns["step"][0], value=n) for n in range(100)]
    report = ordinary(breakdowns={"step": rows})
    assert "60 more rows are in the JSON report" in rendered(render(report))
    assert "more rows" not in render(report, verbose=True)
    assert len(render(report)) < len(render(report, verbose=True))


WORDS = (
    *("# a", "1. a", "1) a", "- a", "+ a", "> a", "=== ", "12.5 a", "***", "[ ] t"),
    *(
        "[a](b)",
        "![i](u)",
        "**a** _b_ __c__",
        "a_b",
        "`c`",
        "~~d~~",
        "<b>",
        "&lt;",
        "a|b",
        "| a |",
        "\\",
        "$x$",
        "http://a.b",
    ),
)


@pytest.mark.parametrize("words", WORDS)
def test_text_reads_as_it_was_written(words: str) -> None:
    for before in ("", "- ", "x "):
        page = f"{before}{text(words)}"
        assert rendered(page).replace("x ", "", before == "x ").strip() == words.strip(), page
        assert set(shape(page)) <= {
            "paragraph_open", "inline", "paragraph_close", "bullet_list_open", "list_item_open", "list_item_close",
            "bullet_list_close",
        }  # fmt: skip


def test_nobody_is_notified() -> None:
    assert re.search(r"@\w", text("@octocat and a@b.c")) is None


@pytest.mark.parametrize("words", ["a", "`", "``", "a `b` c", "`a", "a``", "x" * 50])
def test_code_reads_as_it_was_written(words: str) -> None:
    spans = [token.content for token in parsed(f"x {code(words)} y") if token.type == "code_inline"]
    assert spans == [words]
    fences = [token.content for token in parsed(block(f"{words}\n```\nb")) if token.type == "fence"]
    assert fences == [f"{words}\n```\nb\n"]
