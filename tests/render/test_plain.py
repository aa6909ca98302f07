"""Plain pages: nothing is lost, nothing is wider than the page, nothing is read as an escape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from iscope.render.plain import Line, columns, facts, fold, page_width, paragraph, write
from iscope.render.strings import clean

TEXT = st.text(alphabet=st.sampled_from("ab,/_ \n=日\x1b"), max_size=60)


@given(TEXT, st.integers(2, 40))
def test_folded_text_fits_and_is_whole(text: str, width: int) -> None:
    pieces = fold(text, width)
    assert all(cell_len(piece) <= width for piece in pieces)
    kept = "".join("".join(pieces).split())
    assert kept == "".join("".join(map(clean, text.split("\n"))).split())


@given(st.lists(TEXT, min_size=1, max_size=4), st.integers(2, 20), st.integers(0, 6))
def test_columns_are_as_wide_as_they_say(texts: list[str], width: int, indent: int) -> None:
    for line in columns([(text, width) for text in texts], indent):
        assert cell_len(line.text) == indent + len(texts) * (width + 2) - 2
    assert len(columns([(text, width) for text in texts])) == max(len(fold(text, width)) for text in texts)


def test_a_word_that_does_not_fit_is_broken_after_a_separator() -> None:
    assert fold("clip_min=none,clip_max=2", 20) == ["clip_min=none,clip_", "max=2"]
    assert fold("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]


def test_line_breaks_and_the_indent_of_a_line_stay() -> None:
    assert fold("one two three\n  four five", 9) == ["one two", "three", "  four", "  five"]
    assert paragraph("a b", 2, 1) == [Line(" a"), Line(" b")]


def test_labels_stand_in_a_column_unless_there_is_no_room() -> None:
    pairs = [("label", "some text that is long"), ("", "more")]
    assert [line.text for line in facts(pairs, 20)] == [
        "label  some text    ",
        "       that is long ",
        "       more         ",
    ]
    assert [line.text for line in facts([("label", "text")], 10)] == ["label text"]


def test_nothing_escapes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write([*paragraph("a\x1b[31mred", 40, bold=True), Line(), *facts([("x\x07", "y\u202e")], 40)])
    assert capsys.readouterr().out == "a\\x1b[31mred\n\nx\\x07  y\\u202e\n"


def test_headings_are_bold_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for term, expected in (("xterm", "\x1b[1mhead\x1b[0m\nbody\n"), ("dumb", "head\nbody\n")):
        monkeypatch.setenv("TERM", term)
        write([Line("head", bold=True), Line("body")])
        assert capsys.readouterr().out == expected


def test_a_page_has_some_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1")
    assert page_width() == 8
