"""verl's losses written out plainly, one rollout and one token at a time, for torch to differentiate.

A rollout is a dict with float64 tensors ``current`` (requires grad), ``trainer``, ``inference`` and a float
``advantage``, and ``ref`` for a KL term; all of its tokens train. Options go by verl's names. ``bypass`` is
``ppo_clip`` or ``reinforce``.
"""

from __future__ import annotations

import math

import torch

DEFAULTS = {
    "clip_ratio_low": 0.2,
    "clip_ratio_high": 0.2,
    "clip_ratio_c": 3.0,
    "tau_pos": 1.0,
    "tau_neg": 1.05,
    "dro_beta": None,
    "loss_scale_factor": None,
    "global_batch_size": None,
    "use_v1": True,
    "use_kl_loss": False,
    "kl_loss_coef": 0.001,
    "kl_loss_type": "low_var_kl",
}


def limit(x):
    return min(max(x, -20.0), 20.0)


def drift(rollout, bypass):
    above = rollout["current"].detach() if bypass else rollout["trainer"]
    return [float(x) for x in above - rollout["inference"]]


def weights_of(d, level, low, high):
    """Weights of one rollout's tokens before normalisation; with a lower bound those outside are 0."""
    logs = d if level == "token" else [math.fsum(d)] * len(d)
    raw = [math.exp(limit(x)) for x in logs]
    if low is None:
        return [min(w, high) for w in raw]
    return [w if low <= w <= high else 0.0 for w in raw]


def mean_of_weights(weights, level):
    if level == "token":
        every = [w for row in weights for w in row]
        return sum(every) / (len(every) + 1e-8)
    rows = [sum(row) / (len(row) + 1e-8) for row in weights if row]
    return sum(rows) / max(len(rows), 1e-8)


def k(x, kind):
    return {"k1": -x, "k2": x * x / 2, "k3": math.exp(x) - 1 - x}[kind]


def kept_by(d, option, low, high):
    """Which tokens of a rollout an option keeps."""
    reduction, _, kind = option.rpartition("_")
    values = [k(limit(x), kind) for x in d]
    low, high = (math.log(low), math.log(high)) if kind == "k1" else (-math.inf, high)
    if reduction == "token":
        return [low <= x <= high for x in values]
    one = {"seq_sum": sum, "seq_mean": lambda v: sum(v) / len(v), "seq_max": max}[reduction](values)
    return [low <= one <= high] * len(d)


def dppo_valid(p, q, a, kind, low, high):
    if kind == "tv":
        return p - q <= high if a > 0 else p - q >= -low
    # A logprob above 0 makes it NaN, which is within no bound.
    rest = float(torch.log(torch.tensor((1 - q + 1e-8) / (1 - p + 1e-8), dtype=torch.float64)))
    divergence = q * (math.log(q) - math.log(p)) + (1 - q) * rest
    return (divergence <= high or p <= q) if a > 0 else (divergence <= low or p >= q)


def token_loss(loss, current, old, mean, a, w, options):
    """The loss of one token; ``mean`` is the mean log-ratio of its rollout, a number."""
    low, high, c = options["clip_ratio_low"], options["clip_ratio_high"], options["clip_ratio_c"]
    x = current - old
    r = torch.exp(torch.clamp(x, -20.0, 20.0))
    if loss == "vanilla":
        value = torch.max(-a * r, -a * torch.clamp(r, 1 - low, 1 + high))
        value = torch.min(value, torch.tensor(-a * c, dtype=torch.float64)) if a < 0 else value
    elif loss.startswith("dppo"):
        valid = dppo_valid(math.exp(float(current.detach())), math.exp(float(old)), a, loss[5:], low, high)
        value = -a * min(float(r.detach()), c) * current * (1.0 if valid else 0.0)
    elif loss == "gspo":
        s = torch.exp(torch.clamp(current - current.detach() + mean, max=10.0))
        value = torch.max(-a * s, -a * torch.clamp(s, 1 - low, 1 + high))
    elif loss == "sapo":
        tau = options["tau_pos"] if a > 0 else options["tau_neg"]
        value = -a * torch.sigmoid(tau * (r - 1)) * 4 / tau
    elif loss == "gpg":
        value = -a * current
    elif loss == "dro":
        value = -(a * current - 0.5 * options["dro_beta"] * x**2)
    elif loss == "cispo":
        value = -torch.clamp(r, 1 - low, 1 + high).detach() * a * current
    return value * w


