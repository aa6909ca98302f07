"""IS003: the two sides are scored at different temperatures, or in different units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iscope.analysis.findings.kind import Kind
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.findings.tokens import Tokens
    from iscope.analysis.numbers import Array
    from iscope.model import Finding

KIND = Kind(
    code="IS003",
    title="Temperature: the sides are scored at different ones",
    meaning=(
        "Trainer logprobs are the inference logprobs stretched or shrunk: tokens that the engine finds unlikely are "
        "all off in one direction, likely ones in the other. The correlation stays near 1, so a plot looks fine."
    ),
    consistent_with=(
        "one side dividing the logits by the sampling temperature and the other not (vLLM's logprobs_mode is "
        "raw_logprobs by default)",
        "logprobs in another base than e on one side",
    ),
    no_evidence_of="stale weights or of noise of the engine",
    action=(
        "score both sides at the sampling temperature: logprobs_mode=processed_logprobs in vLLM, and logits divided "
        "by the temperature in the trainer"
    ),
    method=(
        "Over tokens with a mean logprob of both sides below -0.5: the slope sd(trainer) / sd(inference), which noise "
        "on both sides does not bend, and the correlation of the log-ratio with the mean. Reported where the slope is "
        "off 1 by more than 4% and the correlation beyond 0.4, by recorded temperature where there are several. On "
        "real dumps: 0.75 and -0.81 at temperature 0.7 scored at 1; between 1.000 and 1.016 and below 0.17 with "
        "noise, lag, int8 or training on the rollouts."
    ),
    sources=("huggingface/trl#4159", "OpenRLHF/OpenRLHF#853", "sgl-project/sglang#36213", "THUDM/slime#2325"),
)

_UNSURE = -0.5
_STRETCH = 0.04  # of log(slope)
_CORRELATION = 0.4
_TOGETHER = 0.9
_FEWEST = 300
_MOST_LEVELS = 8
_BASES = {"log10": math.log(10), "log2": math.log(2)}


@dataclass(frozen=True)
class Stretch:
    """How trainer logprobs relate to inference logprobs.

    Attributes:
        temperature: what the dump recorded for these tokens; None where nothing.
        tokens: how many were looked at.
        slope: sd(trainer) / sd(inference).
        fitted: slope of the least-squares line of trainer on inference.
        together: their correlation.
        leaning: correlation of the log-ratio with the mean of both.
    """

    temperature: float | None
    tokens: int
    slope: float
    fitted: float
    together: float
    leaning: float

    @property
    def stretched(self) -> bool:
        """Whether this is a temperature, not noise."""
        return (
            abs(math.log(self.slope)) > _STRETCH
            and abs(self.leaning) > _CORRELATION
            and (self.slope - 1) * self.leaning > 0
            and self.together > _TOGETHER
        )


def probe(tokens: Tokens) -> list[Stretch]:
    """Measure the stretch of the tokens of each recorded temperature."""
    tokens = tokens.head
    recorded = tokens.settings("temperature")
    levels = np.zeros(0) if recorded is None else np.unique(recorded[np.isfinite(recorded)])
    unsure = tokens.trainer + tokens.inference < 2 * _UNSURE
    if recorded is None or not 1 < levels.size <= _MOST_LEVELS:
        found = _measure(tokens, unsure, float(levels[0]) if levels.size == 1 else None)
        return [found] if found else []
    each = [_measure(tokens, unsure & (recorded == level)[tokens.row], float(level)) for level in levels]
    return [found for found in each if found]


def _measure(tokens: Tokens, chosen: Array, temperature: float | None) -> Stretch | None:
    trainer, inference = (side.compress(chosen).astype(np.float64) for side in (tokens.trainer, tokens.inference))
    real = (trainer != 0) & (inference != 0)
    if int(real.sum()) < _FEWEST:
        return None
    trainer, inference = trainer.compress(real), inference.compress(real)
    covariance = np.cov(trainer, inference)
    of_trainer, of_inference, both = covariance[0, 0], covariance[1, 1], covariance[0, 1]
    if min(of_trainer, of_inference) <= 0:
        return None
    # d = t - v and m = (t + v) / 2: their covariance is (var t - var v) / 2.
    spread = (of_trainer + of_inference - 2 * both) * (of_trainer + of_inference + 2 * both)
    return Stretch(
        temperature=temperature,
        tokens=trainer.size,
        slope=math.sqrt(of_trainer / of_inference),
        fitted=both / of_inference,
        together=both / math.sqrt(of_trainer * of_inference),
        leaning=(of_trainer - of_inference) / math.sqrt(spread) if spread > 0 else math.copysign(1, of_trainer - 1),
    )


def judge(probed: list[Stretch], evidence: Evidence) -> Finding | None:
    """Report the strongest stretch."""
    stretched = [stretch for stretch in probed if stretch.stretched]
    if not stretched or evidence.is_rounding:
        return None
    worst = max(stretched, key=lambda stretch: abs(math.log(stretch.slope)))
    base = _base(worst)
    return KIND.finding(
        "error",
        _shows(worst, base),
        title=f"Logprobs in two units: one side is in {base}" if base else None,
        consistent_with=KIND.consistent_with[1] if base else _who(worst),
        action=f"convert the {base} side to natural logarithms" if base else None,
        tokens=worst.tokens,
        evidence={
            "slope": Figure(worst.slope),
            "correlation": Figure(worst.together),
            "leaning": Figure(worst.leaning),
            "temperature": Figure(_temperature(worst)),
            "recorded_temperature": worst.temperature,
        },
    )


def _is_inference(found: Stretch) -> bool:
    """Whether the inference side is the tempered one: t is about T v then, and about v / T where the trainer is."""
    if found.temperature is None or found.temperature <= 0:
        return found.slope < 1  # temperatures above 1 are rare
    return math.log(found.slope) * math.log(found.temperature) >= 0


def _temperature(found: Stretch) -> float:
    slope = found.fitted if found.slope < 1 else found.slope
    return slope if _is_inference(found) else 1 / slope


def _base(found: Stretch) -> str | None:
    """The base of the logarithm that the slope would be of, where the points lie on a line."""
    if found.together < 0.99:
        return None
    close = [name for name, size in _BASES.items() if abs(abs(math.log(found.slope)) - abs(math.log(size))) < 0.02]
    return close[0] if close else None


def _shows(found: Stretch, base: str | None) -> str:
    text = (
        f"Trainer logprobs are {found.slope:.2f} times as spread as inference logprobs over {found.tokens:,} tokens "
        f"below {_UNSURE}, and the log-ratio leans on the logprob (correlation {found.leaning:+.2f})."
    )
    if base is not None:
        return text
    recorded = "" if found.temperature is None else f", recorded is {found.temperature:g}"
    return f"{text} A temperature of about {_temperature(found):.2f} on one side does this{recorded}."


def _who(found: Stretch) -> str:
    tempered, other = ("inference", "trainer") if _is_inference(found) else ("trainer", "inference")
    return f"{tempered} logprobs scaled by the sampling temperature and {other} logprobs scored at temperature 1"
