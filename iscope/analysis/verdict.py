"""The verdict: the first line of a report."""

from __future__ import annotations

from iscope.model import Coverage, Figure, Figures, Verdict

# Levels of k3, trainer over inference, nats per token. NeMo-RL's GRPO guide calls about 1e-3 typical of a healthy
# run; prime-rl's development guide wants every step of a new model below 0.015 before it is merged.
TYPICAL_K3 = 0.002
MERGE_LIMIT_K3 = 0.015


def verdict(mismatch: Figures, coverage: Coverage) -> Verdict:
    """Place the dump's mismatch KL among published levels."""
    k3 = mismatch["k3"]
    if not isinstance(k3, Figure) or k3.value is None:
        return Verdict("NO DATA", f"none of {coverage.tokens_loss:,} loss tokens could be scored.")
    measured = f"k3 is {k3.value:.2g} nats per token over {coverage.tokens_scored:,} scored tokens"
    if k3.value < TYPICAL_K3:
        return Verdict("SMALL MISMATCH", f"{measured}, at the level of healthy runs (about 0.001).")
    if k3.value < MERGE_LIMIT_K3:
        return Verdict("ELEVATED MISMATCH", f"{measured}; healthy runs have about 0.001.")
    return Verdict("LARGE MISMATCH", f"{measured}; prime-rl asks for less than {MERGE_LIMIT_K3} of a new model.")