def geo_mean_loss(rollout, weights, a, options, weighted):
    low, high = options["clip_ratio_low"], options["clip_ratio_high"]
    n = len(weights) + 1e-8
    x = rollout["current"] - rollout["trainer"]
    cut = torch.clamp(x, max=high) if a > 0 else torch.clamp(x, min=-low) if a < 0 else 0 * x
    log = cut.sum() / n
    if weighted:
        log = log + sum(math.log(w + 1e-10) for w in weights) / n
    return -a * len(weights) / n * torch.exp(log)


def kl_of_token(p, ref, kind):
    """The estimate at a token; with a + its value and the gradient of k2."""
    u = p - ref
    if kind.endswith("+"):
        half_square = u * u / 2
        return half_square - half_square.detach() + kl_of_token(p, ref, kind[:-1]).detach()
    if kind in ("kl", "k1"):
        return u
    if kind == "abs":
        return abs(u)
    if kind in ("mse", "k2"):
        return u * u / 2
    back = torch.clamp(-u, -20.0, 20.0)
    return torch.clamp(torch.exp(back) - back - 1, -10.0, 10.0)


def kl_loss(rollouts, keeps, agg, bypass, options):
    """The KL term of the batch: over what rejection leaves, or, inside the policy loss of bypass mode, over all."""
    sums, left = [], []
    for rollout, kept in zip(rollouts, keeps, strict=True):
        places = [t for t, keep in enumerate(kept) if keep or bypass]
        left.append(len(places))
        terms = [kl_of_token(rollout["current"][t], rollout["ref"][t], options["kl_loss_type"]) for t in places]
        if terms:
            sums.append((torch.stack(terms).sum(), len(terms)))
    return options["kl_loss_coef"] * aggregated(sums, None, agg, rollouts, left, bypass, options)


def batch_loss(
    rollouts, loss="vanilla", agg="token-mean", weighting=None, normalise=False, rejection=(), bypass=None, **given
):
    """The loss of one batch, a scalar. ``weighting`` is level, low, high; ``rejection`` holds option, low, high."""
    options = DEFAULTS | given
    drifts = [drift(rollout, bypass) for rollout in rollouts]
    weights = [[1.0] * len(d) if weighting is None else weights_of(d, *weighting) for d in drifts]
    if normalise:
        mean = mean_of_weights(weights, weighting[0])
        weights = [[w / mean for w in row] for row in weights] if mean > 1e-8 else weights
    sums, left, keeps = [], [], []
    for rollout, d, row in zip(rollouts, drifts, weights, strict=True):
        kept = [
            all(flags) for flags in zip([True] * len(d), *(kept_by(d, *rule) for rule in rejection if d), strict=True)
        ]
        keeps.append(kept)
        left.append(sum(kept))
        if left[-1]:
            sums.append((rollout_sum(rollout, row, kept, loss, bypass, weighting is not None, options), left[-1]))
    policy = aggregated(sums, loss, agg, rollouts, left, bypass, options)
    return policy + kl_loss(rollouts, keeps, agg, bypass, options) if options["use_kl_loss"] else policy


def rollout_sum(rollout, weights, kept, loss, bypass, weighted, options):
    """Sum of the losses of a rollout's remaining tokens."""
    places = [t for t, keep in enumerate(kept) if keep]
    part = {name: rollout[name][places] for name in ("current", "trainer", "inference")}
    weights, a = [weights[t] for t in places], rollout["advantage"]
    if bypass == "ppo_clip":
        part["trainer"], weights, loss = part["inference"], [1.0] * len(places), "vanilla"
    elif bypass == "reinforce":
        loss = "gpg"
    if loss == "geo_mean":
        return geo_mean_loss(part, weights, a, options, weighted)
    mean = float((part["current"].detach() - part["trainer"]).mean())
    terms = zip(part["current"], part["trainer"], weights, strict=True)
    return torch.stack([token_loss(loss, p, q, mean, a, w, options) for p, q, w in terms]).sum()


def aggregated(sums, loss, agg, rollouts, left, bypass, options):
    if not sums:
        return torch.zeros((), dtype=torch.float64)
    total = torch.stack([value for value, _ in sums]).sum()
    size = options["global_batch_size"] or len(rollouts)
    if loss == "geo_mean" and not bypass:
        return total / len(rollouts)
    if loss == "sapo" and not bypass:
        agg = "seq-mean-token-mean"
    if agg == "token-sum":
        return total
    if agg == "token-mean":
        every = sum(len(rollout["current"]) for rollout in rollouts)
        return total / (every if bypass or options["use_v1"] else sum(left))
    if agg == "seq-mean-token-mean":
        return torch.stack([value / (n + 1e-8) for value, n in sums]).sum() / size
    return total / size / (options["loss_scale_factor"] if agg == "seq-mean-token-sum-norm" else 1)
