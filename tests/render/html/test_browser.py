"""The page as people see it: in Chromium, opened from a file, with nothing to load from anywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iscope.render.html import render
from tests.render.full_reports import DUMPS, HOSTILE, full, real
from tests.render.html.browser import CHROMEDRIVER, CHROMIUM, WHY_NOT, Browser

pytestmark = pytest.mark.skipif(
    (CHROMIUM is None or CHROMEDRIVER is None) and not os.environ.get("ISCOPE_REQUIRE_BROWSER"), reason=WHY_NOT
)

WIDTHS = (400, 1400)
# Of each chart: how many marks it has, whatever kind of trace draws them.
_MARKS = """
return [...document.querySelectorAll('.plot')].map((plot) => [
  plot.id,
  plot.querySelectorAll('.main-svg').length,
  plot.querySelectorAll('.scatterlayer path, .barlayer path, .heatmaplayer image, .points path').length,
  Math.round(plot.querySelector('.main-svg').getBoundingClientRect().width) <= plot.clientWidth,
])"""
# Elements that stick out of the page, but for what a box of their own scrolls or hides.
_OUTSIDE = """
const hidden = (node) => { for (let box = node.parentElement; box && box !== document.body; box = box.parentElement)
  if (getComputedStyle(box).overflowX !== 'visible') return true; return false; };
