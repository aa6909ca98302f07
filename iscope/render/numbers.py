"""Numbers as people read them: a few significant digits, never an ellipsis, never a false 0 or 100 %."""

from __future__ import annotations

import math


def number(value: float, digits: int = 3) -> str:
    """Return a number with ``digits`` significant digits: 0.00490, 12.5, 1,234, 2.50e300."""
    if isinstance(value, int):
        return count(value)
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    power = int(exponent)
    if -5 < power < 6:
        return f"{value:,.{max(0, digits - 1 - power)}f}"
    return f"{mantissa}e{power}"


def ratio(value: float) -> str:
    """Return a ratio or a weight with four significant digits: 0.9987."""
    return number(value, 4)


def count(value: float) -> str:
    """Return a whole number with its thousands apart: 36,511."""
    return f"{value:,.0f}"


def counted(value: int, noun: str) -> str:
    """Return a count and what is counted: 1 rollout, 416 rollouts."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def percent(fraction: float) -> str:
    """Return a fraction as a percentage to one decimal; what is not quite 0 or 100 does not look like it."""
    if 0 < fraction < 0.0005:
        return "<0.1%"
    if 0.9995 <= fraction < 1:
        return ">99.9%"
    return f"{100 * fraction:.1f}%"


def from_log10(log10: float) -> str:
    """Return a positive number that float64 cannot hold, from its log10: 2.5e434."""
    power = math.floor(log10)
    mantissa = f"{10 ** (log10 - power):.1f}"
    return f"1.0e{power + 1}" if mantissa == "10.0" else f"{mantissa}e{power}"
