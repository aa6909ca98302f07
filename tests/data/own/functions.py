"""Functions that recipes.toml names."""

from __future__ import annotations

from iscope.recipes.model import Pair

PAIR = Pair.TRAINER_INFERENCE


def root(view, power):
    return (power * view.exact(PAIR)).exp()


def mean_abs(view):
    return view.segments.mean(view.exact(PAIR).abs())


def linear(view, signal, weight):
    ratio = view.weight(Pair.CURRENT_TRAINER)
    value = -signal * weight * ratio
    return value, value
