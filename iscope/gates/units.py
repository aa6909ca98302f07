"""Units of figures, by the last names of their paths."""

from __future__ import annotations

_NATS = ("abs_max", "gap")
_PER_TOKEN = ("k1", "k2", "k3", "k3_rollout_mean", "abs_mean", "minus_log_p", "minus_log_q")
_COUNTS = ("tokens", "rollouts")
_KL = ("unmasked_mismatch_kl", "masked_mismatch_kl")


def unit_of(path: str) -> str:
    """Return the unit of the figure at a path; empty for a ratio, a share or what is not known."""
    names = path.replace("]", "").split(".")
    last, before = names[-1], names[-2] if len(names) > 1 else ""
    if last in _PER_TOKEN or before in _KL:
        return "nats per token"
    if last in _NATS:
        return "nats"
    if last in _COUNTS or before in _COUNTS:
        return last if last in _COUNTS else before
    return ""
