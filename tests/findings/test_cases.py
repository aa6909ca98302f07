"""Every kind of finding on dumps that show it, and on healthy or confusable ones."""

from __future__ import annotations

from collections import Counter

import pytest

from iscope.analysis.findings import kinds
from tests.findings.cases import CASES

IDS = [f"{case.code}: {case.name}" for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_case(case):
    findings = case.build().report(**case.options).findings
    severities = {finding.code: finding.severity for finding in findings}
    assert (case.code in severities) == case.fires, severities
    if case.healthy:
        assert {code: word for code, word in severities.items() if word != "information"} == {}


def test_every_kind_has_three_of_either():
    counts = Counter((case.code, case.fires) for case in CASES)
    paired = {"IS008"}  # needs two files, and is tested with them
    for kind in kinds():
        if kind.code not in paired:
            assert min(counts[kind.code, True], counts[kind.code, False]) >= 3, kind.code
