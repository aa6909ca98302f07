"""The findings, one module per kind: a ``KIND``, a ``probe`` of the sample's tokens where it needs one, a ``judge``.

A judge sees what was found before it, so the order of the table matters: a finding that could be another's shadow comes
after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from iscope.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.findings.kind import Kind
    from iscope.analysis.findings.tokens import Tokens
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


def probe(tokens: Tokens, *, scored: bool) -> dict[str, Any]:
    """Return what each kind that looks at tokens sees, by module.

    Args:
        tokens: the tokens.
        scored: whether any token of their dump is scored.
    """
    modules = {name: _module(name) for name in _names(scored=scored)}
    return {name: module.probe(tokens) for name, module in modules.items() if hasattr(module, "probe")}


def find(evidence: Evidence, probed: Mapping[str, Any]) -> list[Finding]:
    """Judge every kind; errors first, then by code.

    Args:
        evidence: what is judged on.
        probed: what was seen of its tokens.
    """
    for name in _names(scored=evidence.rows.rollouts > 0):
        finding = _module(name).judge(probed.get(name), evidence)
        if finding is not None:
            evidence.earlier[finding.code] = finding
    return sorted(evidence.earlier.values(), key=lambda finding: (_RANK[finding.severity], finding.code))


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


def _names(*, scored: bool) -> tuple[str, ...]:
    return MODULES if scored else _WITHOUT_TOKENS


def _module(name: str) -> Any:
    return import_module(f"{__name__}.{name}")
