"""Intervals of what gates compare, written out plainly with scipy and numpy."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats


def difference(here, there):
    """(value, low, high) of here - there, each a triple: squares of the arms add up (Zou & Donner 2008)."""
    (a, a_low, a_high), (b, b_low, b_high) = here, there
    down = math.sqrt((a - a_low) ** 2 + (b_high - b) ** 2)
    up = math.sqrt((a_high - a) ** 2 + (b - b_low) ** 2)
    return a - b, a - b - down, a - b + up


def ratio(here, there):
    """The same of here / there, from the difference of logs."""
    return tuple(math.exp(x) for x in difference(tuple(map(math.log, here)), tuple(map(math.log, there))))


def slope(places, values):
    """(value, low, high) of the least-squares slope, from the covariance of the normal equations and Student's t."""
    design = np.column_stack([np.ones(len(places)), places])
    solved, *_ = np.linalg.lstsq(design, np.array(values), rcond=None)
    rest = np.array(values) - design @ solved
    freedom = len(places) - 2
    covariance = np.linalg.inv(design.T @ design) * (rest @ rest) / freedom
    half = stats.t.ppf(0.975, freedom) * math.sqrt(max(covariance[1, 1], 0.0))
    return solved[1], solved[1] - half, solved[1] + half


def growth(rows, window):
    """(value, low, high) of the mean of the last rows over that of the first; rows are triples."""

    def mean(part):
        part = np.array(part)
        value = part[:, 0].mean()
        down = np.sqrt(((part[:, 0] - part[:, 1]) ** 2).sum()) / len(part)
        up = np.sqrt(((part[:, 2] - part[:, 0]) ** 2).sum()) / len(part)
        return value, value - down, value + up

    return ratio(mean(rows[-window:]), mean(rows[:window]))
