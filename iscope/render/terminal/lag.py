"""How far the trainer is ahead of the sampler, and what of the mismatch is engine and what lag."""

from __future__ import annotations

from rich.text import Text

from iscope.model import Report
from iscope.render.nodes import at, figure
from iscope.render.numbers import count, number
from iscope.render.strings import clean
from iscope.render.terminal.page import wrap
from iscope.render.terminal.table import Column, Label, cell, reasons, table

_PARTS = {
    "engine": "engine: trainer over inference",
    "lag": "lag: current over trainer",
    "total": "total: current over inference",
}
_LEGEND = "k1 = mean(-d), k3 = mean(exp(d)-1-d): nats per scored token; |d|: nats"
_COLUMNS = (("k1", ("k1",)), ("k3", ("k3",)), ("abs_mean", ("mean", "|d|")), ("abs_max", ("max", "|d|")))


def lag(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """Return the lag where it is known, and the parts of the mismatch where there are current logprobs."""
    return _versions(report, width, verbose=verbose) + _parts(report, width)


def _versions(report: Report, width: int, *, verbose: bool) -> list[Text]:
    ends = {name: figure(at(report.mismatch, "lag", name)) for name in ("min", "mean", "max")}
    low, mean, high = (None if found is None else found.value for found in ends.values())
    if low is None or mean is None or high is None:
        return reasons([("lag", [cell(at(report.mismatch, "lag", "min"), number)])], width) if verbose else []
    rollouts = at(report.mismatch, "lag", "rollouts")
    over = f" over {count(rollouts)} rollouts" if isinstance(rollouts, int) else ""
    span = f"{low:,g}" if low == high else f"{low:,g} to {high:,g}, mean {number(mean)}"
    word = clean(at(report.mismatch, "lag", "names"))
    measured = "engine in some rollouts, engine + lag in the others" if word == "mixed" else word
    text = f"LAG trainer version - policy version: {span}{over}; trainer over inference measures: {measured}"
    lines = wrap(text, width, 2)
    lines[0].stylize("bold", 0, len("LAG"))
    return lines


def _parts(report: Report, width: int) -> list[Text]:
    parts = at(report.mismatch, "lag", "parts")
    if not isinstance(parts, dict):
        return []
    labels = [Label(_PARTS.get(name, clean(name))) for name in parts]
    columns = [
        Column(head, [cell(at(parts, name, key), number, interval=key == "k3") for name in parts], _LEGEND)
        for key, head in _COLUMNS
    ]
    return table("PARTS of the mismatch", labels, columns, width)
