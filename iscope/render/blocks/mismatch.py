"""The mismatch itself as tables: estimators, and the ratio at its three levels."""

from __future__ import annotations

from iscope.model import Node, Report
from iscope.render.blocks.cells import Cell, Form, Head, Row, Table, cell, table, word
from iscope.render.nodes import at, scalars
from iscope.render.numbers import count, number, percent, ratio
from iscope.render.strings import clean, elide

_NAMES = {
    "k1": ("k1 = mean(-d)", "nats/token"),
    "k2": ("k2 = mean(d²)/2", "nats/token"),
    "k3": ("k3 = mean(exp(d) - 1 - d)", "nats/token"),
    "k3_rollout_mean": ("k3, mean over rollouts of their means", "nats/token"),
    "abs_mean": ("mean |d|", "nats"),
    "abs_max": ("max |d|", "nats"),
    "token_mult_prob_error": ("mean exp|d|", ""),
    "gap": ("gap: median |d| / (1 - q), q < .999", "nats"),
    "minus_log_p": ("mean -log p, trainer", "nats/token"),
    "minus_log_q": ("mean -log q, inference", "nats/token"),
    "chi2_token": ("chi², token: mean(rho²) - 1", ""),
    "chi2_sequence": ("chi², sequence: mean(exp(2S)) - 1", ""),
    "variance_ratio": ("variance ratio, 1 if fresh", ""),
    "sampler_check": ("sampler check: mean rho at lag 0", ""),
    "tokens_at_exponent_limit": ("tokens at the exponent limit", "tokens"),
}
_ELSEWHERE = ("ratio", "by_p", "lag", "khat")
_RATIO: tuple[tuple[str, str, Form], ...] = (
    ("min", "min", number),
    ("p0_1", "p0.1", number),
    ("p1", "p1", number),
    ("p50", "p50", ratio),
    ("mean", "mean", ratio),
    ("p99", "p99", number),
    ("p99_9", "p99.9", number),
    ("max", "max", number),
    ("std", "std", number),
    ("outside_half_two", "outside [1/2, 2]", percent),
    ("ess", "ESS", number),
    ("ess_fraction", "ESS, share", percent),
)
_LEVELS = {"token": "token exp(d)", "sequence": "sequence exp(S)", "geometric": "geometric exp(G)"}
_PARTS = {
    "engine": "engine: trainer over inference",
    "lag": "lag: current over trainer",
    "total": "total: current over inference",
}


def mismatch_tables(report: Report) -> list[Table]:
    """Return the estimators, the ratio table, k-hat, and the parts of the mismatch where they are known."""
    over = f"Trainer over inference, {count(report.coverage.tokens_scored)} scored tokens."
    found = [_estimators(report, over), _ratios(report, over), _tails(report), _parts(report)]
    return [one for one in found if one.rows]


def _estimators(report: Report, over: str) -> Table:
    flat = dict(scalars({name: node for name, node in report.mismatch.items() if name not in _ELSEWHERE}))
    order = [name for name in _NAMES if name in flat] + [name for name in flat if name not in _NAMES]
    rows = []
    for name in order:
        title, unit = _NAMES.get(name, (elide(clean(name), 80), ""))
        if flat[name] is not None:
            rows.append(Row(title, [_plain(flat[name]), word(unit)]))
    return table(over, "estimator", [Head("value"), Head("unit", words=True)], rows)


def _plain(node: Node) -> Cell:
    return word(node, 400) if isinstance(node, str | bool) else cell(node, number)


def _ratios(report: Report, over: str) -> Table:
    levels = at(report.mismatch, "ratio")
    rows = [
        Row(
            _LEVELS.get(name, clean(name)),
            [word(at(group, "unit")), *(cell(at(group, key), form) for key, _, form in _RATIO)],
        )
        for name, group in (levels.items() if isinstance(levels, dict) else ())
        if isinstance(group, dict)
    ]
    heads = [Head("unit", words=True), *(Head(head) for _, head, _ in _RATIO)]
    return table(f"{over} Raw ratios; ESS = (sum rho)² / sum rho² in the row's unit.", "ratio", heads, rows)


def _tails(report: Report) -> Table:
    khat = at(report.mismatch, "khat")
    rows = [
        Row(_LEVELS[name], [cell(node, number), word(node.get("class")), cell(node.get("threshold"), number)])
        for name in ("token", "sequence")
        if isinstance(khat, dict) and isinstance(node := khat.get(name), dict)
    ]
    heads = [Head("k-hat", define="khat"), Head("class", words=True), Head("threshold")]
    return table("Upper tail of the raw ratios, trainer over inference: Pareto k-hat.", "tail", heads, rows)


def _parts(report: Report) -> Table:
    parts = at(report.mismatch, "lag", "parts")
    columns = (
        ("k1", "k1, nats/token"),
        ("k3", "k3, nats/token"),
        ("abs_mean", "mean |d|, nats"),
        ("abs_max", "max |d|, nats"),
    )
    rows = [
        Row(_PARTS.get(name, clean(name)), [cell(at(group, key), number) for key, _ in columns])
        for name, group in (parts.items() if isinstance(parts, dict) else ())
        if isinstance(group, dict) and "value" not in group
    ]
    heads = [Head(head) for _, head in columns]
    return table("Parts of the mismatch.", "part", heads, rows)
