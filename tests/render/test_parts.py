from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from iscope.errors import UsageError
from iscope.model import Figure
from iscope.render import EXTENSIONS, RENDERERS, check_format, format_of, renderer
from iscope.render.nodes import at, figure, scalars
from iscope.render.numbers import count, counted, from_log10, number, percent, ratio
from iscope.render.strings import clean, elide, prose
from iscope.render.terminal.page import flow, fold, wrap


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.0049, "0.00490"),
        (0.000123456, "0.000123"),
        (0.0000123456, "1.23e-5"),
        (0.9996, "1.00"),
        (12.345, "12.3"),
        (-1234.5, "-1,234"),
        (999999.0, "1.00e6"),
        (123456.0, "123,456"),
        (1e300, "1.00e300"),
        (-5e-324, "-4.94e-324"),
        (1234567, "1,234,567"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


@given(st.floats(-1.79e308, 1.79e308))
def test_a_number_reads_back_to_three_digits(value: float) -> None:
    text = number(value).replace(",", "")
    assert float(text) == pytest.approx(value, rel=5.01e-3, abs=0)
    assert len(number(value)) <= 10


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.0, "0.0%"), (1e-9, "<0.1%"), (0.0005, "0.1%"), (0.1234, "12.3%"), (0.99951, ">99.9%"), (1.0, "100.0%")],
)
def test_percent(fraction: float, text: str) -> None:
    assert percent(fraction) == text


@given(st.floats(0, 1))
def test_only_0_and_1_look_like_0_and_100_percent(fraction: float) -> None:
    assert (percent(fraction) == "100.0%") == (fraction == 1)
    assert (percent(fraction) == "0.0%") == (fraction == 0)


def test_other_numbers() -> None:
    assert ratio(0.99871) == "0.9987"
    assert count(36511.0) == "36,511"
    assert counted(1, "file") == "1 file"
    assert counted(0, "file") == "0 files"


@pytest.mark.parametrize(
    ("log10", "text"), [(434.4, "2.5e434"), (-434.6, "2.5e-435"), (400.0, "1.0e400"), (399.9999999, "1.0e400")]
)
def test_from_log10(log10: float, text: str) -> None:
    assert from_log10(log10) == text


def test_from_log10_agrees_with_floats() -> None:
    assert float(from_log10(math.log10(7.3e250))) == pytest.approx(7.3e250)


def test_strings() -> None:
    assert clean("a\x1b[31m\u202e\udcffé") == "a\\x1b[31m\\u202e\\udcffé"
    assert elide("abcdefghij", 5) == "ab…ij"
    assert elide("abcde", 5) == "abcde"
    assert prose(" a \n  b ") == "a b"
    assert len(prose("x" * 10_000 + " y")) == 122


def test_wrap_indents_and_keeps_styles() -> None:
    styled = Text("one two three")
    styled.stylize("bold", 4, 13)
    assert [[(span.start, span.end) for span in line.spans] for line in wrap(styled, 8, 2)] == [[(4, 7)], [(2, 7)]]
    assert [line.plain for line in wrap("  one two three four", 10, 4)] == ["  one two", "    three", "    four"]
    assert [line.plain for line in wrap("", 10)] == [""]


@given(st.text(max_size=300).map(clean), st.integers(20, 100), st.integers(0, 8))
def test_wrap_loses_nothing_but_spaces(text: str, width: int, indent: int) -> None:
    lines = wrap(text, width, indent)
    assert all(cell_len(line.plain.rstrip()) <= width for line in lines)
    assert "".join("".join(line.plain.split()) for line in lines) == "".join(text.split())


@given(st.text(min_size=1, max_size=200).map(clean), st.integers(8, 80))
def test_fold_loses_nothing_but_spaces(text: str, width: int) -> None:
    lines = fold(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_fold_breaks_after_separators() -> None:
    assert fold("trl/token_mask:clip_min=0.5,clip_max=2", 30) == ["trl/token_mask:clip_min=0.5,", "clip_max=2"]


def test_flow_keeps_pieces_whole() -> None:
    lines = [line.plain for line in flow(["k1 0.5 nats", "k2 0.25 nats", "k3 0.125 nats"], 30)]
    assert lines == ["  k1 0.5 nats   k2 0.25 nats", "  k3 0.125 nats"]


def test_nodes() -> None:
    tree = {"a": {"b": Figure(1.0), "c": 2}, "d": [1], "e": {"value": 3, "low": 2, "high": 4, "base": 9}}
    assert at(tree, "a", "b") == Figure(1.0)
    assert at(tree, "a", "x") is None
    assert at(tree, "d", "x") is None
    assert figure(2) == Figure(2)
    assert figure(True) is None
    assert figure("x") is None
    assert figure(tree["e"]) == Figure(3, low=2, high=4)
    assert figure({"value": None, "why": "no"}) == Figure.absent("no")
    assert figure({"value": Figure(1.0, low=0.5, high=2.0), "base": Figure(9.0)}) == Figure(1.0, low=0.5, high=2.0)
    assert dict(scalars(tree)) == {"a b": Figure(1.0), "a c": 2, "e": tree["e"]}


def test_registry() -> None:
    for name in RENDERERS:
        assert callable(renderer(name))
        assert check_format(name) == name
    assert set(EXTENSIONS.values()) == set(RENDERERS)
    assert format_of("a/b.JSON") == "json"
    with pytest.raises(UsageError, match=r"^There is no format 'jsn'; .* Did you mean 'json'\?$"):
        renderer("jsn")
    with pytest.raises(UsageError, match=r"^The extension of 'a\.b/c' names no format"):
        format_of("a.b/c")
