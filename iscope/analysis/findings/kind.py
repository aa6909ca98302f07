"""What a kind of finding is: its code, its words, and the page that explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from iscope.model import Figures, Finding

Severity = Literal["error", "warning", "information"]


@dataclass(frozen=True)
class Kind:
    """One kind of finding; plain words, so that they can be read without looking at a dump.

    Attributes:
        code: the stable code, IS001 and so on.
        title: the cause in the field's words.
        meaning: what a dump with this finding shows.
        consistent_with: what usually causes it, most frequent first.
        no_evidence_of: what it must not be taken for.
        action: the next thing to try.
        method: how it is found, with its thresholds.
        sources: where the signature and the thresholds come from.
    """

    code: str
    title: str
    meaning: str
    consistent_with: tuple[str, ...]
    no_evidence_of: str
    action: str
    method: str
    sources: tuple[str, ...]

    def finding(
        self,
        severity: Severity,
        shows: str,
        *,
        title: str | None = None,
        consistent_with: str | None = None,
        action: str | None = None,
        tokens: int | None = None,
        rollouts: int | None = None,
        examples: Sequence[dict[str, Any]] = (),
        evidence: Figures | None = None,
    ) -> Finding:
        """Return a finding of this kind.

        Args:
            severity: error, warning or information.
            shows: what this dump shows, one or two sentences.
            title: the cause, where it is known more exactly than the kind's title says.
            consistent_with: the same, in place of the kind's first cause.
            action: the next thing to try, where it is not the kind's.
            tokens: how many tokens it concerns.
            rollouts: how many rollouts it concerns.
            examples: rollout id and position of some of them.
            evidence: the figures it rests on.
        """
        cause = consistent_with or self.consistent_with[0]
        return Finding(
            code=self.code,
            severity=severity,
            title=title or self.title,
            message=f"{shows} This is consistent with {cause}; it is no evidence of {self.no_evidence_of}.",
            action=action or self.action,
            shows=shows,
            tokens=tokens,
            rollouts=rollouts,
            examples=list(examples)[:5],
            evidence=evidence or {},
        )
