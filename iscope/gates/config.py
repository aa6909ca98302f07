"""What a file of gates says: the gates, whether the default ones apply too, and the terms of the baseline."""

from __future__ import annotations

from dataclasses import dataclass, field

from iscope.gates.comparable import Terms
from iscope.gates.model import Gate


@dataclass(frozen=True)
class Config:
    """Gates and what belongs to them.

    Attributes:
        gates: the gates that were written.
        defaults: whether the default gates apply beside them.
        framework: the framework whose own limits are the default ceilings; empty for the reference levels.
        healthy_k3: k3 up to which this stack is healthy, nats per token; None is a dense model's in bf16.
        baseline: the file of the baseline, beside the file of the gates; None where none is named.
        terms: what has to be the same for a baseline to be used.
        name: of the file; empty where there is none.
    """

    gates: tuple[Gate, ...] = ()
    defaults: bool = True
    framework: str = ""
    healthy_k3: float | None = None
    baseline: str | None = None
    terms: Terms = field(default_factory=Terms)
    name: str = ""
