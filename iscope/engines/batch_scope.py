"""What a batch scope may be, and how it is said; no torch, so that the command line can check it at once."""

from __future__ import annotations

from iscope.errors import UsageError, did_you_mean
from iscope.place import shown
from iscope.recipes.options import DIGITS


def batch_scope(value: str | int) -> str | int:
    """Return a batch scope: ``all``, ``step`` or a number of rollouts.

    Raises:
        UsageError: when it is none of these.
    """
    if isinstance(value, str) and value.isdecimal() and len(value) <= DIGITS:
        value = int(value)
    if value in ("all", "step") or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 10**DIGITS):
        return value
    hint = did_you_mean(value, ("all", "step")) if isinstance(value, str) else ""
    raise UsageError(f"The batch must be all, step or a number of rollouts from 1, not {shown(value)}.{hint}")


def in_words(scope: str | int) -> str:
    """Return which rollouts are one batch."""
    words = {"all": "the whole dump is one batch", "step": "the rollouts of each step are one batch"}
    return words.get(str(scope), f"{scope} consecutive rollouts are one batch")
