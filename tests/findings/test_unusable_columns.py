"""IS002 names a column that holds something else than logprobs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.findings.factory import healthy


def unusable(fault):
    return next(finding for finding in healthy(groups=4).edit(fault).report().findings if finding.code == "IS002")


@pytest.mark.parametrize("fault", [lambda t, v, rng: (-t, v), lambda t, v, rng: (np.exp(t), v)], ids=["losses", "p"])
def test_a_column_of_losses_or_probabilities(fault):
    found = unusable(fault)
    assert found.title == "Unusable logprobs: a column of losses or probabilities"
    assert found.action.startswith("write log p, which is never above 0")
    assert "a column of losses (-log p) or of probabilities" in found.message


def test_some_positive_values_are_no_such_column():
    found = unusable(lambda t, v, rng: (np.where(rng.random(len(t)) < 0.2, 0.5, t), v))
    assert found.title == "Unusable logprobs"
    assert "a misaligned column" in found.message
