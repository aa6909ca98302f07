"""What a dump shows that its owner should know, and the verdict on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from iscope.model.figure import Figures, nodes_to_json, row_from_json


@dataclass(frozen=True)
class Finding:
    """Something the dump shows that its owner should know.

    Attributes:
        code: its stable code, which ``iscope explain`` takes.
        severity: ``error``, ``warning`` or ``information``.
        title: the cause in a few words.
        message: what the dump shows, what that is consistent with, and what it is no evidence of.
        action: the next thing to try.
        shows: what the dump shows alone, the first sentences of the message; empty where they cannot be told apart.
        tokens: tokens it concerns, of those looked at; None where it concerns none in particular.
        rollouts: rollouts it concerns, of those looked at.
        examples: up to five of them, by ``rollout_id`` and ``position``.
        evidence: the figures it rests on.
    """

    code: str
    severity: str
    title: str
    message: str
    action: str = ""
    shows: str = ""
    tokens: int | None = None
    rollouts: int | None = None
    examples: list[dict[str, Any]] = field(default_factory=list)
    evidence: Figures = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "code": self.code,
            "severity": self.severity,
            "title": self.title,
            "message": self.message,
            "action": self.action,
            "shows": self.shows,
            "tokens": self.tokens,
            "rollouts": self.rollouts,
            "examples": self.examples,
            "evidence": nodes_to_json(self.evidence),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Finding:
        """Read what ``to_dict`` wrote."""
        return cls(**(data | {"evidence": row_from_json(data.get("evidence", {}))}))


@dataclass(frozen=True)
class Verdict:
    """The first line of a report.

    Attributes:
        word: the verdict.
        message: the sentence that backs it.
        action: the next thing to try; empty where there is nothing to mend.
    """

    word: str
    message: str
    action: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return the JSON form."""
        return {"word": self.word, "message": self.message, "action": self.action}
