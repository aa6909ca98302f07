"""Dumps to check: a healthy one with several steps, and the same with wider log-ratios."""

from __future__ import annotations

import numpy as np
import polars as pl


def dump(scale=1.0, *, seed=0, steps=6, groups=12, size=4, tokens=40, noise=0.03, temperature=1.0):
    """A table of rollouts whose log-ratios are ``scale`` times those of scale 1, step by step where it is a list."""
    rng = np.random.default_rng(seed)
    scales = np.broadcast_to(scale, steps)
    rows = []
    for step in range(steps):
        for group in range(groups):
            for member in range(size):
                engine = -rng.exponential(1.5, tokens)
                apart = scales[step] * noise * rng.standard_normal(tokens)
                rows.append(
                    {
                        "trainer_logprobs": np.minimum(engine + apart, 0.0).tolist(),
                        "inference_logprobs": engine.tolist(),
                        "loss_mask": [True] * tokens,
                        "advantage": float(member % 2 * 2 - 1),
                        "rollout_id": f"{step}-{group}-{member}",
                        "group_id": f"{step}-{group}",
                        "step": step,
                        "policy_version": step,
                        "trainer_version": step,
                        "temperature": temperature,
                        "env": "math" if group % 2 else "code",
                    }
                )
    return pl.DataFrame(rows)
