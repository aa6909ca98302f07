"""The rollouts and tokens that are furthest apart, to look at one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from iscope.analysis.breakdown import plain
from iscope.analysis.figures.differences import largest
from iscope.analysis.findings.tokens import Tokens
from iscope.analysis.numbers import Array, figure
from iscope.analysis.order_statistics import at_ranks
from iscope.analysis.rows import Rows
from iscope.ledger.furthest import ROLLOUTS
from iscope.model import Figures, Node
from iscope.recipes.model import Level

TOKENS = 20
EITHER_SIDE = 64
_DIGITS = 4
_CARRIED = ("step", "group_id", "advantage", "reward", "policy_version", "trainer_version")
_NOT_HELD = "the ledger does not have its tokens"
_SAME_ID = "several rollouts have this rollout_id"


def worst(rows: Rows, furthest: Tokens, listed: list[Node], looked_at: int) -> Figures | None:
    """Return the rollouts with the largest abs(S) and the tokens with the largest abs(d); None without a scored token.

    Of each rollout: S (``log_ratio_sum``), G (``log_ratio_mean``) and max abs(d), nats, trainer over inference, its
    scored tokens, what the dump says of it, and a ``strip`` of d around its largest abs(d), up to 64 scored tokens on
    either side. The tokens are those of the sample.

    Args:
        rows: the rollouts.
        furthest: the tokens of the rollouts with the largest abs(S).
        listed: the tokens of the sample with the largest abs(d).
        looked_at: how many tokens the sample has.
    """
    if not rows.tokens:
        return None
    chosen = _largest(np.abs(rows.log_ratio(Level.SEQUENCE)), ROLLOUTS)
    places, few = _held(rows, furthest, chosen), Rows(rows.frame.chosen(np.array(chosen, dtype=np.int64)), {})
    rollouts: list[Node] = [*_rollouts(few, furthest, places)]
    return {"rollouts": rollouts, "tokens": listed, "tokens_looked_at": looked_at}


def _held(rows: Rows, tokens: Tokens, chosen: list[int]) -> dict[str, int | str]:
    """Where the tokens of the chosen rollouts are, by their ids; of several with one id, why there is none."""
    ids = rows.frame["rollout_id"].cast(pl.String)
    named = ids.filter(ids.is_in(ids[chosen].unique().to_list()))
    found: dict[str, int | str] = dict.fromkeys(named.filter(named.is_duplicated()).to_list(), _SAME_ID)
    for place, name in enumerate(tokens.frame["rollout_id"].cast(pl.String).to_list()):
        found.setdefault(name, place)
    return found


def _rollouts(rows: Rows, tokens: Tokens, held: dict[str, int | str]) -> Iterator[Figures]:
    names = [str(name) for name in rows.frame["rollout_id"].to_list()]
    numbers = (rows.n, rows.log_ratio(Level.SEQUENCE), largest(rows))
    carried = {key: rows.frame[key].to_list() for key in _CARRIED if key in rows}
    for row, (name, scored, total, most) in enumerate(
        zip(names, *(column.tolist() for column in numbers), strict=True)
    ):
        place, said = held.get(name, _NOT_HELD), {key: _carried(values[row]) for key, values in carried.items()}
        yield {
            "rollout_id": name,
            "scored": scored,
            "log_ratio_sum": figure(total),
            "log_ratio_mean": figure(total / scored),
            "abs_max": figure(most),
            **{key: node for key, node in said.items() if node is not None},
            "strip": {"why": place} if isinstance(place, str) else _strip(tokens, place),
        }


def _carried(value: Any) -> Node:
    return figure(value) if isinstance(value, float) else plain(value)


def _strip(tokens: Tokens, place: int) -> Figures:
    start = int(tokens.starts[place])
    d = tokens.log_ratio[start : start + int(tokens.lengths[place])]
    at = int(np.argmax(np.abs(d)))
    first, last = max(0, at - EITHER_SIDE), min(d.size, at + EITHER_SIDE + 1)
    listed: list[Node] = [*_rounded(d[first:last])]
    positions: list[Node] = [*(tokens.place[start + first : start + last] - tokens.first[place]).tolist()]
    return {"positions": positions, "log_ratios": listed, "at": at - first, "before": first, "after": d.size - last}


def _rounded(values: Array) -> list[float]:
    return [round(value, _DIGITS) + 0.0 for value in values.astype(np.float64).tolist()]


def furthest_tokens(tokens: Tokens) -> Iterator[Figures]:
    """Yield the tokens with the largest abs(d), from the largest on."""
    if not tokens.size:
        return
    size, ids = tokens.magnitude, tokens.frame["rollout_id"]
    for token in _largest(size, TOKENS):
        yield {
            "rollout_id": str(ids[int(tokens.row[token])]),
            "position": tokens.position(token),
            "log_ratio": figure(float(tokens.log_ratio[token])),
            "trainer_logprob": figure(float(tokens.trainer[token])),
            "inference_logprob": figure(float(tokens.inference[token])),
        }


def _largest(values: Array, count: int) -> list[int]:
    """The places of so many values, from the largest on; of equal ones the first."""
    least = at_ranks(values, max(values.size - count, 0))[0]
    above, equal = np.flatnonzero(values > least), np.flatnonzero(values == least)
    most = np.concatenate([above, equal[: count - above.size]])
    order: list[int] = most[np.argsort(-values[most], kind="stable")].tolist()
    return order
