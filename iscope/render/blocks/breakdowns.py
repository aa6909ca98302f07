"""Breakdowns: the same figures per value of a column, and what recipes leave of each."""

from __future__ import annotations

from iscope.model import Figures, Node, Report
from iscope.render.blocks.cells import Cell, Head, Row, Table, cell, table, word
from iscope.render.nodes import entries, figure, scalars
from iscope.render.numbers import count, number, percent
from iscope.render.strings import clean, elide
from iscope.render.terminal.labels import label

_MOST = 400
_RECIPES = 12
_HEADS = {
    "rollouts": Head("rollouts"),
    "tokens": Head("scored tokens", define="scored"),
    "k1": Head("k1, nats/token", define="k3"),
    "k3": Head("k3, nats/token", define="k3"),
    "abs_max": Head("max |d|, nats", define="log_ratio"),
    "ess_token_fraction": Head("ESS, token ratios"),
    "ess_sequence_fraction": Head("ESS, sequence ratios"),
    "variance_ratio": Head("variance ratio", define="variance_ratio"),
    "minus_log_p": Head("-log p, nats/token"),
    "length": Head("scored tokens a rollout"),
    "reward": Head("reward"),
    "zero_advantage": Head("zero advantage, rollouts"),
}


def breakdown_tables(report: Report) -> list[Table]:
    """Return two tables per key: the mismatch, and the effective batch size under each recipe."""
    found = []
    for by, rows in report.breakdowns.items():
        name = elide(clean(by), 60)
        shown, hidden = rows[:_MOST], len(rows) - len(rows[:_MOST])
        notes = [f"{count(hidden)} more rows are in the JSON report."] if hidden else []
        found.append(_mismatch(name, shown, notes))
        effective = _effective(report, name, shown, notes)
        found += [effective] if effective.heads else []
    return found


def _mismatch(by: str, rows: list[Figures], notes: list[str]) -> Table:
    flat = [dict(scalars({key: node for key, node in row.items() if key != "value"})) for row in rows]
    keys = list(dict.fromkeys(key for row in flat for key in row))
    heads = [_HEADS.get(key, Head(elide(clean(key), 60))) for key in keys]
    made = [
        Row(_value(row.get("value")), [_cell(key, own.get(key)) for key in keys])
        for row, own in zip(rows, flat, strict=True)
    ]
    return table(f"By {by}: the mismatch, trainer over inference.", by, heads, made, notes)


def _cell(key: str, node: Node) -> Cell:
    if isinstance(node, str | bool):
        return word(node)
    whole = isinstance(node, int)
    share = key.endswith("fraction") or key == "zero_advantage"
    return cell(node, count if whole else percent if share else number)


def _effective(report: Report, by: str, rows: list[Figures], notes: list[str]) -> Table:
    recipes = report.recipes[:_RECIPES]
    by_spec = [{str(entry.get("spec")): entry for entry in entries(row.get("recipes"))} for row in rows]
    made = [
        Row(
            _value(row.get("value")),
            [cell(own.get(recipe.spec, {}).get("effective_batch_size"), number) for recipe in recipes],
        )
        for row, own in zip(rows, by_spec, strict=True)
    ]
    heads = [Head(label(recipe)) for recipe in recipes]
    return table(f"By {by}: effective batch size in rollouts under each recipe.", by, heads, made, notes)


def _value(node: Node) -> str:
    found = figure(node)
    if found is not None and found.value is not None and not isinstance(node, int):
        return number(found.value)
    return "(none)" if node is None else elide(clean(node), 60) or "(empty)"
