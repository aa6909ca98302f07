"""What changed between two dumps, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from iscope.model import Figure, Figures, Report

# Figures that a sentence is made of where they differ, what they are called, and how.
_SAID = {
    "mismatch.abs_mean": "mean abs(d), nats per token,",
    "mismatch.minus_log_q": "-log q, how open the sampling is, nats per token,",
    "mismatch.minus_log_p": "-log p of the trainer, nats per token,",
    "mismatch.sampler_check": "the mean token ratio at lag 0, 1 where tokens were sampled from the logged policy,",
    "mismatch.variance_ratio": "the variance ratio, 1 on fresh rollouts,",
    "batch.length": "scored tokens per rollout",
    "batch.reward": "reward",
}
_FAR = 0.1


def changes(here: Report, there: Report, rows: Sequence[Figures]) -> list[str]:
    """Return the sentences: verdicts, k3, the gap, what else differs beyond chance, steps, findings of one alone."""
    by_path = {str(row["path"]): row for row in rows}
    said = [_verdicts(here, there), _k3(by_path.get("mismatch.k3")), _gap(by_path.get("mismatch.gap"))]
    said += [_other(name, by_path.get(path)) for path, name in _SAID.items()]
    said += [_steps(here, there), *_findings(here, there)]
    return [sentence for sentence in said if sentence]


def _verdicts(here: Report, there: Report) -> str:
    if here.verdict.word == there.verdict.word:
        return f"The verdict on both is {here.verdict.word}."
    return f"The verdict is {here.verdict.word} here and {there.verdict.word} there."


def _k3(row: Figures | None) -> str:
    if row is None:
        return ""
    here, there, difference = (row[name] for name in ("here", "there", "difference"))
    if not (isinstance(here, Figure) and isinstance(there, Figure) and isinstance(difference, Figure)):
        return ""
    if here.value is None or there.value is None:
        return ""
    head = f"k3 is {here.value:.3g} nats per token here and {there.value:.3g} there"
    if difference.low is None or difference.high is None:
        return f"{head}, {_times(here.value, there.value)}; too few groups tell how sure that is."
    ends = f"[{difference.low:.2g}, {difference.high:.2g}]"
    if difference.low <= 0 <= difference.high:
        return f"{head}: no difference beyond chance, {difference.value:+.2g} {ends}."
    word = "more" if here.value > there.value else "less"
    return f"{head}, {_times(here.value, there.value)}: {word} mismatch here, by {difference.value:+.2g} {ends}."


def _times(here: float, there: float) -> str:
    if not here or not there:
        return "one of them exactly 0"
    return f"{here / there:.3g} times" if here >= there else f"1/{there / here:.3g}"


def _gap(row: Figures | None) -> str:
    here, there = _values(row)
    if here is None or there is None:
        return ""
    if abs(here - there) <= _FAR * max(abs(here), abs(there)):
        return f"The gap, median abs(d) / (1 - q), is about the same: {here:.3g} and {there:.3g}."
    return (
        f"The gap, median abs(d) / (1 - q), is {here:.3g} here and {there:.3g} there, {_times(here, there)}: the "
        "mismatch differs beyond what more or less peaked sampling makes of it."
    )


def _values(row: Figures | None) -> tuple[float | None, float | None]:
    ends = [row[name] if row is not None else None for name in ("here", "there")]
    first, second = (float(end.value) if isinstance(end, Figure) and end.value is not None else None for end in ends)
    return first, second


def _other(name: str, row: Figures | None) -> str:
    here, there = _values(row)
    difference = row["difference"] if row is not None else None
    if here is None or there is None or not isinstance(difference, Figure):
        return ""
    if difference.low is None or difference.high is None or difference.low <= 0 <= difference.high:
        return ""
    if abs(here - there) <= 0.02 * max(abs(here), abs(there)):
        return ""
    ends = f"{difference.value:+.2g} [{difference.low:.2g}, {difference.high:.2g}]"
    return f"{name[:1].upper()}{name[1:]} differs: {here:.3g} here and {there:.3g} there, {ends}."


def _steps(here: Report, there: Report) -> str:
    """How k3 goes over the steps, where both have the same ones."""
    paths = [_by_step(report) for report in (here, there)]
    if len(paths[0]) < 3 or len(paths[1]) < 3:
        return ""
    said = [
        f"from {_mean(values[:2]):.2g} in the first two to {_mean(values[-2:]):.2g} in the last two {where}"
        for values, where in zip(paths, ("here", "there"), strict=True)
    ]
    return f"Over the steps k3 goes {' and '.join(said)}."


def _by_step(report: Report) -> list[float]:
    found = [row.get("k3") for row in report.breakdowns.get("step", ())]
    return [float(one.value) for one in found if isinstance(one, Figure) and one.value is not None]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _findings(here: Report, there: Report) -> list[str]:
    mine, theirs = (
        {one.code: one for one in report.findings if one.severity != "information"} for report in (here, there)
    )
    said = []
    for found, others, where in ((mine, theirs, "here"), (theirs, mine, "there")):
        alone = [f"{one.title} ({code})" for code, one in found.items() if code not in others]
        if alone:
            said.append(f"Found {where} only: {'; '.join(alone)}.")
    return said
