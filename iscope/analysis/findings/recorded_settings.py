"""IS005: recorded sampling settings that the logprobs contradict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iscope.analysis.findings.agreement import agreement
from iscope.analysis.findings.kind import Kind
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.agreement import Agreement
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.findings.tokens import Tokens
    from iscope.analysis.numbers import Array
    from iscope.model import Figures, Finding

KIND = Kind(
    code="IS005",
    title="Recorded sampling settings contradict the logprobs",
    meaning=(
        "The dump records a temperature other than 1, or top-p, top-k or min-p, but the inference logprobs are not "
        "those of the distribution that was sampled from. Both sides agree, so the ratio is near 1 and the mismatch "
        "cannot be seen: it is an illusion, since neither side is the sampler."
    ),
    consistent_with=(
        "raw logprobs: vLLM's logprobs_mode=raw_logprobs, its default, reports them before temperature and "
        "truncation, and the trainer scores at temperature 1 too",
    ),
    no_evidence_of="a small mismatch",
    action=(
        "set logprobs_mode=processed_logprobs in vLLM and divide the trainer's logits by the temperature, or sample "
        "at temperature 1 without truncation"
    ),
    method=(
        "Where logprobs_mode is recorded it decides. Else the rollouts of a group that begin alike are compared: if "
        "the logged q is what was sampled from, two of them agree on the next token with chance q. Reported where "
        "they agree more often by 0.02 or more, with one-sided chance below 1% by Student's t over groups. "
        "Temperature 0 is an error: no ratio exists. Information where the dump cannot tell."
    ),
    sources=("huggingface/trl#4159", "verl-project/verl#6240", "vllm-project/vllm#42259", "THUDM/slime#2197"),
)

_EXCESS = 0.02
_CHANCE = 0.01
_BLUNT = 0.04  # a standard error above this cannot tell raw from processed logprobs


def probe(tokens: Tokens) -> tuple[Array, Agreement | None]:
    """Return the rollouts sampled otherwise than at temperature 1 from everything, and how much they agree."""
    unusual = _unusual(tokens)
    if not unusual.any() or _mode(tokens) is not None:
        return unusual, None
    return unusual, agreement(tokens, unusual)


def judge(probed: tuple[Array, Agreement | None], evidence: Evidence) -> Finding | None:
    """Report settings that should show in the logprobs and do not."""
    unusual, found = probed
    if not unusual.any() or evidence.found("IS001", "IS003", "IS004"):
        return None
    tokens = evidence.tokens
    temperature = tokens.settings("temperature")
    rollouts, settings = int(unusual.sum()), _settings(tokens, unusual)
    if temperature is not None and (temperature[unusual] == 0).any():
        shows = f"{rollouts:,} rollouts record temperature 0: they were not sampled, so no importance ratio exists."
        return KIND.finding("error", shows, title="Temperature 0: importance ratios are undefined", rollouts=rollouts)
    mode = _mode(tokens)
    if mode is not None:
        return _by_mode(mode, settings, rollouts)
    return _by_agreement(found, settings, rollouts) if found is not None else None


def _by_mode(mode: str, settings: str, rollouts: int) -> Finding | None:
    if "raw" not in mode:
        return None
    shows = (
        f"{rollouts:,} rollouts record {settings} and logprobs_mode {mode}, and trainer and inference logprobs agree: "
        "the ratio near 1 does not see the settings."
    )
    return KIND.finding("warning", shows, rollouts=rollouts)


def _by_agreement(found: Agreement, settings: str, rollouts: int) -> Finding | None:
    excess = found.excess
    evidence: Figures = {"excess": Figure(excess.value), "error": Figure(excess.error), "draws": found.draws}
    if excess.value > _EXCESS and excess.chance() < _CHANCE:
        shows = (
            f"{rollouts:,} rollouts record {settings}, and trainer and inference logprobs agree, but rollouts of one "
            f"prompt pick the same token {excess.value:.2f} more often than the logged probabilities say "
            f"({found.draws:,} draws in {excess.clusters:,} groups, {excess.z():.1f} standard errors): the tokens were "
            "not sampled from the logged probabilities, and the ratio near 1 is an illusion."
        )
        return KIND.finding("warning", shows, rollouts=rollouts, evidence=evidence)
    if excess.clusters > 1 and 0 < excess.error < _BLUNT:
        return None
    shows = (
        f"{rollouts:,} rollouts record {settings}, and trainer and inference logprobs agree; whether both are scaled "
        "alike or both are raw cannot be told from this dump."
    )
    return KIND.finding("information", shows, rollouts=rollouts, evidence=evidence)


def _unusual(tokens: Tokens) -> Array:
    unusual = np.zeros(tokens.rollouts, dtype=bool)
    for name, plain in (("temperature", 1.0), ("top_p", 1.0), ("min_p", 0.0)):
        values = tokens.settings(name)
        if values is not None:
            unusual |= np.isfinite(values) & (np.abs(values - plain) > 1e-6)
    top_k = tokens.settings("top_k")
    return unusual if top_k is None else unusual | (top_k > 0)


def _settings(tokens: Tokens, unusual: Array) -> str:
    """The settings that are not the plain ones, in words; the first rollout's stand for all."""
    row = int(np.flatnonzero(unusual)[0])
    said = []
    for name, plain in (("temperature", 1.0), ("top_p", 1.0), ("top_k", 0.0), ("min_p", 0.0)):
        values = tokens.settings(name)
        if values is not None and np.isfinite(values[row]) and abs(values[row] - plain) > 1e-6 and values[row] >= 0:
            said.append(f"{name} {values[row]:.3g}")
    return ", ".join(said)


def _mode(tokens: Tokens) -> str | None:
    """The one logprobs_mode that is recorded, if it is."""
    if "logprobs_mode" not in tokens.frame.columns:
        return None
    modes = tokens.frame["logprobs_mode"].drop_nulls().unique().to_list()
    return str(modes[0]).lower() if len(modes) == 1 else None
