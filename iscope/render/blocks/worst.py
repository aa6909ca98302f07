"""The worst rollouts and tokens: tables, and strips of tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass

from iscope.model import Figures, Node, Report
from iscope.render.blocks.cells import Cell, Head, Row, Table, cell, table, word
from iscope.render.nodes import at, entries, number_of
from iscope.render.numbers import count, number, ratio
from iscope.render.strings import clean, elide, prose

_FAR = (0.1, 0.5, 1.5)  # nats: from where on a token of a strip is a little, clearly and far off
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
    ("log_ratio", "d, nats"),
    ("trainer_logprob", "trainer logprob"),
    ("inference_logprob", "inference logprob"),
)


@dataclass(frozen=True)
class Token:
    """A token of a strip: how far off it is in signs, the same as a class, and in words."""

    sign: str
    css: str
    said: str


@dataclass(frozen=True)
class Strip:
    """Tokens of one of the worst rollouts around its largest abs(d).

    Attributes:
        name: the rollout.
        tokens: the tokens.
        before: scored tokens of the rollout before them.
        after: scored tokens after them.
        why: why there are none.
    """

    name: str
    tokens: list[Token]
    before: int = 0
    after: int = 0
    why: str = ""


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


def strips(report: Report) -> list[Strip]:
    """Return the tokens of the worst rollouts."""
    return [_strip(row) for row in entries(at(report.parts, "worst", "rollouts"))]


def _table(caption: str, columns: tuple[tuple[str, str], ...], rows: list[Figures]) -> Table:
    made = [Row(_id(row), [_carried(row.get(key)) for key, _ in columns]) for row in rows]
    return table(caption, "rollout", [Head(head) for _, head in columns], made)


def _id(row: Figures) -> str:
    return elide(clean(row.get("rollout_id")), 80)


def _carried(node: Node) -> Cell:
    if isinstance(node, str | bool) or node is None:
        return word(node, 40)
    return cell(node, count if isinstance(node, int) else number)


def _strip(row: Figures) -> Strip:
    strip = row.get("strip")
    ratios, positions = at(row, "strip", "log_ratios"), at(row, "strip", "positions")
    if not isinstance(strip, dict) or not isinstance(ratios, list) or not isinstance(positions, list):
        return Strip(_id(row), [], why=prose(at(row, "strip", "why") or "the report has none"))
    chosen = number_of(strip.get("at"))
    pairs = enumerate(zip(positions, ratios, strict=False))
    tokens = [_token(position, d, chosen=place == chosen) for place, (position, d) in pairs]
    before, after = (int(number_of(strip.get(side)) or 0) for side in ("before", "after"))
    return Strip(_id(row), tokens, before, after)


def _token(position: Node, node: Node, *, chosen: bool) -> Token:
    d = float(number_of(node) or 0.0)
    step = sum(abs(d) >= limit for limit in _FAR)
    css = [f"{'u' if d > 0 else 'd'}{step}"] if step else []
    said = f"position {clean(position)}: d {d:+.3f}, ratio {ratio(math.exp(max(-700.0, min(d, 700.0))))}"
    return Token(("+" if d > 0 else "-") * step or "·", " ".join([*css, *(["at"] if chosen else [])]), said)
