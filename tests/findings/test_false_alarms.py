"""Healthy dumps, resampled and cut small, have no finding above information."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import iscope
from benchmarks.findings import HEALTHY, above, false_alarms, read


def test_resampled_healthy_dumps():
    found = sum((codes for _, _, codes in false_alarms(dumps=24, seed=1)), Counter())
    assert found == {}


@pytest.mark.parametrize(("dump", "trainer"), HEALTHY, ids="/".join)
def test_a_few_rollouts_of_healthy_dumps(dump, trainer):
    table, rng = read(dump, trainer), np.random.default_rng(2)
    for count in (1, 2, 3, 5, 8, 21):
        part = table[rng.choice(table.height, count, replace=False)]
        for kept in (part, part.drop("group_id"), part.drop("policy_version", "trainer_version", "step")):
            assert above(iscope.inspect(kept).findings) == []
