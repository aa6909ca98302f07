"""The findings, one module per kind: a ``KIND``, a ``probe`` of the sample's tokens where it needs one, a ``judge``.

A judge sees what was found before it, so the order of the table matters: a finding that could be another's shadow comes
after it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from iscope.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.findings.kind import Kind
    from iscope.model import Finding

MODULES = (
    "unusable",
    "placeholders",
    "retokenised",
    "loss_mask",
    "duplicates",
    "shift",
    "mispaired",
    "temperature",
    "truncated_support",
    "swapped",
    "recorded_settings",
    "rollout_ends",
    "bimodal",
    "trained_on",
    "pinned_weights",
    "lossy_sync",
    "lag",
    "drift",
    "heavy_tails",
    "offset",
    "storage_grid",
    "narrow_bounds",
    "length_trap",
    "eaten_batch",
    "supplied_ratio",
)

_WITHOUT_TOKENS = ("unusable", "retokenised")
_RANK = {"error": 0, "warning": 1, "information": 2}


def find(evidence: Evidence) -> list[Finding]:
    """Judge every kind; errors first, then by code."""
    return _judged(evidence, MODULES if evidence.rows.rollouts else _WITHOUT_TOKENS)


def kinds() -> list[Kind]:
    """Every kind of finding, by code."""
    return sorted((_module(name).KIND for name in MODULES), key=lambda kind: kind.code)


def kind_of(code: str) -> Kind:
    """Return the kind of finding with a code.

    Raises:
        UsageError: when there is none.
    """
    known = {kind.code: kind for kind in kinds()}
    if code.upper() not in known:
        raise UsageError(f"there is no finding {code!r}; iscope explain lists them.{did_you_mean(code.upper(), known)}")
    return known[code.upper()]


def _judged(evidence: Evidence, names: tuple[str, ...]) -> list[Finding]:
    for name in names:
        finding = _look(_module(name), evidence)
        if finding is not None:
            evidence.earlier[finding.code] = finding
    return sorted(evidence.earlier.values(), key=lambda finding: (_RANK[finding.severity], finding.code))


def _look(module: Any, evidence: Evidence) -> Finding | None:
    probed = module.probe(evidence.tokens) if hasattr(module, "probe") else None
    found: Finding | None = module.judge(probed, evidence)
    return found


def _module(name: str) -> Any:
    return import_module(f"{__name__}.{name}")
