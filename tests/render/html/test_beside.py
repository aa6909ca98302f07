"""Names beside points: none over another or over a point, and as many as there is room for."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from iscope.render.html.charts.beside import Plot, beside

PLOT = Plot((0.0, 2.0), (0.0, 1.0), 280, 390)
POINTS = st.lists(st.tuples(st.floats(0, 2), st.floats(0, 1), st.text("abc", max_size=24)), max_size=12)
LETTER, LINE = 5.7, 12.0  # no larger than what is reckoned with


def box(point: tuple[float, float], text: str, position: str) -> tuple[float, float, float, float]:
    x, y = point[0] / 2 * 280, point[1] * 390
    wide = LETTER * len(text)
    left = x if position.endswith("right") else x - wide if position.endswith("left") else x - wide / 2
    low = y if position.startswith("top") else y - LINE
    return left, low, left + wide, low + LINE


@given(POINTS)
def test_no_name_stands_on_another_or_outside(drawn: list[tuple[float, float, str]]) -> None:
    points = [(x, y) for x, y, _ in drawn]
    names = [name for _, _, name in drawn]
    texts, positions = beside(names, points, ["top right"] * len(drawn), PLOT)
    assert all(text in ("", name) for text, name in zip(texts, names, strict=True))
    boxes = [box(*one) for one in zip(points, texts, positions, strict=True) if one[1]]
    for a, b in combinations(boxes, 2):
        assert a[2] <= b[0] + 6 or b[2] <= a[0] + 6 or a[3] <= b[1] + 6 or b[3] <= a[1] + 6
    assert all(a[0] >= -6 and a[2] <= 286 for a in boxes)


def test_a_name_stands_where_it_is_wanted_while_there_is_room() -> None:
    assert beside(["ab", "cd"], [(0.5, 0.5), (1.5, 0.5)], ["bottom left", "top right"], PLOT) == (
        ["ab", "cd"],
        ["bottom left", "top right"],
    )
    texts, positions = beside(["abcdefgh", "ijklmnop"], [(0.5, 0.5), (0.6, 0.5)], ["top right"] * 2, PLOT)
    assert (texts, positions[0] != positions[1]) == (["abcdefgh", "ijklmnop"], True)


def test_a_name_without_room_is_left_out() -> None:
    crowd = [(1.0, 0.5 + 0.01 * n) for n in range(-6, 7)]
    texts, _ = beside(["name of a recipe"] * 13, crowd, ["top right"] * 13, PLOT)
    assert 1 <= sum(map(bool, texts)) < 13
    assert beside(["x" * 100], [(1.0, 0.5)], ["top right"], PLOT)[0] == [""]
