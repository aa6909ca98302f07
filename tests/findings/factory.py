"""Dumps with and without faults: real shapes, made up values, every one from a seed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

import iscope

CERTAIN = 0.35  # share of tokens that the sampler is nearly sure of


@dataclass(frozen=True)
class Rollouts:
    """Rollouts as lists of arrays, with columns of one value each and more columns of one value per token."""

    trainer: list[np.ndarray]
    inference: list[np.ndarray]
    columns: dict[str, list] = field(default_factory=dict)
    mask: list[np.ndarray] | None = None
    more: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.trainer)

    def edit(self, fault, share=1.0, seed=1) -> Rollouts:
        """Apply ``fault(trainer, inference, rng) -> (trainer, inference)`` to a share of the rollouts."""
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(len(self))[: round(share * len(self))]
        trainer, inference = list(self.trainer), list(self.inference)
        for row in chosen:
            trainer[row], inference[row] = fault(trainer[row].copy(), inference[row].copy(), rng)
        return replace(self, trainer=trainer, inference=inference)

    def take(self, rows) -> Rollouts:
        return replace(
            self,
            trainer=[self.trainer[row] for row in rows],
            inference=[self.inference[row] for row in rows],
            mask=None if self.mask is None else [self.mask[row] for row in rows],
            columns={name: [values[row] for row in rows] for name, values in self.columns.items()},
        )

    def with_columns(self, **columns) -> Rollouts:
        return replace(self, columns=self.columns | columns)

    def table(self) -> pl.DataFrame:
        lists = {"trainer_logprobs": self.trainer, "inference_logprobs": self.inference} | self.more
        series = [pl.Series(name, [row.tolist() for row in v], pl.List(pl.Float32)) for name, v in lists.items()]
        mask = self.mask if self.mask is not None else [np.ones(len(row), dtype=bool) for row in self.trainer]
        series.append(pl.Series("loss_mask", [row.tolist() for row in mask], pl.List(pl.Boolean)))
        return pl.DataFrame(self.columns).with_columns(series)

    def report(self, **options) -> iscope.Report:
        return iscope.analyze(self.table(), **{"recipes": ["none"]} | options)


def healthy(seed=0, groups=24, size=8, length=60, noise=0.05, steps=1, lags=(0,), spread=0.5) -> Rollouts:
    """Rollouts sampled from the inference column's policy, the trainer's an unbiased noise away.

    d has mean -s^2 / 2 and standard deviation s = noise (1 - q), so that E[exp(d)] = 1 under the sampler.
    """
    rng = np.random.default_rng(seed)
    trainer, inference = [], []
    for _ in range(groups * size):
        tokens = int(np.clip(rng.lognormal(np.log(length), spread), 4, 8 * length))
        sure = rng.random(tokens) < CERTAIN
        v = np.where(sure, -np.exp(-rng.uniform(3, 12, tokens)), -rng.gamma(1.0, 1.2, tokens) - 0.02)
        inference.append(v)
        trainer.append(v + noise_of(v, noise, rng))
    rows = range(groups * size)
    step = [row // size * steps // groups for row in rows]
    lag = [lags[row % len(lags)] for row in rows]
    columns = {
        "rollout_id": [f"r{row:04d}" for row in rows],
        "group_id": [f"g{row // size:03d}" for row in rows],
        "step": step,
        "policy_version": [100 + s - by for s, by in zip(step, lag, strict=True)],
        "trainer_version": [100 + s for s in step],
        "advantage": np.round(rng.standard_normal(len(rows)), 3).tolist(),
    }
    return Rollouts(trainer, inference, columns)


def noise_of(inference, noise, rng):
    """Unbiased log-ratios of tokens with these logprobs."""
    scale = noise * -np.expm1(inference)
    return np.minimum(rng.standard_normal(len(inference)) * scale - scale**2 / 2, -inference)


def language(
    seed=0, groups=40, size=8, length=24, noise=0.02, vocabulary=24, temperature=1.0, top_p=1.0, top_k=0,
    processed=False, scored_at=1.0,
) -> Rollouts:  # fmt: skip
    """Rollouts of a made-up language model whose every context has its own distribution.

    Args:
        temperature: sampled at.
        top_p: sampled with.
        top_k: sampled with; 0 is off.
        processed: the engine logs the distribution it sampled from, else that at temperature 1.
        scored_at: the trainer's temperature.
    """
    rng = np.random.default_rng(seed)
    trainer, inference = [], []
    for group in range(groups):
        for _ in range(size):
            context, t, v = group, [], []
            for _ in range(length):
                logits = 2.5 * np.random.default_rng([seed, context]).standard_normal(vocabulary)
                sampled = truncated(log_softmax(logits / temperature), top_p, top_k)
                token = int(rng.choice(vocabulary, p=np.exp(sampled)))
                v.append(sampled[token] if processed else log_softmax(logits)[token])
                t.append(log_softmax(logits / scored_at)[token])
                context = (context * 1_000_003 + token + 1) % 2**61
            inference.append(np.array(v))
            trainer.append(np.array(t) + noise_of(np.array(t), noise, rng))
    rows = range(groups * size)
    columns = {
        "rollout_id": [f"r{row:04d}" for row in rows],
        "group_id": [f"g{row // size:03d}" for row in rows],
        "temperature": [temperature] * len(rows),
        "top_p": [top_p] * len(rows),
    }
    return Rollouts(trainer, inference, columns)


def log_softmax(logits):
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def truncated(logprobs, top_p, top_k):
    """Keep the most likely tokens and renormalise."""
    order = np.argsort(-logprobs)
    before = np.cumsum(np.exp(logprobs[order])) - np.exp(logprobs[order])
    gone = before >= top_p if top_p < 1 else np.zeros(len(order), dtype=bool)
    if top_k:
        gone[top_k:] = True
    kept = logprobs.copy()
    kept[order[gone]] = -np.inf
    return log_softmax(kept)
