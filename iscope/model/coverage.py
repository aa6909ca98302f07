"""What was read of a dump and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Coverage:
    """What was read and what became of it.

    Attributes:
        files: files read.
        rollouts_read: rollouts met, on any side.
        rollouts_analyzed: rollouts with at least one scored token.
        rollouts_empty: rollouts without one.
        rollouts_excluded: rollouts left out, by reason.
        tokens_read: tokens of the rollouts that were not left out.
        tokens_loss: those whose loss mask is true.
        tokens_scored: loss tokens on which every policy's logprob is usable.
        tokens_unscored: the other loss tokens, by kind of unusable value.
        tokens_unscored_by_side: the same, by the policy that held the unusable value.
        notes: counts worth saying (conflicting shared columns, positives that are rounding).
    """

    files: int
    rollouts_read: int
    rollouts_analyzed: int
    rollouts_empty: int
    rollouts_excluded: dict[str, int]
    tokens_read: int
    tokens_loss: int
    tokens_scored: int
    tokens_unscored: dict[str, int]
    tokens_unscored_by_side: dict[str, dict[str, int]]
    notes: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "files": self.files,
            "rollouts": {
                "read": self.rollouts_read,
                "analyzed": self.rollouts_analyzed,
                "empty": self.rollouts_empty,
                "excluded": self.rollouts_excluded,
            },
            "tokens": {
                "read": self.tokens_read,
                "loss": self.tokens_loss,
                "scored": self.tokens_scored,
                "unscored": self.tokens_unscored,
                "unscored_by_side": self.tokens_unscored_by_side,
            },
            "notes": self.notes,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Coverage:
        """Read what ``to_dict`` wrote."""
        rollouts, tokens = data["rollouts"], data["tokens"]
        return cls(
            files=data["files"],
            **{f"rollouts_{name}": value for name, value in rollouts.items()},
            **{f"tokens_{name}": value for name, value in tokens.items()},
            notes=data["notes"],
        )
