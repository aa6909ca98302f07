from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from iscope.replay.exp_rest import exp_rest
from iscope.replay.exponential import expm1_and_rest
from tests.pretend_device import pretend_device

EPS = 2.0**-52
SMALL = st.floats(-1.5, 1.5)
ANY = st.floats(-699.0, 699.0)
TINY = st.builds(lambda x, e: x * 2.0**-e, st.floats(-1.0, 1.0), st.integers(1, 400))


def exact(x: float) -> tuple[Decimal, Decimal]:
    with localcontext() as context:
        context.prec = 1000
        excess = Decimal(x).exp() - 1
        return excess, excess - Decimal(x)


def relative(found: float, expected: Decimal) -> float:
    return 0.0 if expected == 0 and found == 0 else abs(float((Decimal(found) - expected) / expected))


@given(st.one_of(SMALL, ANY, TINY))
def test_both_are_right_to_the_last_bits(x: float) -> None:
    excess, rest = expm1_and_rest(x)
    right = exact(x)
    if abs(right[1]) < Decimal(2) ** -1000:  # its square has left the numbers that float64 holds in full
        return
    assert relative(excess, right[0]) <= 3 * EPS
    assert relative(rest, right[1]) <= 8 * EPS


@pytest.mark.parametrize("x", [0.0, -0.0])
def test_of_nothing_is_nothing(x: float) -> None:
    assert expm1_and_rest(x) == (0.0, 0.0)


@pytest.mark.parametrize(("x", "held"), [(1e9, 700.0), (float("inf"), 700.0), (-1e9, -700.0), (float("-inf"), -700.0)])
def test_what_float64_cannot_hold_is_held(x: float, held: float) -> None:
    assert expm1_and_rest(x) == expm1_and_rest(held)
    assert np.isfinite(expm1_and_rest(x)).all()


@given(st.lists(st.one_of(SMALL, st.floats(-300.0, 300.0)), max_size=20))
def test_a_tensor_gives_the_same_on_every_device(values: list[float]) -> None:
    here = exp_rest(torch.tensor(values, dtype=torch.float64))
    with pretend_device() as device:
        there = exp_rest(torch.tensor(values, dtype=torch.float64, device=device)).cpu()
    assert here.tolist() == [expm1_and_rest(value)[1] for value in values]
    np.testing.assert_allclose(there.numpy(), here.numpy(), rtol=20 * EPS, atol=0)
