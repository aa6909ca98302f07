"""The worst rollouts and tokens as tables."""

from __future__ import annotations

from iscope.model import Figures, Node, Report
from iscope.render.blocks.cells import Cell, Head, Row, Table, cell, table, word
from iscope.render.blocks.strips import shown
from iscope.render.nodes import at, entries, number_of
from iscope.render.numbers import count, number
from iscope.render.strings import clean, elide

_ROLLOUT = (
    ("log_ratio_sum", "S, nats"),
    ("log_ratio_mean", "G, nats/token"),
    ("abs_max", "max |d|, nats"),
    ("scored", "scored tokens"),
    ("step", "step"),
    ("policy_version", "policy version"),
    ("trainer_version", "trainer version"),
    ("advantage", "advantage"),
    ("reward", "reward"),
    ("group_id", "group"),
)
_TOKEN = (
    ("position", "position"),
    ("token_id", "token id"),
    ("text", "text"),
    ("log_ratio", "d, nats"),
    ("trainer_logprob", "trainer logprob"),
    ("inference_logprob", "inference logprob"),
)


def worst_tables(report: Report) -> list[Table]:
    """Return the worst rollouts and the worst tokens."""
    rollouts, tokens = (entries(at(report.parts, "worst", what)) for what in ("rollouts", "tokens"))
    looked = number_of(at(report.parts, "worst", "tokens_looked_at"))
    over = "" if looked is None else f", of the {count(looked)} scored tokens in the ledger's sample"
    found = [
        _table("Rollouts with the largest |S|, trainer over inference.", _ROLLOUT, rollouts),
        _table(f"Tokens with the largest |d|{over}.", _TOKEN, tokens),
    ]
    return [one for one in found if one.rows]


def _table(caption: str, columns: tuple[tuple[str, str], ...], rows: list[Figures]) -> Table:
    made = [Row(_id(row), [_carried(key, row.get(key)) for key, _ in columns]) for row in rows]
    return table(caption, "rollout", [Head(head, words=key == "text") for key, head in columns], made)


def _id(row: Figures) -> str:
    return elide(clean(row.get("rollout_id")), 80)


def _carried(key: str, node: Node) -> Cell:
    if key == "text" and isinstance(node, str):
        return Cell(shown(node))
    if isinstance(node, str | bool) or node is None:
        return word(node, 40)
    if key == "token_id":
        return cell(node, str)
    return cell(node, count if isinstance(node, int) else number)
