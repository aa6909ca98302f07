"""The pages of docs/: the catalogue is what the tables say, and every recipe that a page names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import generate
from iscope.recipes import names, parse

ROOT = Path(__file__).resolve().parent.parent
NAMES = (ROOT / "docs" / "names.md").read_text(encoding="utf-8")


def test_the_catalogue_is_up_to_date() -> None:
    committed = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert committed == generate.page(), "run: python -m docs.generate"


def test_the_findings_are_up_to_date() -> None:
    committed = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    assert committed == generate.findings_page(), "run: python -m docs.generate"


def test_the_catalogue_has_every_recipe() -> None:
    headings = re.findall(r"^### (.+)$", generate.page(), re.MULTILINE)
    assert [heading for heading in headings if not heading.startswith("Not replayed")] == list(names())


@pytest.mark.parametrize(
    "page",
    ["docs/recipes.md", "docs/names.md", "docs/own_recipes.md", "docs/configs.md", "docs/compare.md", "docs/gates.md"],
)
def test_the_readme_links_to_it(page: str) -> None:
    assert f"]({page})" in (ROOT / "README.md").read_text(encoding="utf-8")


def _specs(text: str) -> list[str]:
    """Code spans that name a recipe, with or without options."""
    spans = re.findall(r"`([^`\n]+)`", text)
    return [span for span in spans if span.partition(":")[0] in names()]


def test_recipes_that_the_names_page_spells_out_parse() -> None:
    specs = _specs(NAMES)
    assert len(specs) > 60
    for spec in specs:
        assert parse(spec).name == spec.partition(":")[0]


def test_code_spans_with_a_slash_are_recipes() -> None:
    owners = {name.partition("/")[0] for name in names() if "/" in name}
    spans = [span for span in re.findall(r"`([^`\n]+/[^`\n]+)`", NAMES) if span.partition("/")[0] in owners]
    assert [span for span in spans if span not in _specs(NAMES)] == []


def test_the_row_that_contributing_shows_stands_in_its_table() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^   ```python\n(.*?)^   ```", text, re.MULTILINE | re.DOTALL)
    shown = [line.strip() for block in blocks if "Recipe(" in block for line in block.splitlines() if line.strip()]
    table = [line.strip() for line in (ROOT / "iscope" / "recipes" / "trl.py").read_text(encoding="utf-8").splitlines()]
    assert len(shown) > 10
    assert [line for line in shown if line not in table] == []
