"""Which settings to show, and in which order: conditions on figures, and the figure to rank by."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iscope.analysis.compare.nodes import number_at, paths_of
from iscope.errors import UsageError, did_you_mean
from iscope.model import RecipeReport

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_CONDITION = re.compile(
    r"\s*([A-Za-z_][\w.]*)\s*(>=|<=|==|!=|>|<)\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(%?)\s*", re.I
)
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)
# Figures of which less is better; of all others more is.
_LESS_IS_BETTER = ("product_left", "unmasked_mismatch_kl", "masked", "truncated", "modified")


@dataclass(frozen=True)
class Condition:
    """A bound on a figure of a setting.

    Attributes:
        text: as it was written.
        path: the figure, by its dotted name in a recipe's entry of the JSON report.
        operator: how it is compared.
        value: with what.
    """

    text: str
    path: str
    operator: str
    value: float

    def met(self, entry: RecipeReport) -> bool:
        """Whether a setting meets it; one without the figure does not."""
        found = number_at(entry.figures, self.path)
        return found is not None and _OPERATORS[self.operator](found, self.value)


def read_conditions(texts: Sequence[str]) -> list[Condition]:
    """Return the conditions of ``FIGURE >= NUMBER``, several joined by ``and``; ``90%`` is 0.9.

    Raises:
        UsageError: when one is malformed.
    """
    return [_condition(piece) for text in texts for piece in _AND.split(text.strip())]


def _condition(text: str) -> Condition:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise UsageError(
            f"a requirement is FIGURE and a bound, such as 'gradient_left.all >= 0.9', joined by and; not {text!r}."
        )
    path, compared, number, percent = found.groups()
    return Condition(text.strip(), path, compared, float(number) / (100.0 if percent else 1.0))


def check_paths(paths: Sequence[str], entries: Sequence[RecipeReport]) -> None:
    """Refuse figures that no setting has.

    Raises:
        UsageError: when there is one.
    """
    known: dict[str, None] = {}
    for entry in entries:
        if all(path in known for path in paths):
            return
        known |= dict.fromkeys(paths_of(entry.figures))
    for path in paths:
        if known and path not in known:
            some = "effective_batch_size.value, gradient_left.all, product_left, unmasked_mismatch_kl.token"
            raise UsageError(
                f"no setting has a figure {path!r}; there are {some} and others.{did_you_mean(path, known)}"
            )


def ranked(entries: Sequence[RecipeReport], path: str | None) -> list[RecipeReport]:
    """Return the settings, the best by a figure first, those without it last; as they are where there is none.

    More is better, but of what is changed, of the product left and of the k3 kept.
    """
    if path is None:
        return list(entries)
    sign = 1.0 if path.split(".")[0] in _LESS_IS_BETTER else -1.0

    def key(entry: RecipeReport) -> tuple[bool, float]:
        found = number_at(entry.figures, path)
        return found is None, 0.0 if found is None else sign * found

    return sorted(entries, key=key)
