"""Gates and a report -> verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from iscope.gates import say
from iscope.gates.baseline import Baseline
from iscope.gates.combine import difference, ratio
from iscope.gates.decide import Side, against_interval, against_limit, word_of
from iscope.gates.figures import Located, is_meant, locate
from iscope.gates.model import SEVERITIES, Form, Gate
from iscope.gates.path import Path, Pick, read_path
from iscope.gates.trend import trend
from iscope.gates.units import unit_of
from iscope.model import Figure, Report
from iscope.model.check import FAIL, PASS, WARN, CheckResult, GateVerdict

_ORDER = (FAIL, WARN, PASS)
_DATA = Gate(figure="coverage.tokens.scored", min=1.0, origin="default", reason="a check of nothing never passes")
_NO_BASELINE = "there is no baseline: write one with --write-baseline FILE and give it as --baseline FILE"


def judge(
    report: Report, gates: Sequence[Gate], baseline: Baseline | None = None, notes: Sequence[str] = ()
) -> CheckResult:
    """Hold a report against gates.

    That there are scored tokens at all is always a gate of its own.

    Args:
        report: what was measured, or what a saved report holds.
        gates: the limits.
        baseline: what limits relative to a baseline are relative to.
        notes: what to say besides.

    Returns:
        The verdicts, failures first, then warnings, else in the order of the gates.

    Raises:
        UsageError: when the path of a figure is none.
    """
    data = report.to_dict()
    found = [verdict for gate in (_DATA, *gates) for verdict in judged(data, gate, baseline)]
    coverage = report.coverage
    groups = data.get("sampling", {}).get("groups", {}).get("count")
    return CheckResult(
        gates=sorted(found, key=lambda verdict: _ORDER.index(verdict.word)),
        dump=report.verdict,
        counts={"rollouts": coverage.rollouts_analyzed, "tokens": coverage.tokens_scored, "groups": groups},
        notes=list(notes),
        provenance=report.provenance,
    )


def judged(data: Mapping[str, Any], gate: Gate, baseline: Baseline | None) -> Iterator[GateVerdict]:
    """Yield the verdicts of one gate: one for each limit and each figure that its path means.

    Args:
        data: the JSON form of a report.
        gate: the gate.
        baseline: what limits relative to a baseline are relative to.
    """
    if gate.findings:
        yield _findings(data, gate)
        return
    path = read_path(gate.figure)
    found = locate(data, path)
    for form, bound in gate.limits():
        if form.is_trend:
            yield _trend(found, path, gate, form, float(bound))
            continue
        rows = [*found, *_gone(found, path, baseline)] if form.needs_baseline else found
        for one in rows:
            yield _single(one, gate, form, bound, baseline)


def _single(one: Located, gate: Gate, form: Form, bound: Any, baseline: Baseline | None) -> GateVerdict:
    there = _there(one, baseline) if form.needs_baseline else None
    if form.of == "interval" and there is not None:
        return _interval(one, gate, form, bound, there)
    limit = -float(bound) if form.key == "max_fall" else float(bound)
    compared = None
    if there is not None:
        compared = ratio(one.figure, there) if form.of == "ratio" else difference(one.figure, there)
    side = against_limit(one.figure if compared is None else compared, limit, upper=form.upper)
    return _verdict(one, gate, form, bound, side, compared, there)


def _interval(one: Located, gate: Gate, form: Form, bound: Any, there: Figure) -> GateVerdict:
    side = against_interval(one.figure, there, bound)
    without = next(
        (
            f"{name} has no interval"
            for name, figure in (("it", one.figure), ("the baseline's", there))
            if figure.value is not None and figure.low is None
        ),
        "",
    )
    rise = difference(one.figure, there)
    compared = Figure.absent(without) if without and rise.value is not None else rise
    return _verdict(one, gate, form, bound, side, compared, there)


def _there(one: Located, baseline: Baseline | None) -> Figure:
    if baseline is None:
        return Figure.absent(_NO_BASELINE)
    found = baseline.figures.get(one.path)
    return found or Figure.absent("the baseline does not hold it: write it anew with --update-baseline")


def _gone(found: Sequence[Located], path: Path, baseline: Baseline | None) -> list[Located]:
    """Rows that the baseline has and the report has not."""
    if baseline is None or not any(isinstance(step, Pick) and step.every for step in path.steps):
        return []
    here = {one.path for one in found}
    gone = (name for name in baseline.figures if name not in here and is_meant(path, read_path(name)))
    return [Located(name, Figure.absent("the baseline has it and this report has not")) for name in gone]


def _trend(found: Sequence[Located], path: Path, gate: Gate, form: Form, bound: float) -> GateVerdict:
    compared, last = trend(found, form, gate.window)
    side = against_limit(compared, bound, upper=form.upper)
    return _verdict(Located(path.text, last), gate, form, bound, side, compared, None)


def _verdict(
    one: Located, gate: Gate, form: Form, bound: Any, side: Side, compared: Figure | None, there: Figure | None
) -> GateVerdict:
    unit = unit_of(one.path)
    number = None if isinstance(bound, str) else float(bound)
    return GateVerdict(
        word=word_of(side, gate),
        figure=one.path,
        form=form.key,
        rule=say.rule(form, bound, gate),
        unit=unit,
        value=one.figure,
        limit=number,
        compared=compared,
        baseline=there,
        message=say.sentence(one, unit, form, bound, side, compared, there, gate),
        reason=gate.reason,
        level=gate.level,
        origin=gate.origin,
    )


def _findings(data: Mapping[str, Any], gate: Gate) -> GateVerdict:
    asked = gate.findings
    wanted = SEVERITIES[: SEVERITIES.index(asked) + 1] if isinstance(asked, str) else ()
    chosen = [
        finding
        for finding in data["findings"]
        if (finding["severity"] in wanted or finding["code"] in asked) and finding["code"] not in gate.ignore
    ]
    what = f"severity {asked}{' or worse' if asked != 'error' else ''}" if wanted else ", ".join(asked)
    return GateVerdict(
        word=word_of("beyond" if chosen else "inside", gate),
        figure="findings",
        form="findings",
        rule=f"no {what.removeprefix('severity ')}",
        unit="findings",
        value=Figure(len(chosen)),
        limit=0.0,
        compared=None,
        baseline=None,
        message=say.findings(chosen, what),
        reason=gate.reason,
        level=gate.level,
        origin=gate.origin,
    )
