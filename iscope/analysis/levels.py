"""Reference levels: how far apart trainer and inference engine are in healthy runs, from published sources."""

from __future__ import annotations

import math
from dataclasses import dataclass

from iscope.errors import UsageError


@dataclass(frozen=True)
class Level:
    """What one kind of stack shows when it is healthy.

    Attributes:
        stack: the kind of stack.
        k3: mean k3 of trainer over inference up to which it is healthy, nats per token.
        text: the published numbers.
        source: where they stand.
    """

    stack: str
    k3: float
    text: str
    source: str


REFERENCE: tuple[Level, ...] = (
    Level(
        "deterministic",
        1e-6,
        "mean abs(d) below 1e-6, or exactly 0",
        "slime docs/en/advanced/reproducibility.md; miles true_on_policy",
    ),
    Level(
        "dense bf16",
        0.002,
        "k3 about 0.001; nightly gates at 0.0005 (prime-rl) and 0.001 to 0.002 (NeMo-RL)",
        "NeMo-RL docs/guides/grpo.md and tests/functional; prime-rl tests/nightly/test_hendrycks_sanity.py",
    ),
    Level(
        "mixture of experts",
        0.005,
        "k3 0.0027 at step 1 of a 120B model with asynchronous LoRA",
        "NVIDIA-NeMo/RL#2269",
    ),
    Level(
        "fp8 rollouts",
        0.005,
        "k3 0.0014 (9B) and 0.0031 (35B-A3B) over a run, at most 0.0018 and 0.0050",
        "NeMo-RL docs/guides/models/qwen/qwen3-5.md",
    ),
)

# prime-rl's development guide asks for less over 20 steps before a new model is merged.
MERGE_LIMIT_K3 = 0.015


@dataclass(frozen=True)
class Levels:
    """What this report calls healthy.

    Attributes:
        k3: k3 up to which the mismatch is at the level of a healthy run, nats per token.
        limit: k3 above which the mismatch is large.
        stack: the stack the level is of; empty where the user set it.
    """

    k3: float = 0.002
    limit: float = MERGE_LIMIT_K3
    stack: str = "dense bf16"

    @classmethod
    def of(cls, healthy_k3: float | None) -> Levels:
        """Return the levels of a user who says what k3 is healthy, or the default ones.

        Raises:
            UsageError: when it is no positive number.
        """
        if healthy_k3 is None:
            return cls()
        if not (healthy_k3 > 0 and math.isfinite(healthy_k3)):
            raise UsageError(f"healthy_k3 (--healthy-k3) must be a positive number of nats, not {healthy_k3}.")
        return cls(healthy_k3, max(MERGE_LIMIT_K3, 5 * healthy_k3), "")
