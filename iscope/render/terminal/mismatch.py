"""The mismatch itself, whatever the recipe: estimators with their units, and the ratio at its three levels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.text import Text

from iscope.model import Node, Report
from iscope.render.nodes import at, scalars
from iscope.render.numbers import counted, number, percent, ratio
from iscope.render.strings import clean, elide, prose
from iscope.render.terminal.page import flow, wrap
from iscope.render.terminal.table import Cell, Column, Form, Label, cell, reasons, table


@dataclass(frozen=True)
class _Name:
    """How a figure is introduced, the unit that follows it, and what else a verbose page says of it."""

    text: str
    unit: str = ""
    formula: str = ""


_NAMES = {
    "k1": _Name("k1 mean(-d)", "nats/token"),
    "k2": _Name("k2 mean(d^2)/2", "nats/token"),
    "k3": _Name("k3 mean(exp(d)-1-d)", "nats/token"),
    "k3_rollout_mean": _Name("k3, mean over rollouts of their means", "nats/token"),
    "abs_mean": _Name("mean |d|", "nats"),
    "abs_max": _Name("max |d|", "nats"),
    "token_mult_prob_error": _Name("mean exp|d|"),
    "chi2_token": _Name("chi^2 token mean(rho^2)-1"),
    "chi2_sequence": _Name("chi^2 sequence mean(exp(2S))-1"),
    "minus_log_p": _Name("mean -log p (trainer)", "nats/token"),
    "minus_log_q": _Name("mean -log q (inference)", "nats/token"),
    "tokens_at_exponent_limit": _Name("tokens at the exponent limit"),
    "gap": _Name("median |d|/(1-q)", "nats"),
    "variance_ratio": _Name("variance ratio (1 if fresh)", formula=" = sum(sum(rho-1))^2 / sum((rho-1)^2)"),
    "sampler_check": _Name("sampler check: mean rho at lag 0"),
}
# Whose 95% intervals are shown when nobody asks for more.
_BOUNDED = ("k1", "k3", "variance_ratio", "sampler_check")
_ELSEWHERE = ("ratio", "by_p", "lag", "khat")  # in tables and lines of their own
_DETAILS = ("k2", "token_mult_prob_error", "chi2_token", "chi2_sequence", "minus_log_p", "minus_log_q")
_LEVELS = {"token": "token exp(d)", "sequence": "sequence exp(S)", "geometric": "geometric exp(G)"}
_RATIO: tuple[tuple[str, str, Form, bool], ...] = (
    ("min", "min", number, False),
    ("p0_1", "p0.1", number, True),
    ("p1", "p1", number, False),
    ("p50", "p50", ratio, False),
    ("mean", "mean", ratio, False),
    ("p99", "p99", number, False),
    ("p99_9", "p99.9", number, True),
    ("max", "max", number, False),
    ("std", "std", number, True),
    ("outside_half_two", "outside\n[1/2,2]", percent, False),
)
_ESS_LEGEND = "ESS: (sum rho)^2 / sum rho^2 of the raw ratios, as outside a share of the row's unit"


def mismatch(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """Return the estimators and the ratio table."""
    tokens = counted(report.coverage.tokens_scored, "scored token")
    title = f"MISMATCH d = trainer - inference logprob of {tokens}; S its sum by rollout, G = S/n"
    lines = wrap(title, width, 2)
    lines[0].stylize("bold", 0, len("MISMATCH"))
    pieces, absent = [], []
    for key, known, node in _estimators(report, verbose=verbose):
        if node == 0 and isinstance(node, int) and not verbose:  # a count of something that did not happen
            continue
        found = cell(node, number, interval=verbose or key in _BOUNDED)
        if found.why:
            absent.append((known.text, [found]))
        elif found.text or isinstance(node, str | bool):
            name = known.text + (known.formula if verbose else "")
            pieces.append(f"{name} {found.text or elide(clean(node), 60)} {known.unit}".rstrip())
    lines += flow(pieces, width) + reasons(absent, width) + _sampler(report, width)
    return lines + _ratio_table(report, width, verbose=verbose)


def _sampler(report: Report, width: int) -> list[Text]:
    message = at(report.mismatch, "sampler_check", "message")
    return wrap(f"SAMPLER CHECK {prose(message)}", width, 2) if message else []


def _estimators(report: Report, *, verbose: bool) -> Iterator[tuple[str, _Name, Node]]:
    """Names, headings and numbers; of the sampler check only where it has something to say."""
    silent = not verbose and not at(report.mismatch, "sampler_check", "message")
    elsewhere = (*_ELSEWHERE, *(("sampler_check",) if silent else ()), *(() if verbose else _DETAILS))
    found = {name: node for name, node in report.mismatch.items() if name not in elsewhere}
    known = [name for name in _NAMES if name in found]
    flat = dict(scalars(found))
    for name in [*known, *(name for name in flat if name not in _NAMES)]:
        if name in flat and flat[name] is not None:
            yield name, _NAMES.get(name, _Name(elide(clean(name), 60))), flat[name]


def _ratio_table(report: Report, width: int, *, verbose: bool) -> list[Text]:
    levels = at(report.mismatch, "ratio")
    if not isinstance(levels, dict) or not levels:
        return []
    labels = [Label(_level(name, group)) for name, group in levels.items()]
    columns = [
        Column(
            tuple(head.split("\n")),
            [cell(at(levels, level, name), form, interval=verbose) for level in levels],
        )
        for name, head, form, extra in _RATIO
        if verbose or not extra
    ]
    ess = Column(("ESS",), [_ess(at(levels, level), verbose=verbose) for level in levels], _ESS_LEGEND)
    return table("RATIO p/q, unit", labels, [*columns, ess], width)


def _level(name: str, group: Node) -> str:
    unit = at(group, "unit") if isinstance(group, dict) else None
    return f"{_LEVELS.get(name, clean(name))}, {clean(unit)}" if unit else _LEVELS.get(name, clean(name))


def _ess(group: Node, *, verbose: bool) -> Cell:
    if not isinstance(group, dict):
        return Cell()
    size, share = cell(at(group, "ess"), number), cell(at(group, "ess_fraction"), percent)
    return Cell(f"{share.text} ({size.text})") if verbose and size.text and share.text and not share.why else share
