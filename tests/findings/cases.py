"""The table of cases: for every kind of finding dumps that show it, and dumps that look like it and do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from tests.findings.factory import Rollouts, healthy, language, noise_of

NAN, INF = float("nan"), float("inf")


@dataclass(frozen=True)
class Case:
    """A dump, and what is known about it.

    Attributes:
        code: the kind of finding.
        name: what is special.
        build: makes the rollouts.
        fires: whether the finding is due.
        options: of the analysis.
        healthy: nothing at all above information is due.
    """

    code: str
    name: str
    build: Callable[[], Rollouts]
    fires: bool
    options: dict
    healthy: bool = False


CASES: list[Case] = []


def due(code: str, name: str, **options):
    """Register a dump that shows a fault."""
    return lambda build: CASES.append(Case(code, name, cache(build), True, options))


def quiet(code: str, name: str, *, healthy: bool = True, **options):
    """Register a dump that must not raise the finding; ``healthy``: nor any other above information."""
    return lambda build: CASES.append(Case(code, name, cache(build), False, options, healthy))


def last_is_zero(t, v, rng):
    v[-1], t[-1] = 0.0, -rng.uniform(1.5, 12)
    return t, v


def span_of_zeros(length, low=-8.0, high=-1.2):
    def fault(t, v, rng):
        cut = rng.integers(1, len(v) - 1)
        v = np.insert(v, cut, np.zeros(length))
        t = np.insert(t, cut, rng.uniform(low, high, length))
        return t, v

    return fault


def shifted(by):
    def fault(t, v, rng):
        return (np.concatenate([t[1:], [-3.0]]) if by < 0 else np.concatenate([[-3.0], t[:-1]])), v

    return fault


def set_token(place, value, side="trainer"):
    def fault(t, v, rng):
        (t if side == "trainer" else v)[place] = value if np.isscalar(value) else rng.uniform(*value)
        return t, v

    return fault


def rounded_to_bf16(values):
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32).astype(np.float64)


# IS001 placeholders ---------------------------------------------------------------------------------------------------
due("IS001", "the appended end token of every rollout")(lambda: healthy().edit(last_is_zero))
due("IS001", "the appended end token of one rollout in thirty")(lambda: healthy().edit(last_is_zero, 0.033))
due("IS001", "an engine that returns 0 for every token")(lambda: healthy().edit(lambda t, v, rng: (t, 0 * v)))
quiet("IS001", "honest zeros of a bf16 column")(
    lambda: healthy().edit(lambda t, v, rng: (np.where(v > -0.002, -1e-4, t), np.where(v > -0.002, 0.0, v)))
)
quiet("IS001", "no zeros at all")(healthy)
quiet("IS001", "the tail of a noisy engine, cut off at 0", healthy=False)(
    lambda: healthy(groups=40).edit(
        lambda t, v, rng: (np.minimum(np.where(rng.random(len(v)) < 0.05, v + rng.normal(0, 0.9, len(v)), t), 0.0), v)
    )
)
quiet("IS001", "greedy answers that both sides are sure of")(
    lambda: healthy().edit(lambda t, v, rng: (np.append(t, [0.0] * 20), np.append(v, [0.0] * 20)))
)

# IS002 unusable values ------------------------------------------------------------------------------------------------
due("IS002", "NaN in a tenth of the rollouts")(lambda: healthy().edit(set_token(2, NAN, "inference"), 0.1))
due("IS002", "one sentinel")(lambda: healthy().edit(set_token(-1, -9999.0, "inference"), 1 / 192))
due("IS002", "positives above rounding on the trainer's side")(lambda: healthy().edit(set_token(0, 0.4), 0.05))
quiet("IS002", "positives that are rounding")(
    lambda: healthy().edit(lambda t, v, rng: (np.where(v > -0.002, 0.01, t), v), 0.1)
)
quiet("IS002", "unlikely tokens")(lambda: healthy().edit(lambda t, v, rng: (np.append(t, -40.1), np.append(v, -40.0))))


@quiet("IS002", "unusable values where the mask is false")
def _():
    rollouts = healthy()
    mask = [np.arange(len(row)) != 1 for row in rollouts.trainer]
    return replace(rollouts.edit(set_token(1, NAN, "inference")), mask=mask)


# IS003 temperature ----------------------------------------------------------------------------------------------------
due("IS003", "processed at 0.6, scored at 1")(lambda: language(temperature=0.6, processed=True))
due("IS003", "processed at 0.85, scored at 1, a noisy engine")(
    lambda: language(temperature=0.85, processed=True, noise=0.1)
)
due("IS003", "raw, scored at the temperature of 0.7")(lambda: language(temperature=0.7, scored_at=0.7))
due("IS003", "one side in log10")(lambda: healthy().edit(lambda t, v, rng: (t / np.log(10), v)))


@due("IS003", "half of the rollouts processed at 0.7, the other half at 1")
def _():
    hot, plain = language(temperature=0.7, processed=True, groups=20), language(seed=9, groups=20)
    columns = {name: plain.columns[name] + hot.columns[name] for name in plain.columns}
    columns["rollout_id"] = [f"r{row}" for row in range(len(columns["rollout_id"]))]
    columns["group_id"] = columns["group_id"][:160] + [f"h{group}" for group in columns["group_id"][160:]]
    return Rollouts(plain.trainer + hot.trainer, plain.inference + hot.inference, columns)


quiet("IS003", "processed and scored at 0.7")(lambda: language(temperature=0.7, processed=True, scored_at=0.7))
quiet("IS003", "a noisy engine", healthy=False)(lambda: healthy(noise=0.4))
quiet("IS003", "temperature 1")(language)

# IS004 truncated support ----------------------------------------------------------------------------------------------
due("IS004", "top-p 0.8, processed")(lambda: language(top_p=0.8, processed=True))
due("IS004", "top-p 0.95, processed, a noisy engine")(lambda: language(top_p=0.95, processed=True, noise=0.03))
due("IS004", "top-k 4, processed")(lambda: language(top_k=4, processed=True))
quiet("IS004", "no truncation")(language)
quiet("IS004", "noise that leans to one side but averages to 1")(
    lambda: healthy().edit(
        lambda t, v, rng: (v - 0.03 * -np.expm1(v) * (1 - np.minimum(rng.exponential(1.0, len(v)), 6)), v)
    )
)
quiet("IS004", "temperature", healthy=False)(lambda: language(temperature=0.6, processed=True))

# IS005 recorded settings ----------------------------------------------------------------------------------------------
due("IS005", "raw at 0.6, scored at 1")(lambda: language(temperature=0.6))
due("IS005", "raw with top-p 0.7")(lambda: language(top_p=0.7))
due("IS005", "raw by its own word")(
    lambda: language(temperature=0.9, groups=6).with_columns(logprobs_mode=["raw_logprobs"] * 48)
)
quiet("IS005", "processed and scored at 0.7, one side out of two")(
    lambda: language(seed=3, temperature=0.7, processed=True, scored_at=0.7)
)
quiet("IS005", "temperature 1 recorded")(lambda: language(seed=4))
quiet("IS005", "processed by its own word")(
    lambda: language(temperature=0.7, processed=True, scored_at=0.7, groups=6).with_columns(
        logprobs_mode=["processed_logprobs"] * 48
    )
)

# IS006 shift ----------------------------------------------------------------------------------------------------------
due("IS006", "every rollout one token late")(lambda: healthy().edit(shifted(1)))
due("IS006", "a mixed batch, some late and some early")(
    lambda: healthy().edit(shifted(1), 0.1, seed=1).edit(shifted(-1), 0.05, seed=2)
)
due("IS006", "two rollouts, a noisy engine")(lambda: healthy(noise=0.2).edit(shifted(-1), 0.01))
quiet("IS006", "constant rows")(lambda: healthy().edit(lambda t, v, rng: (0 * t - 0.01, 0 * v - 0.01), 0.2))
quiet("IS006", "a noisy engine", healthy=False)(lambda: healthy(noise=0.5))
quiet("IS006", "the rollouts of another prompt", healthy=False)(
    lambda: healthy().edit(lambda t, v, rng: (rng.permutation(t), v), 0.1)
)

# IS007 ends -----------------------------------------------------------------------------------------------------------
due("IS007", "the last label of every rollout is the next one's first")(
    lambda: healthy().edit(set_token(-1, (-14.0, -6.0)))
)
due("IS007", "one rollout in twenty")(lambda: healthy().edit(set_token(-1, (-14.0, -6.0)), 0.05))
due("IS007", "the first token")(lambda: healthy(noise=0.1).edit(set_token(0, (-20.0, -12.0)), 0.3))
quiet("IS007", "ends a little noisier than the rest")(
    lambda: healthy().edit(lambda t, v, rng: (np.append(t[:-1], min(v[-1] + rng.normal(0, 0.1), -1e-5)), v))
)
quiet("IS007", "far tokens anywhere", healthy=False)(
    lambda: healthy().edit(lambda t, v, rng: set_token(int(rng.integers(len(t))), (-14.0, -8.0))(t, v, rng), 0.5)
)
quiet("IS007", "unlikely end tokens that both sides agree on")(
    lambda: healthy().edit(lambda t, v, rng: (np.append(t, -9.0 + rng.normal(0, 0.05)), np.append(v, -9.0)))
)

# IS009 loss mask ------------------------------------------------------------------------------------------------------
due("IS009", "tool spans in half of the rollouts")(lambda: healthy().edit(span_of_zeros(30), 0.5))
due("IS009", "one short span in five rollouts")(lambda: healthy().edit(span_of_zeros(8), 0.026))
due("IS009", "a prompt that the trainer half knows")(lambda: healthy().edit(span_of_zeros(40, -1.2, -0.05), 0.2))


@quiet("IS009", "tool spans that the mask leaves out")
def _():
    rollouts = healthy().edit(span_of_zeros(30), 0.5)
    return replace(rollouts, mask=[row != 0 for row in rollouts.inference])


quiet("IS009", "a certain span")(
    lambda: healthy().edit(lambda t, v, rng: (np.append(t, [-1e-4] * 30), np.append(v, [0.0] * 30)))
)
quiet("IS009", "single placeholders", healthy=False)(lambda: healthy().edit(last_is_zero))

# IS010 swapped --------------------------------------------------------------------------------------------------------


def swapped(rollouts: Rollouts) -> Rollouts:
    return replace(rollouts, trainer=rollouts.inference, inference=rollouts.trainer)


due("IS010", "a noisy engine")(lambda: swapped(healthy(noise=0.3, groups=40)))
due("IS010", "an ordinary engine")(lambda: swapped(healthy(noise=0.06, groups=60, length=120)))
due("IS010", "few rollouts")(lambda: swapped(healthy(noise=0.2, groups=16, length=150)))
quiet("IS010", "a noisy engine in order", healthy=False)(lambda: healthy(noise=0.3, groups=40))
quiet("IS010", "an ordinary engine in order")(lambda: healthy(noise=0.06, groups=60, length=120))
quiet("IS010", "rounding only")(lambda: swapped(healthy(noise=1e-5)))

# IS011 to IS014, IS025: steps, lag, training --------------------------------------------------------------------------


def climbing(top, lags=(0,), start=0.04, steps=5, by_lag=0.0, **options) -> Rollouts:
    """Noise that grows linearly with the step from ``start`` to ``top``, and with the lag."""
    rollouts = healthy(steps=steps, lags=lags, groups=40, length=60, **options)
    rng = np.random.default_rng(5)
    trainer = []
    versions = zip(rollouts.columns["step"], rollouts.columns["policy_version"], strict=True)
    for v, (step, version) in zip(rollouts.inference, versions, strict=True):
        noise = start + (top - start) * step / (steps - 1) + by_lag * (100 + step - version)
        trainer.append(v + noise_of(v, noise, rng))
    return replace(rollouts, trainer=trainer)


def without_versions(rollouts: Rollouts) -> Rollouts:
    versions = ("policy_version", "trainer_version")
    return replace(rollouts, columns={k: v for k, v in rollouts.columns.items() if k not in versions})


due("IS011", "lags that change nothing")(lambda: climbing(0.2, lags=(0, 1, 2, 4)))
due("IS011", "two lags, a small climb")(lambda: climbing(0.09, lags=(1, 2)))
due("IS011", "a steep climb")(lambda: climbing(0.6, lags=(0, 3)))
quiet("IS011", "lag that explains it", healthy=False)(lambda: climbing(0.04, lags=(0, 1, 2, 4), by_lag=0.05))
quiet("IS011", "several lags, nothing else")(lambda: climbing(0.04, lags=(0, 1, 2)))
quiet("IS011", "one lag only", healthy=False)(lambda: climbing(0.2))

due("IS012", "a steep climb at lag 0")(lambda: climbing(0.4))
due("IS012", "a small climb at lag 0")(lambda: climbing(0.09))
due("IS012", "a climb at lag 0 beside real lag")(lambda: climbing(0.12, lags=(0, 1, 2), by_lag=0.06))
quiet("IS012", "no climb")(lambda: climbing(0.04))
quiet("IS012", "a high level that stays", healthy=False)(lambda: climbing(0.3, start=0.3))
quiet("IS012", "a policy that becomes less certain")(
    lambda: replace(
        (r := climbing(0.04)),
        inference=[v * (1 + s / 4) for v, s in zip(r.inference, r.columns["step"], strict=True)],
        trainer=[
            v * (1 + s / 4) + noise_of(v * (1 + s / 4), 0.04, np.random.default_rng(i))
            for i, (v, s) in enumerate(zip(r.inference, r.columns["step"], strict=True))
        ],
    )
)

due("IS025", "a steep climb, no versions")(lambda: without_versions(climbing(0.3)))
due("IS025", "a small climb, no versions")(lambda: without_versions(climbing(0.09)))
due("IS025", "a climb over twenty steps")(lambda: without_versions(climbing(0.15, steps=20)))
quiet("IS025", "no climb")(lambda: without_versions(climbing(0.04)))
quiet("IS025", "a fall")(lambda: without_versions(climbing(0.02, start=0.06)))
quiet("IS025", "two steps")(lambda: without_versions(climbing(0.06, steps=2)))

due("IS013", "every rollout lags")(lambda: climbing(0.15, start=0.15, lags=(4,)))
due("IS013", "some rollouts lag")(lambda: climbing(0.04, lags=(0, 0, 0, 6), by_lag=0.05))
due("IS013", "lag that costs nothing")(lambda: healthy(lags=(0, 1)))
quiet("IS013", "no lag")(healthy)
quiet("IS013", "no versions")(lambda: without_versions(healthy()))
quiet("IS013", "no trainer version")(
    lambda: replace((r := healthy()), columns={k: v for k, v in r.columns.items() if k != "trainer_version"})
)


def trained(pull, noise=0.05, versions=True, share=1.0, **options) -> Rollouts:
    """The numerator moved with the advantage of each rollout, more where the token is uncertain."""
    rollouts = healthy(noise=noise, lags=(2,), **options)
    rng = np.random.default_rng(6)
    trainer = []
    for t, v, a in zip(rollouts.trainer, rollouts.inference, rollouts.columns["advantage"], strict=True):
        moved = pull * a * -np.expm1(v) * (rng.random() < share)
        trainer.append(np.minimum(t + moved, 0.0))
    rollouts = replace(rollouts, trainer=trainer)
    return rollouts if versions else without_versions(rollouts)


due("IS014", "a strong pull")(lambda: trained(0.15))
due("IS014", "a weak pull, no versions")(lambda: trained(0.04, versions=False))
due("IS014", "half of the rollouts")(lambda: trained(0.1, share=0.5, noise=0.08))
quiet("IS014", "lag on unseen rollouts", healthy=False)(lambda: healthy(noise=0.25, lags=(4,)))
quiet("IS014", "a noisy engine", healthy=False)(lambda: healthy(noise=0.4))
quiet("IS014", "rounding only")(lambda: healthy(noise=1e-5).edit(lambda t, v, rng: (np.minimum(t + 1e-5, 0), v)))

# IS015 offset ---------------------------------------------------------------------------------------------------------
due("IS015", "a quantised engine")(lambda: healthy(noise=0.4))
due("IS015", "a constant of 0.1 nats")(lambda: healthy().edit(lambda t, v, rng: (np.minimum(t - 0.1, 0), v)))
due("IS015", "a quantised engine at the first step, without versions")(
    lambda: without_versions(healthy(noise=0.36, steps=4))
)
quiet("IS015", "an engine in bf16")(lambda: healthy(noise=0.07))
quiet("IS015", "lag", healthy=False)(lambda: healthy(noise=0.4, lags=(6,)))
quiet("IS015", "growth from a healthy first step", healthy=False)(lambda: climbing(0.7))


# IS016 bimodal --------------------------------------------------------------------------------------------------------
def garbage(t, v, rng):
    return np.minimum(v + rng.normal(-1.0, 2.0, len(v)).clip(-6), -1e-5), v


due("IS016", "a sixth of the rollouts")(lambda: healthy().edit(garbage, 0.17))
due("IS016", "three rollouts of 192")(lambda: healthy().edit(garbage, 0.0157))


@due("IS016", "three whole groups")
def _():
    rollouts = healthy()
    rng = np.random.default_rng(2)
    trainer = [
        garbage(t, v, rng)[0] if row < 24 else t
        for row, (t, v) in enumerate(zip(rollouts.trainer, rollouts.inference, strict=True))
    ]
    return replace(rollouts, trainer=trainer)


quiet("IS016", "one mode")(healthy)
quiet("IS016", "rollouts that differ by degrees", healthy=False)(
    lambda: healthy().edit(lambda t, v, rng: (v + noise_of(v, 0.05 * np.exp(rng.normal(0, 0.6)), rng), v))
)
quiet("IS016", "short rollouts with one far token", healthy=False)(
    lambda: healthy(length=12).edit(set_token(1, (-4.0, -2.0)), 0.1)
)


# IS017 heavy tails ----------------------------------------------------------------------------------------------------
def rerouted(share, size):
    def fault(t, v, rng):
        hit = rng.random(len(v)) < share
        step = rng.standard_t(2, len(v)) * size * -np.expm1(v)
        return np.where(hit, np.minimum(v + step.clip(-5, 3), -1e-5), t), v

    return fault


due("IS017", "one token in thirty")(lambda: healthy(groups=40).edit(rerouted(0.03, 1.5)))
due("IS017", "one token in a hundred")(lambda: healthy(groups=40).edit(rerouted(0.01, 2.5)))
due("IS017", "a noisier bulk")(lambda: healthy(groups=40, noise=0.06).edit(rerouted(0.05, 1.5)))
quiet("IS017", "a dense engine")(lambda: healthy(groups=40))
quiet("IS017", "a quantised engine without a tail", healthy=False)(lambda: healthy(groups=40, noise=0.4))
quiet("IS017", "the tail of lag", healthy=False)(lambda: healthy(groups=40, lags=(3,)).edit(rerouted(0.03, 1.5)))


# IS018 storage grid ---------------------------------------------------------------------------------------------------
def stored(**sides):
    def fault(t, v, rng):
        return sides.get("trainer", lambda x: x)(t), sides.get("inference", lambda x: x)(v)

    return fault


due("IS018", "bf16 on one side")(lambda: healthy().edit(stored(inference=rounded_to_bf16)))
due("IS018", "fp16 on both sides")(
    lambda: healthy().edit(stored(**dict.fromkeys(("trainer", "inference"), lambda x: x.astype(np.float16))))
)
due("IS018", "bf16 on the trainer's side")(lambda: healthy(noise=0.2).edit(stored(trainer=rounded_to_bf16)))
quiet("IS018", "float32")(healthy)
quiet("IS018", "one rollout in bf16")(lambda: healthy().edit(stored(inference=rounded_to_bf16), 0.9))
quiet("IS018", "few distinct values")(
    lambda: healthy().edit(lambda t, v, rng: (t, -np.ceil(-v * 4) / 4), 0).take(range(1))
)


# IS019 to IS021: recipes ----------------------------------------------------------------------------------------------
due("IS019", "MIS-PO's band at an ordinary noise", recipes=["prime-rl/mis_po"])(lambda: healthy(noise=0.1))
due("IS019", "a thin band", recipes=["geometric_mask:0.9999,1.0001"])(healthy)
due("IS019", "a band for long rollouts", recipes=["geometric_mask:0.99,1.01"])(lambda: healthy(noise=0.3, length=40))
quiet("IS019", "a wide band", recipes=["geometric_mask:0.9,1.1"])(healthy)
quiet("IS019", "token bounds", recipes=["icepop:0.5,5"])(healthy)
quiet("IS019", "a band that single bad rollouts hit", recipes=["geometric_mask:0.9,1.1"], healthy=False)(
    lambda: healthy().edit(garbage, 0.17)
)

due("IS020", "a cap on the product", recipes=["trl/sequence_mask:clip_max=1.5"])(
    lambda: healthy(noise=0.09, length=120, groups=80, spread=1.5)
)
due("IS020", "a biased engine", recipes=["trl/sequence_mask:clip_min=0.5,clip_max=3"])(
    lambda: healthy(noise=0.1, length=120, groups=40).edit(lambda t, v, rng: (t - 0.01, v))
)
due("IS020", "truncation", recipes=["trl/sequence_truncate:clip_max=1.2"])(
    lambda: healthy(noise=0.07, length=60, groups=80, spread=1.2)
)
quiet("IS020", "little noise", recipes=["trl/sequence_mask:clip_max=3"])(healthy)
quiet("IS020", "rollouts of one length", recipes=["trl/sequence_mask:clip_max=1.5"], healthy=False)(
    lambda: replace(
        (
            r := (d := healthy(noise=0.2, length=120, groups=40)).take(
                [i for i in range(320) if len(d.trainer[i]) >= 50]
            )
        ),
        trainer=[t[:50] for t in r.trainer],
        inference=[v[:50] for v in r.inference],
    )
)
quiet("IS020", "token bounds", recipes=["icepop:0.5,5"])(lambda: healthy(length=120, groups=40))

due("IS021", "almost everything masked", recipes=["geometric_mask:0.9999,1.0001"])(healthy)
due("IS021", "one sign", recipes=["trl/sequence_mask:clip_max=1.05"])(lambda: trained(0.1))
due("IS021", "weights of a few rollouts", recipes=["trl/sequence_truncate:clip_max=1000"])(
    lambda: healthy(noise=0.4, length=120)
)
quiet("IS021", "bounds that fit", recipes=["trl/sequence_mask:clip_max=3"])(healthy)
quiet("IS021", "no correction", recipes=["none"])(healthy)
quiet("IS021", "token truncation", recipes=["trl/token_truncate:clip_max=2"])(healthy)


# IS022, IS023: copies and mix-ups -------------------------------------------------------------------------------------
def copied(rollouts: Rollouts, sources) -> Rollouts:
    more = rollouts.take(sources)
    ids = [f"copy{i}" for i in range(len(sources))]
    columns = {n: v + (ids if n == "rollout_id" else more.columns[n]) for n, v in rollouts.columns.items()}
    return replace(
        rollouts,
        trainer=rollouts.trainer + more.trainer,
        inference=rollouts.inference + more.inference,
        columns=columns,
    )


due("IS022", "a whole file twice")(lambda: copied(healthy(), range(192)))
due("IS022", "one rollout twice")(lambda: copied(healthy(), [7]))
due("IS022", "copies that the trainer scored in another batch")(
    lambda: copied(healthy(), range(20)).edit(lambda t, v, rng: (np.minimum(t + rng.normal(0, 1e-4, len(t)), 0), v))
)
quiet("IS022", "no copies")(healthy)
quiet("IS022", "rollouts that are replayed at a later step")(
    lambda: copied((r := healthy(steps=2)), range(20)).with_columns(step=r.columns["step"] + [5] * 20)
)
quiet("IS022", "short certain answers that repeat")(
    lambda: healthy().edit(lambda t, v, rng: (np.full(4, -0.011), np.full(4, -0.01)), 0.4)
)
quiet("IS022", "equal but for one token")(
    lambda: copied(healthy(), [7]).edit(lambda t, v, rng: (t, np.append(v[:-1], v[-1] - 1e-4 * rng.random())))
)


def mixed_up(rollouts: Rollouts, groups, length=40) -> Rollouts:
    """Trainer rows of these groups in reverse order; all rollouts are cut to one length."""
    trainer = [t[:length] for t in rollouts.trainer]
    for group in groups:
        trainer[8 * group : 8 * group + 8] = trainer[8 * group : 8 * group + 8][::-1]
    inference = [v[:length] for v in rollouts.inference]
    lengths = [min(len(t), len(v)) for t, v in zip(trainer, inference, strict=True)]
    return replace(
        rollouts,
        trainer=[t[:n] for t, n in zip(trainer, lengths, strict=True)],
        inference=[v[:n] for v, n in zip(inference, lengths, strict=True)],
    )


due("IS023", "every group reversed")(lambda: mixed_up(healthy(length=200), range(24)))
due("IS023", "two groups of 24")(lambda: mixed_up(healthy(length=200), (3, 11)))
due("IS023", "a noisy engine")(lambda: mixed_up(healthy(length=200, noise=0.25), range(5)))
quiet("IS023", "no mix-up")(lambda: mixed_up(healthy(length=200), ()))
quiet("IS023", "garbage of one length", healthy=False)(
    lambda: mixed_up(healthy(length=200), ()).edit(lambda t, v, rng: (rng.permutation(t), v), 0.2)
)
quiet("IS023", "a very noisy engine", healthy=False)(lambda: mixed_up(healthy(length=200, noise=0.6), ()))


# IS024 supplied ratios ------------------------------------------------------------------------------------------------
def supplying(name, ratio, **options) -> Rollouts:
    """Bring a column along: a function of the trainer's and the engine's logprobs of each rollout."""
    rollouts = healthy(**options)
    pairs = zip(rollouts.trainer, rollouts.inference, strict=True)
    return replace(rollouts, more={name: [ratio(t.astype(np.float32), v.astype(np.float32)) for t, v in pairs]})


due("IS024", "a ratio upside down")(lambda: supplying("importance_ratio", lambda t, v: np.exp(v - t)))
due("IS024", "logprobs of another step")(
    lambda: supplying("ratio", lambda t, v: np.exp(t - v + 0.05 * np.sin(np.arange(len(t)))))
)
due("IS024", "a sum of exponentials")(
    lambda: supplying("importance_sampling_ratio", lambda t, v: np.full(len(t), np.exp(t - v).sum()))
)
quiet("IS024", "the token ratio, truncated at 1.05")(
    lambda: supplying("ratio", lambda t, v: np.minimum(np.exp(t - v), 1.05))
)
quiet("IS024", "the log-ratio")(lambda: supplying("log_ratio", lambda t, v: t - v))
quiet("IS024", "the product of the rollout, in bf16")(
    lambda: supplying("ratios", lambda t, v: rounded_to_bf16(np.full(len(t), np.exp((t - v).sum()))))
)
