"""Where a terminal shows 95% intervals."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from iscope.model import Figure
from iscope.render.terminal import render
from tests.render import reports


def squash(text: str) -> str:
    return " ".join(text.split())


def report(**changes: object):
    ordinary = reports.ordinary()
    gradient = {"all": Figure(0.75, low=0.66, high=0.87)}
    size = {"value": 52.1, "low": 34.0, "high": 81.0, "basis": "gradient", "base": Figure(152.0)}
    mismatch = {
        "k1": Figure(0.0185, low=0.0127, high=0.0298),
        "abs_mean": Figure(0.0886, low=0.0711, high=0.0999),
        "variance_ratio": Figure(12.05, low=7.03, high=22.4),
        "ratio": {"token": {"unit": "tokens", "mean": Figure(0.9957, low=0.9911, high=1.0012)}},
        "sampler_check": {"value": 0.93, "low": 0.92, "high": 0.94, "rollouts": 416},
    }
    return reports.ordinary(
        mismatch=ordinary.mismatch | mismatch | changes,
        recipes=[reports.recipe("none", gradient_left=gradient, effective_batch_size=size)],
        breakdowns={"lag": [reports.step(0, k3=Figure(0.0049, low=0.0032, high=0.0066))]},
    )


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_headline_figures_have_them_at_every_width(width: int):
    page = render(report(), width=width)
    text = squash(page)
    for shown in ("0.0185 [0.0127,0.0298]", "0.0173 [0.0151,0.0198]", "12.1 [7.03,22.4]", "52.1 [34,81]/152"):
        assert shown in text
    assert all(cell_len(line) <= width for line in page.splitlines())


def test_others_have_them_on_request():
    asked, plain = (squash(render(report(), width=160, verbose=verbose)) for verbose in (True, False))
    for shown in ("0.0886 [0.0711,0.0999]", "0.9957 [0.9911,1.001]", "[0.660,0.870]"):
        assert shown in asked
        assert shown not in plain


def test_breakdowns_have_that_of_k3_where_there_is_room():
    for width, there in ((80, False), (99, False), (100, True)):
        assert ("[0.00320,0.00660]" in render(report(), width=width)) is there


def test_the_sampler_check_is_silent_without_a_message():
    assert "sampler check" not in squash(render(report(), width=100))
    assert "sampler check: mean rho at lag 0 0.930 [0.920,0.940]" in squash(render(report(), width=100, verbose=True))
    message = {"value": 0.93, "low": 0.92, "high": 0.94, "rollouts": 416, "message": "not sampled\x1b[31m from"}
    page = render(report(sampler_check=message), width=100)
    assert "SAMPLER CHECK not sampled\\x1b[31m from" in page
    assert "0.930 [0.920,0.940]" in squash(page)
