from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from iscope.replay.segments import Segments
from tests.pretend_device import pretend_device

ROLLOUTS = st.lists(st.lists(st.floats(-1e6, 1e6), max_size=30), max_size=6)


def laid_out(rollouts: list[list[float]], device: torch.device | str = "cpu") -> tuple[Segments, torch.Tensor]:
    offsets = torch.tensor([0, *np.cumsum([len(values) for values in rollouts], dtype=int)], device=device)
    flat = [value for values in rollouts for value in values]
    return Segments(offsets), torch.tensor(flat, dtype=torch.float64, device=device)


def reduced(rollouts: list[list[float]], device: torch.device | str = "cpu") -> list[list[float]]:
    segments, values = laid_out(rollouts, device)
    found = [segments.sum(values), segments.max(values), segments.min(values), segments.max(values, empty=0.5)]
    return [one.cpu().tolist() for one in [*found, segments.count(values > 0)]]


@given(ROLLOUTS)
def test_each_segment_has_what_its_own_values_give(rollouts: list[list[float]]) -> None:
    total, top, low, filled, positive = reduced(rollouts)
    for row, values in enumerate(rollouts):
        assert abs(total[row] - math.fsum(values)) <= 1e-13 * math.fsum(map(abs, values))
        assert top[row] == max(values, default=-math.inf)
        assert low[row] == min(values, default=math.inf)
        assert filled[row] == max(values, default=0.5)
        assert positive[row] == sum(value > 0 for value in values)


@given(ROLLOUTS)
def test_a_device_reduces_to_the_same(rollouts: list[list[float]]) -> None:
    here = reduced(rollouts)
    with pretend_device() as device:
        there = reduced(rollouts, device)
    assert here[1:] == there[1:]
    sizes = [1 + math.fsum(map(abs, values)) for values in rollouts]
    assert all(abs(a - b) <= 1e-13 * size for a, b, size in zip(here[0], there[0], sizes, strict=True))


@given(ROLLOUTS.filter(any), st.data())
def test_neighbours_change_no_bit(rollouts: list[list[float]], data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(rollouts) - 1))
    assert [one[row] for one in reduced(rollouts)] == [one[0] for one in reduced([rollouts[row]])]


def test_a_value_that_is_no_number_is_seen() -> None:
    segments, values = laid_out([[1.0, math.nan, 2.0], [3.0]])
    for found in (segments.sum(values), segments.max(values), segments.min(values)):
        assert found.isnan().tolist() == [True, False]
