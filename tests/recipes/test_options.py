"""Values of an option: from text, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iscope.errors import UsageError
from iscope.recipes.model import Option
from iscope.recipes.options import Value, check_value, find_option, kind_in_words, read_value, spell

FLOAT = Option("f", "f", "float", 1.0, "d", nullable=True)
INT = Option("i", "i", "int", 1, "d")
BOOL = Option("b", "b", "bool", True, "d")
CHOICE = Option("c", "c", "choice", "a", "d", choices=("a", "none"))
NULLABLE_CHOICE = Option("c", "c", "choice", "a", "d", choices=("a", "b"), nullable=True)


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (FLOAT, "2", 2.0),
        (FLOAT, "none", None),
        (FLOAT, "1_000", "1_000"),
        (INT, "-12", -12),
        (INT, "1_000", "1_000"),
        (INT, "2.0", "2.0"),
        (INT, "9" * 5000, "9" * 5000),
        (BOOL, "true", True),
        (BOOL, "false", False),
        (BOOL, "1", "1"),
        (CHOICE, "none", "none"),
        (NULLABLE_CHOICE, "none", None),
        (NULLABLE_CHOICE, "b", "b"),
    ],
)
def test_read_value(option: Option, text: str, value: Value) -> None:
    found = read_value(option, text)
    assert found == value
    assert type(found) is type(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_round_trip_exactly(value: float) -> None:
    text = spell(value)
    again = read_value(FLOAT, text)
    assert isinstance(again, float)
    assert again.hex() == value.hex()
    assert not text.endswith(".0")


@pytest.mark.parametrize(("option", "value"), [(INT, -7), (INT, 10**17), (BOOL, True), (BOOL, False), (CHOICE, "none")])
def test_other_kinds_round_trip(option: Option, value: Value) -> None:
    again = check_value("r", option, read_value(option, spell(value)))
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (FLOAT, "a number or none"),
        (INT, "a whole number"),
        (BOOL, "true or false"),
        (CHOICE, "one of a, none"),
        (NULLABLE_CHOICE, "one of a, b or none"),
    ],
)
def test_kind_in_words(option: Option, words: str) -> None:
    assert kind_in_words(option) == words


def test_a_recipe_without_options_says_so() -> None:
    with pytest.raises(UsageError, match=r"^r has no option 'low'; it takes none\.$"):
        find_option("r", (), "low")


@pytest.mark.parametrize("value", [10**18, -(10**18), 16**6000], ids=["19 digits", "below 0", "beyond words"])
def test_whole_numbers_that_text_cannot_spell(value: int) -> None:
    with pytest.raises(UsageError, match=r"^r: i must be a whole number, not (-?10{18}|so large a number)\.$"):
        check_value("r", INT, value)
