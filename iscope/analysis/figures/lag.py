"""How many policy versions the trainer is ahead of the sampler, and what of the mismatch is lag."""

from __future__ import annotations

import numpy as np

from iscope.analysis.figures.differences import abs_max
from iscope.analysis.intervals import ratio
from iscope.analysis.numbers import NO_TOKENS, Array
from iscope.analysis.rows import Rows
from iscope.model import Figure, Figures, Node
from iscope.recipes.model import Pair

VERSIONS = ("trainer_version", "policy_version")
ON_POLICY = "on-policy assumed: no current logprobs"
# What is larger is no version, and no whole number holds it.
_LARGEST = 2**53
_PARTS = {"engine": Pair.TRAINER_INFERENCE, "lag": Pair.CURRENT_TRAINER, "total": Pair.CURRENT_INFERENCE}


def figures(rows: Rows) -> Figures:
    """``lag``: trainer_version - policy_version over rollouts that have both, and the parts of the mismatch.

    Where a version is a list, one per token, the mean is over the rollouts' means and min and max are over tokens.
    ``names`` is what the figures of trainer over inference measure: ``engine`` where both policies have one version,
    ``engine + lag`` where they never have (the trainer column is the current policy by nature), ``mixed``, or
    ``unknown``. ``parts`` needs current logprobs: ``engine`` is trainer over inference, ``lag`` current over trainer,
    ``total`` current over inference.
    """
    return {"lag": {**_range(rows), "parts": _parts(rows), "names": _names(rows)}}


def lag(rows: Rows) -> Array:
    """trainer_version - policy_version of each rollout, NaN where one is missing; the rows must have both columns."""
    return _version(rows, "trainer_version") - _version(rows, "policy_version")


def versions_differ(rows: Rows) -> tuple[Array, Array]:
    """Of each rollout: whether any token was sampled at another version than the trainer's; whether both are known.

    Versions may be words: they are only compared.
    """
    none = np.zeros(rows.rollouts, dtype=bool)
    if any(name not in rows for name in VERSIONS):
        return none, none
    frame = rows.frame
    differ, known = none, ~none
    for end in ("_min", "_max"):
        trainer, policy = (frame[name + end if name + end in rows else name] for name in VERSIONS)
        if trainer.dtype.is_numeric() != policy.dtype.is_numeric():
            trainer, policy = (series.cast(str) for series in (trainer, policy))
        known = known & (trainer.is_not_null() & policy.is_not_null()).to_numpy()
        differ = differ | (trainer != policy).fill_null(False).to_numpy()
    return differ & known, known


def why_no_lag(rows: Rows) -> str | None:
    """Why these rows have no lag; None where they have one."""
    for name in VERSIONS:
        if name not in rows:
            return f"the dump has no {name}"
        if not rows.frame[name].dtype.is_numeric():
            return f"{name} is no number"
    return None


def _version(rows: Rows, name: str, end: str = "") -> Array:
    column = name + end if name + end in rows else name
    values = rows.frame[column].cast(float).to_numpy()
    return np.where(abs(values) < _LARGEST, values, np.nan)


def _range(rows: Rows) -> Figures:
    why = why_no_lag(rows)
    if why:
        return {"min": Figure.absent(why), "mean": Figure.absent(why), "max": Figure.absent(why), "rollouts": 0}
    lowest = _version(rows, "trainer_version", "_min") - _version(rows, "policy_version", "_max")
    highest = _version(rows, "trainer_version", "_max") - _version(rows, "policy_version", "_min")
    mean = lag(rows)
    known = np.isfinite(mean)
    count = int(known.sum())
    if not count:
        absent = Figure.absent("no rollout has both versions" if rows.rollouts else NO_TOKENS)
        return {"min": absent, "mean": absent, "max": absent, "rollouts": 0}
    return {
        "min": Figure(float(lowest[known].min())),
        "mean": Figure(float(mean[known].mean())),
        "max": Figure(float(highest[known].max())),
        "rollouts": count,
    }


def _names(rows: Rows) -> str:
    differ, known = versions_differ(rows)
    if differ.any() and (known & ~differ).any():
        return "mixed"
    if not known.all() or not known.size:
        return "unknown"
    return "engine + lag" if differ.all() else "engine"


def _parts(rows: Rows) -> Node:
    if any(rows.resolve(pair) is not pair for pair in _PARTS.values()):
        return Figure.absent(ON_POLICY)
    return {name: _part(rows, pair) for name, pair in _PARTS.items()}


def _part(rows: Rows, pair: Pair) -> Figures:
    return {
        "k1": ratio(rows.clusters, -rows.pair("log_ratio_sum", pair), rows.n),
        "k3": ratio(rows.clusters, rows.pair("k3_sum", pair), rows.n),
        "abs_mean": ratio(rows.clusters, rows.pair("abs_sum", pair), rows.n),
        "abs_max": abs_max(rows, pair),
    }