return [...document.querySelectorAll('body *:not(#js-plotly-tester, #js-plotly-tester *)')].filter((node) => {
  const place = node.getBoundingClientRect();
  return place.width > 0 && (place.right > innerWidth + 1 || place.left < -1) && !hidden(node);
}).map((node) => node.outerHTML.slice(0, 80))"""
_COLUMN = (
    "return [...document.querySelectorAll('#recipe-table tbody tr')].map((row) => row.cells[arguments[0]].dataset.sort)"
)
_LABELS = "return [...document.querySelectorAll('#recipe-table tbody th')].map((cell) => cell.textContent)"
_CLICK = "document.querySelector(arguments[0]).click()"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert CHROMIUM is not None, WHY_NOT
    assert CHROMEDRIVER is not None, WHY_NOT
    found = Browser(tmp_path_factory.mktemp("browser"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    texts = {name: render(real(name)) for name in DUMPS} | {"full": render(full("plain"))}
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.mark.parametrize("name", [*DUMPS, "full"])
def test_every_chart_is_drawn_and_nothing_sticks_out(browser: Browser, pages: dict[str, Path], name: str) -> None:
    for theme in ("light", "dark"):
        browser.prefer(theme)
        for width in WIDTHS:
            browser.size(width)
            browser.open(pages[name])
            charts = browser.run(_MARKS)
            browser.run("for (const box of document.querySelectorAll('details')) box.open = true")
            assert len(charts) >= 5
            assert [chart for chart in charts if chart[1] < 1 or chart[2] < 1 or not chart[3]] == []
            assert browser.run("return document.documentElement.dataset.theme") == theme
            assert browser.run("return document.documentElement.scrollWidth") == width
            assert browser.run(_OUTSIDE) == []
    assert browser.log() == []


def test_the_recipe_table_sorts_both_ways_and_says_so(browser: Browser, pages: dict[str, Path]) -> None:
    browser.size(1400)
    browser.open(pages["async"])
    before = browser.run(_COLUMN, 3)
    expected = sorted(map(float, before))
    state = "return document.querySelector('#recipe-table th:nth-child(4)').getAttribute('aria-sort')"
    assert browser.run(state) == "none"
    browser.run(_CLICK, "#recipe-table th:nth-child(4) button.sort")
    assert list(map(float, browser.run(_COLUMN, 3))) == expected[::-1]
    assert browser.run(state) == "descending"
    browser.run(_CLICK, "#recipe-table th:nth-child(4) button.sort")
    assert list(map(float, browser.run(_COLUMN, 3))) == expected
    assert browser.run(state) == "ascending"
    browser.run(_CLICK, "#recipe-table th:nth-child(1) button.sort")
    labels = browser.run(_LABELS)
    assert labels == sorted(labels, key=str.lower)
    assert browser.run(state) == "none"


def test_a_figure_that_is_absent_sorts_last(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["async"])
    browser.run("document.querySelector('#recipe-table tbody tr:nth-child(3)').cells[3].removeAttribute('data-sort')")
    absent = browser.run(_LABELS)[2]
    for _ in range(2):
        browser.run(_CLICK, "#recipe-table th:nth-child(4) button.sort")
        assert browser.run(_LABELS)[-1] == absent


def test_the_theme_changes_colours_and_charts(browser: Browser, pages: dict[str, Path]) -> None:
    browser.prefer("light")
    browser.open(pages["async"])

    def seen() -> list[Any]:
        body, words = "getComputedStyle(document.body).backgroundColor", "document.querySelector('.plot .xtick text')"
        return browser.run(
            f"return [{body}, getComputedStyle({words}).fill, document.getElementById('theme').textContent]"
        )

    light = seen()
    browser.run(_CLICK, "#theme")
    browser.settle()
    dark = seen()
    assert all(one != other for one, other in zip(light, dark, strict=True))
    browser.run(_CLICK, "#theme")
    browser.settle()
    assert seen() == light


def test_a_definition_is_one_click_away(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["fresh"])
    marks = browser.run("return [...document.querySelectorAll('a.q')].map((mark) => mark.hash)")
    assert len(marks) > 10
    browser.run(_CLICK, "#recipe-table a.q[href='#def-gradient_left']")
    words = browser.run("const box = document.getElementById('definition'); return [box.open, box.textContent]")
    assert words[0] is True
    assert "weight 1 with everything kept" in words[1]
    browser.run(_CLICK, "#definition button")
    assert browser.run("return document.getElementById('definition').open") is False


def test_words_can_be_read_on_what_is_behind_them(browser: Browser, pages: dict[str, Path]) -> None:
    for theme in ("light", "dark"):
        browser.prefer(theme)
        browser.open(pages["async"])
        names = ("ink", "soft", "accent", "good", "warn", "bad", "info")
        style = "getComputedStyle(document.documentElement).getPropertyValue('--' + name)"
        colors = browser.run(
            f"return Object.fromEntries(['card', ...arguments[0]].map((name) => [name, {style}]))", names
        )
        for name in names:
            assert _contrast(colors[name], colors["card"]) >= 4.5, (theme, name)


def _contrast(one: str, other: str) -> float:
    """WCAG 2: (L1 + 0.05) / (L2 + 0.05) of the relative luminances of two colours, #rrggbb."""

    def luminance(color: str) -> float:
        parts = [int(color.strip()[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_strings_of_the_user_run_nothing(browser: Browser, tmp_path: Path) -> None:
    browser.size(400)
    for place, text in enumerate((HOSTILE[1], HOSTILE[4], " ".join(HOSTILE[:8]), HOSTILE[8])):
        page = tmp_path / f"{place}.html"
        page.write_text(render(full(text)), encoding="utf-8")
        browser.open(page)
        assert browser.run("return window.pwned === undefined") is True
        assert browser.run("return document.documentElement.scrollWidth") == 400
        assert browser.run("return document.querySelectorAll('.plot a, .plot img').length") == 0
    assert browser.log() == []


def test_what_the_page_did_not_bring_is_refused(browser: Browser, pages: dict[str, Path]) -> None:
    """The page's own policy stops a script that got in, and any request: the other tests would not see either."""
    browser.open(pages["fresh"])
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'window.late = 1'; document.body.append(s)"
    )
    browser.run(
        "const i = document.createElement('img'); i.src = 'http://example.invalid/x.png'; document.body.append(i)"
    )
    assert browser.run("return window.late === undefined") is True
    assert any("Content Security Policy" in line for line in browser.log())
