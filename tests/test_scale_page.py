"""docs/scale.md: its commands run, its table is what was measured multiplied up; and the slope that it starts from."""

from __future__ import annotations

import inspect
import re

import pytest

from benchmarks import slope
from benchmarks.slope import Point
from docs import sizing
from iscope.cli.commands import COMMANDS, load
from iscope.dump import units
from iscope.engines import here, ray_tasks

TEXT = sizing.PAGE.read_text(encoding="utf-8")


def test_the_table_is_up_to_date() -> None:
    assert sizing.page(TEXT) == TEXT, "run: python -m docs.sizing"
    assert "**Computed, not measured**" in TEXT


def test_the_numbers_it_starts_from_are_said() -> None:
    found, text = sizing.QUIET_MACHINE, TEXT.replace("\n", " ")
    assert f" {found.pass_ns:.0f} ns a token with the default recipes" in text
    assert f"dumps of {found.dump_bytes:.1f} bytes and rollouts of {found.rollout_tokens:.0f} tokens" in text
    assert f" {found.ledger_bytes:.0f} bytes a rollout," in text


def test_time_is_that_of_the_slower_of_reading_and_measuring() -> None:
    one = sizing.Measured(pass_ns=50, dump_bytes=10, rollout_tokens=1000, ledger_bytes=500)
    assert sizing.pass_seconds(1e9, 1, one, 1e9) == pytest.approx(50)
    assert sizing.pass_seconds(1e9, 5, one, 1e9) == pytest.approx(10)
    assert sizing.pass_seconds(1e9, 1, one, 1e8) == pytest.approx(100)
    assert sizing.ledger_bytes(1e9, one) == pytest.approx(5e8)


def test_options_and_defaults_of_the_page_exist() -> None:
    known = {name for command in map(load, COMMANDS) for param in command.params for name in param.opts}
    ours = TEXT.replace("#SBATCH --", "").split("sbatch ")[0]
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", ours)) <= known
    assert f"{units.TOKENS:,} tokens are joined" in TEXT
    assert f"({inspect.signature(here.Local).parameters['every'].default:.0f} seconds" in TEXT.replace(
        "about every ", "("
    )
    defaults = inspect.signature(ray_tasks.Ray).parameters
    assert f"(`task_tokens`, {defaults['task_tokens'].default / 1e6:.1f}M)" in TEXT.replace("\n", " ")
    assert f"(`retries`, {defaults['retries'].default})" in TEXT


def points(*sizes: int) -> list[Point]:
    return [Point(size, size // 1000, 2.0 + size * 1e-7, 0.5 + size * 6e-8, 2**28 + size) for size in sizes]


def test_the_slope_leaves_out_what_every_run_costs() -> None:
    assert slope.slope(points(10**6, 3 * 10**6, 10**7)) == pytest.approx(6e-8)


def test_sizes_are_compared_ten_to_one() -> None:
    one, three, ten, thirty = points(10**6, 3 * 10**6, 10_400_000, 30 * 10**6)
    assert slope.tenfold([one, three, ten, thirty]) == [(one, ten), (three, thirty)]
    text = slope.table([one, three, ten, thirty])
    assert text.splitlines()[-3:] == [
        "slope of the pass: 60.0 ns a token",
        "1,000,000 to 10,400,000 tokens: analyze 1.45 times, pass 2.01 times, +9 MiB",
        "3,000,000 to 30,000,000 tokens: analyze 2.17 times, pass 3.38 times, +26 MiB",
    ]
    assert slope.table([one]).count("\n") == 1
