"""Pareto k-hat of the raw ratios: how heavy their upper tail is, and which figures it takes away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iscope.analysis.numbers import Array
from iscope.analysis.psis import SMALLEST_TAIL, pareto_khat, tail_length, threshold
from iscope.analysis.rows import Rows
from iscope.ledger.tail import LARGEST_DUMP
from iscope.model import Figure, Figures
from iscope.recipes.model import Pair

# Upper ends of the classes, as Vehtari et al. (arXiv 1507.02646) name them; from 1 on it is very bad.
_CLASSES = ((0.5, "good"), (0.7, "ok"), (1.0, "bad"))
_NO_MEAN = 1.0


@dataclass(frozen=True)
class Tail:
    """The upper tail of n weights.

    Attributes:
        khat: k-hat, or why there is none.
        draws: n.
        length: how many of the largest were fitted.
    """

    khat: Figure
    draws: int
    length: int

    @property
    def too_heavy(self) -> bool:
        """Whether k-hat exceeds what so many draws can bear."""
        return self.khat.value is not None and self.khat.value > threshold(self.draws)

    def to_figures(self) -> Figures:
        """Return k-hat with its class, the threshold at this number of draws, and the draws."""
        found: Figures = {**self.khat.to_dict(), "draws": self.draws}
        if self.khat.value is not None:
            found |= {"class": _class(self.khat.value), "threshold": threshold(self.draws), "tail": self.length}
        return found


def figures(rows: Rows) -> Figures:
    """``khat``: of the token ratios exp(d) and of the sequence ratios exp(S), trainer over inference.

    ``class`` is good below 0.5 (the weights have a variance), ok below 0.7, bad below 1, very bad from 1 on (they have
    no mean). Beyond ``threshold``, 1 - 1 / log10(draws) and at most 0.7, so few ``draws`` (tokens or rollouts) tell no
    mean reliably. ``current`` is the same of current over inference, where there are current logprobs.
    """
    found = _of_pair(rows, Pair.TRAINER_INFERENCE)
    if rows.resolve(Pair.CURRENT_INFERENCE) is Pair.CURRENT_INFERENCE:
        found["current"] = _of_pair(rows, Pair.CURRENT_INFERENCE)
    return {"khat": found}


def token_tail(rows: Rows, pair: Pair) -> Tail:
    """The tail of the token ratios exp(d)."""
    largest = rows.tails.get(str(rows.resolve(pair)))
    if largest is None:
        return Tail(Figure.absent("the tail of the tokens is kept for the whole dump only"), rows.tokens, 0)
    if rows.tokens > LARGEST_DUMP:
        return Tail(Figure.absent(f"it is kept for at most {LARGEST_DUMP:,} tokens"), rows.tokens, 0)
    return _tail(largest, rows.tokens)


def sequence_tail(rows: Rows, pair: Pair) -> Tail:
    """The tail of the sequence ratios exp(S)."""
    name = "sequence_tail", rows.resolve(pair)
    return rows.once(name, lambda: _tail(rows.log_ratio("sequence", pair), rows.rollouts))


def withhold(summary: Figures, rows: Rows, pair: Pair) -> Figures:
    """Take from a summary of sequence ratios the moments that cannot be told from these rollouts.

    The mean where k-hat is 1 or more: the ratios have none. The standard deviation where k-hat is above the threshold.
    What is no estimate stays: extremes, quantiles, shares, and the effective sample size of these very weights.
    """
    tail = sequence_tail(rows, pair)
    value = tail.khat.value
    if value is None or not tail.too_heavy:
        return summary
    spread = f"k-hat of exp(S) is {value:.2f}, above {threshold(tail.draws):.2f} for {tail.draws:,} rollouts"
    taken: Figures = {"std": Figure.absent(f"withheld: {spread}, so they tell no second moment")}
    if value >= _NO_MEAN:
        taken["mean"] = Figure.absent(f"withheld: k-hat of exp(S) is {value:.2f}, and from 1 on there is no mean")
    return summary | taken


def _of_pair(rows: Rows, pair: Pair) -> Figures:
    return {"token": token_tail(rows, pair).to_figures(), "sequence": sequence_tail(rows, pair).to_figures()}


def _tail(logs: Array, draws: int) -> Tail:
    """The tail of so many weights, given by logs that hold at least the largest of them."""
    length = tail_length(draws)
    if length < SMALLEST_TAIL:
        return Tail(Figure.absent(f"it takes at least {5 * SMALLEST_TAIL} draws"), draws, length)
    largest = np.sort(np.partition(logs, logs.size - length - 1)[-length - 1 :]).astype(np.float64)
    value = pareto_khat(largest)
    if value is None:
        return Tail(Figure.absent("the largest ratios are equal"), draws, length)
    return Tail(Figure(value), draws, length)


def _class(value: float) -> str:
    return next((name for end, name in _CLASSES if value < end), "very bad")
