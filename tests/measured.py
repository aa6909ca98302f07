"""Two measurements of the same rollouts held against each other."""

from __future__ import annotations

import numpy as np

from iscope.ledger.measure import Measured

# Sums whose terms are of both signs and not larger than exp(abs(d)) of a pair.
SIGNED = ("log_ratio_sum", "excess_sum", "logprob_sum")
RELATIVE = 1e-12


def values_of(found: Measured) -> dict[str, np.ndarray]:
    columns = {**found.columns, **{f"trained {name}": values for name, values in found.trained.items()}}
    values = {name: column.numpy() for name, column in columns.items()}
    return values | {f"histogram {name}": counts for name, counts in found.histograms.items()}


def scale_of(name: str, values: dict[str, np.ndarray]) -> np.ndarray | float:
    """What a sum's rounding is measured by: itself, or for sums of both signs the sum of their sizes."""
    if not name.endswith(SIGNED):
        return 0.0
    tokens = values["tokens" if not name.startswith("trained ") else "trained tokens"]
    pairs = [column for key, column in values.items() if key.endswith("exp_abs_sum") and len(column) == len(tokens)]
    return np.maximum.reduce([tokens.astype(float), *(np.where(np.isfinite(p), p, 0.0) for p in pairs)])


def assert_close(found: Measured, expected: Measured) -> None:
    """Every count is the same, and every sum within 1e-12 of its scale; infinities are the same."""
    values, others = values_of(expected), values_of(found)
    assert list(others) == list(values)
    for name, value in values.items():
        other = others[name]
        assert other.dtype == value.dtype, name
        if value.dtype.kind != "f":
            np.testing.assert_array_equal(other, value, err_msg=name)
            continue
        finite = np.isfinite(value)
        np.testing.assert_array_equal(other[~finite], value[~finite], err_msg=name)
        error = np.abs(other[finite] - value[finite])
        allowed = np.maximum(np.abs(value), scale_of(name, values))[finite] * RELATIVE
        assert (error <= allowed).all(), (name, other[finite], value[finite])
