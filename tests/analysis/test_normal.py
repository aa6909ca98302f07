"""The compiled distribution function of the standard normal against that of the C library."""

from __future__ import annotations

import math

import numpy as np
import pytest

from iscope.analysis.normal import chance_below


def test_the_chance_below_is_that_of_the_normal() -> None:
    places = [*np.linspace(-10.0, 10.0, 20_001).tolist(), -1e300, 1e300, -math.inf, math.inf]
    for z in places:
        assert chance_below(z) == pytest.approx(math.erfc(-z / math.sqrt(2.0)) / 2, abs=1e-15)
    assert chance_below(-math.inf) < 1e-18
    assert chance_below(math.inf) == 1.0
