"""Take the pictures of the README from the sample's HTML report.

Run ``python -m docs.screenshots`` from the root of the repository after a change to the page; it needs chromium and
chromedriver.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from iscope import analyze
from iscope.render.html import render
from tests.render.html.browser import Browser

ROOT = Path(__file__).resolve().parent.parent
IMAGES = Path(__file__).with_name("images")
WIDTH, HEIGHT = 1200, 1080
# The place of the page that is at the top of each picture.
PICTURES = {"light": "header", "dark": "#recipes"}


def main() -> None:
    """Write one picture of the page per theme."""
    report = analyze(ROOT / "sample_data" / "train_async.parquet")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_text(render(report), encoding="utf-8")
        browser = Browser(Path(folder))
        try:
            for theme, place in PICTURES.items():
                browser.prefer(theme)
                browser.size(WIDTH, HEIGHT)
                browser.open(page)
                browser.run("document.querySelector(arguments[0]).scrollIntoView({behavior: 'instant'})", place)
                browser.screenshot(IMAGES / f"report-{theme}.png")
        finally:
            browser.close()


if __name__ == "__main__":
    main()
