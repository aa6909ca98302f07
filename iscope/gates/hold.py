"""A report, the gates of a configuration and a baseline -> the result of a check, and the baseline it would make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from iscope.analysis.levels import Levels
from iscope.gates.baseline import Baseline, baseline_of, changes
from iscope.gates.comparable import differing, refuse_other, unknown
from iscope.gates.config import Config
from iscope.gates.defaults import default_gates, tracked
from iscope.gates.judge import judge
from iscope.gates.model import FORMS, Gate
from iscope.model import Report
from iscope.model.check import CheckResult

_NO_BASELINE = (
    "there is no baseline, so that only ceilings are judged: --write-baseline FILE makes one of a healthy dump."
)
_ITSELF = "limits relative to a baseline are held against this very dump, which becomes the baseline."


@dataclass(frozen=True)
class Held:
    """What came of a check.

    Attributes:
        result: the verdicts.
        baseline: the baseline that this report would make.
    """

    result: CheckResult
    baseline: Baseline


def hold(
    report: Report,
    config: Config | None = None,
    baseline: Baseline | None = None,
    *,
    prompts: dict[str, Any] | None = None,
    levels: Levels | None = None,
    becomes: bool = False,
) -> Held:
    """Hold a report against the gates of a configuration and the default ones.

    Args:
        report: what was measured.
        config: the gates; None is the default ones.
        baseline: what limits are relative to.
        prompts: number and digest of the dump's prompts, where they are known.
        levels: the reference levels; None is what the configuration says.
        becomes: whether this report is to become the baseline: it is then held against itself, and what differs from
            the one given is said instead of refused.

    Raises:
        UsageError: when the baseline is of something else.
    """
    config = config or Config()
    levels = levels or Levels.of(config.healthy_k3)
    now = baseline_of(report, (*config.gates, *tracked()), prompts)
    notes: list[str] = []
    if baseline is not None and not becomes:
        refuse_other(now, baseline, config.terms)
        notes += unknown(now, baseline, config.terms)
    if baseline is None and not becomes and config.defaults:
        notes.append(_NO_BASELINE)
    gates: list[Gate] = []
    if config.defaults:
        chosen = default_gates(report, None if becomes else baseline, config.framework, levels)
        gates += chosen.gates
        notes += chosen.notes
    gates += config.gates
    if not becomes:
        return Held(judge(report, gates, baseline, notes), now)
    if _need_baseline(gates):
        notes.append(_ITSELF)
    result = judge(report, gates, now, notes)
    return Held(result if baseline is None else _updated(result, baseline, now, config), now)


def _updated(result: CheckResult, before: Baseline, after: Baseline, config: Config) -> CheckResult:
    other = differing(after, before, config.terms)
    said = [f"{before.name} was of something else: {'; '.join(other)}."] if other else []
    return replace(result, notes=[*said, *result.notes], changes=changes(before, after))


def _need_baseline(gates: Iterable[Gate]) -> bool:
    return any(FORMS[form.key].needs_baseline for gate in gates for form, _ in gate.limits())
