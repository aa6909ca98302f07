"""The gates that apply where nobody wrote any: ceilings from published levels, and limits relative to a baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from iscope.analysis.levels import MERGE_LIMIT_K3, Levels
from iscope.errors import UsageError, did_you_mean
from iscope.gates.baseline import Baseline
from iscope.gates.figures import locate
from iscope.gates.model import Gate
from iscope.gates.path import read_path
from iscope.model import Figure, Report
from iscope.recipes.registry import FRAMEWORKS

# Below this k3, nats per token, policies differ by rounding, and a multiple of it means nothing.
ROUNDING_K3 = 1e-6
# Two halves of a healthy run stay below this ratio of k3 in a bucket of q where it has an interval, and below the
# coarse one where it has none: docs/gates.md has the measurements.
WIDER, MUCH_WIDER = 1.25, 2.0
# Of all k3, what a bucket without an interval must carry to be held against the baseline at all.
LEAST_SHARE = 0.01
_K3 = "mismatch.k3"

# Limits that frameworks put into their own tests and guides; k3 and abs(d) in nats per token.
OF_FRAMEWORKS: dict[str, tuple[Gate, ...]] = {
    "prime-rl": (Gate(_K3, max=0.015, reason="prime-rl asks for less of every new model (docs/development.md)"),),
    "nemo-rl": (
        Gate(
            "mismatch.token_mult_prob_error",
            max=1.1,
            reason="NeMo-RL's long test suites allow 1.1 (tests/functional, docs/adding-new-models.md)",
        ),
        Gate(
            "mismatch.token_mult_prob_error",
            max=1.05,
            level="warn",
            reason="NeMo-RL's guide says to look into 1.05 (docs/guides/grpo.md)",
        ),
    ),
    "slime": (Gate("mismatch.abs_mean", max=0.1, reason="slime's continuous integration allows 0.1"),),
    "skyrl": (Gate("mismatch.abs_mean", max=0.09, reason="SkyRL's continuous integration allows 0.09 (SkyRL#1408)"),),
    "verl": (
        Gate("mismatch.k1", max=0.1, min=-0.1, reason="verl's guide calls a KL beyond 0.1 alarming"),
        Gate(
            "mismatch.ratio.token.ess_fraction", min=0.3, reason="verl's guide calls an effective sample below 0.3 low"
        ),
    ),
}


@dataclass(frozen=True)
class Chosen:
    """The default gates of a report.

    Attributes:
        gates: the gates.
        notes: what is not judged, and why.
    """

    gates: tuple[Gate, ...]
    notes: tuple[str, ...] = ()


def check_framework(name: str) -> str:
    """Return the name of a framework as it came.

    Raises:
        UsageError: when there is none of this name.
    """
    if name not in FRAMEWORKS:
        raise UsageError(f"there is no framework {name!r}.{did_you_mean(name, FRAMEWORKS)}")
    return name


def default_gates(
    report: Report, baseline: Baseline | None = None, framework: str = "", levels: Levels | None = None
) -> Chosen:
    """Return the default gates of a report: only on figures that it has.

    Args:
        report: what they will be held against.
        baseline: what they are relative to; None leaves those that need one out.
        framework: whose own limits are the ceilings, beside the reference levels.
        levels: the reference levels; None is a dense model in bf16.
    """
    data = report.to_dict()
    found = [*_ceilings(levels or Levels(), framework), *_shape(report), *_FINDINGS]
    notes: list[str] = []
    if baseline is not None:
        found += _relative(data["mismatch"], baseline, notes)
    present = [gate for gate in found if gate.findings or _present(data, gate)]
    return Chosen(tuple(replace(gate, origin="default") for gate in present), tuple(notes))


def tracked() -> tuple[Gate, ...]:
    """Return gates on every figure that default gates may be relative to: what a baseline holds besides."""
    paths = (
        *(_K3, "mismatch.by_p[*].k3", "mismatch.k1", "mismatch.abs_mean", "mismatch.abs_max"),
        *("mismatch.ratio.token.ess_fraction", "mismatch.ratio.sequence.ess_fraction", "mismatch.variance_ratio"),
        *("mismatch.khat.token", "mismatch.khat.sequence", "mismatch.token_mult_prob_error"),
    )
    return tuple(Gate(path, min=0.0) for path in paths)


_FINDINGS = (
    Gate(findings="error", reason="the dump cannot be trusted as it is"),
    Gate(findings="warning", level="warn", reason="something about the run should be looked into"),
)

_WARNINGS = (
    Gate("mismatch.abs_max", max_ratio=2.0, level="warn", reason="a maximum: those of two halves of a run differ too"),
    Gate("mismatch.k1", beyond_interval="either", level="warn", on_noise="pass", reason="a signed mean, which cancels"),
    Gate("mismatch.ratio.sequence.ess_fraction", min_ratio=0.5, level="warn", reason="rests on few rollouts"),
    Gate("mismatch.khat.token", max_rise=0.3, level="warn", reason="a heavier tail of token ratios"),
    Gate("mismatch.khat.sequence", max_rise=1.0, level="warn", reason="a heavier tail of sequence ratios"),
)


def _ceilings(levels: Levels, framework: str) -> Iterator[Gate]:
    stack = levels.stack or "your healthy_k3"
    prime = levels.limit == MERGE_LIMIT_K3
    reason = "above it prime-rl refuses a new model" if prime else "five times your healthy k3"
    yield Gate(_K3, max=levels.limit, reason=reason)
    yield Gate(_K3, max=levels.k3, level="warn", on_noise="pass", reason=f"healthy runs stay below it ({stack})")
    yield from OF_FRAMEWORKS.get(framework, ())
    yield Gate("mismatch.khat.token", max=0.7, level="warn", reason="above 0.7 no mean of ratios is reliable (PSIS)")


def _shape(report: Report) -> Iterator[Gate]:
    """The variance ratio, where the rollouts are recorded to be fresh."""
    lag = report.mismatch.get("lag")
    ends = [lag.get("min"), lag.get("max")] if isinstance(lag, dict) else []
    if ends and all(isinstance(end, Figure) and end.value == 0 for end in ends):
        yield Gate(
            "mismatch.variance_ratio",
            max=2.0,
            on_noise="pass",
            reason="1 on fresh rollouts: the numerator was trained on these, or they are not from the logged policy",
        )


def _relative(mismatch: Mapping[str, object], baseline: Baseline, notes: list[str]) -> Iterator[Gate]:
    whole = baseline.figures.get(_K3)
    if whole is not None and whole.value is not None and whole.value < ROUNDING_K3:
        yield Gate(_K3, max=ROUNDING_K3, reason="trainer and engine agreed to rounding in the baseline")
        return
    for one in locate({"mismatch": mismatch}, read_path("mismatch.by_p[*]")):
        yield from _bucket(one.path, mismatch, baseline, notes)
    for gate in _WARNINGS:
        there = baseline.figures.get(gate.figure)
        if there is not None and (gate.beyond_interval is None or there.low is not None):
            yield gate


def _bucket(path: str, mismatch: Mapping[str, object], baseline: Baseline, notes: list[str]) -> Iterator[Gate]:
    k3, share = (_one(mismatch, f"{path}.{name}") for name in ("k3", "k3_share"))
    there = baseline.figures.get(f"{path}.k3")
    if k3.value is None or there is None or there.value is None:
        missing = "the baseline" if k3.value is not None else "the dump"
        notes.append(f"{path}.k3 is not held against the baseline: {missing} has no tokens there.")
    elif there.value < ROUNDING_K3:
        notes.append(f"{path}.k3 is not held against the baseline: it is rounding there ({there.value:.2g}).")
    elif k3.low is not None and there.low is not None:
        reason = "wider than the baseline at the same probability"
        yield Gate(f"{path}.k3", max_ratio=WIDER, on_noise="pass", reason=reason)
    elif (share.value or 0.0) < LEAST_SHARE:
        notes.append(
            f"{path}.k3 is not held against the baseline: it is that of few rollouts, so that it has no interval, and "
            f"under {LEAST_SHARE:.0%} of all."
        )
    else:
        reason = "much wider at the same probability; no interval says how surely"
        yield Gate(f"{path}.k3", max_ratio=MUCH_WIDER, reason=reason)


def _one(mismatch: Mapping[str, object], path: str) -> Figure:
    return locate({"mismatch": mismatch}, read_path(path))[0].figure


def _present(data: Mapping[str, object], gate: Gate) -> bool:
    found = [one.figure for one in locate(data, read_path(gate.figure))]
    bounded = gate.beyond_interval is None or all(figure.low is not None for figure in found)
    return bounded and all(figure.value is not None for figure in found)
