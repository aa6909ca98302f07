"""Token ids, and text where it was asked for, of the rollouts and tokens that a report lists as the worst."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from iscope.dump.found import Found
from iscope.dump.lookup import Lookup
from iscope.ledger.ledger import Ledger
from iscope.ledger.sample import Sample
from iscope.model import Figures, Node, Report
from iscope.model.shown import Completion, StripTokens

TOKEN_CHARACTERS = 64
COMPLETION_CHARACTERS = 10_000
_SAID = (
    f"The report holds text of the dump (--include-text): of a token up to {TOKEN_CHARACTERS} characters, of a rollout "
    f"up to {COMPLETION_CHARACTERS:,}, with the middle left out."
)
_NO_STRIP = "the dump has text of each token, but there is no strip to show it in"


@dataclass(frozen=True)
class Place:
    """Where a rollout's first loss token stands in its lists, and how many tokens these have."""

    first: int
    tokens: int

    def of(self, positions: list[int]) -> list[int]:
        """Return the places in the lists of positions that count from the first loss token."""
        return [self.first + position for position in positions]


def with_tokens(report: Report, ledger: Ledger, lookup: Lookup) -> Report:
    """Return a report whose worst rollouts and tokens say which tokens they are.

    A strip gets ``token_ids`` and ``texts``, a token ``token_id`` and ``text``. A rollout without texts of tokens gets
    its ``completion``, if text was asked for. What is not there has a ``why``.

    Args:
        report: the report of a dump.
        ledger: what it was made from.
        lookup: where the dump keeps token ids and text.
    """
    worst = report.parts.get("worst")
    if not isinstance(worst, dict):
        return report
    rollouts, tokens = (_entries(worst[name]) for name in ("rollouts", "tokens"))
    ids = [str(row["rollout_id"]) for row in (*rollouts, *tokens)]
    found, places = lookup.find(ids), _places(ledger.sample, ids) | _places(ledger.furthest, ids)
    text = lookup.text
    listed: list[Node] = [_rollout(row, found[name], places.get(name), text=text) for row, name in _named(rollouts)]
    single: list[Node] = [_token(row, found[name], places.get(name)) for row, name in _named(tokens)]
    said = [_SAID] if any(one.texts is not None or one.completion for one in found.values()) else []
    return replace(
        report,
        assumptions=[*report.assumptions, *said],
        parts=report.parts | {"worst": worst | {"rollouts": listed, "tokens": single}},
    )


def _entries(node: Node) -> list[Figures]:
    return [row for row in node if isinstance(row, dict)] if isinstance(node, list) else []


def _named(rows: list[Figures]) -> list[tuple[Figures, str]]:
    return [(row, str(row["rollout_id"])) for row in rows]


def _places(sample: Sample, ids: list[str]) -> dict[str, Place]:
    """Where the rollouts of some ids are; of several with one id none."""
    names = sample.rollouts["rollout_id"].cast(pl.String)
    chosen = names.is_in(ids) & names.is_unique()
    mask = sample.lists.get("loss_mask")
    places = {}
    for row in np.flatnonzero(chosen.to_numpy()).tolist():
        start, stop = int(sample.offsets[row]), int(sample.offsets[row + 1])
        first = 0 if mask is None or start == stop else int(np.argmax(mask[start:stop]))
        places[names[row]] = Place(first, stop - start)
    return places


def _rollout(row: Figures, one: Found, place: Place | None, *, text: bool) -> Figures:
    made, strip, texts = dict(row), row.get("strip"), list[str | None]()
    if place is not None and isinstance(strip, dict) and "positions" in strip:
        positions = _integers(strip["positions"])
        ids, texts = _ids(one, place, positions), _texts(one, place, positions)
        made["strip"] = strip | StripTokens(ids, "" if ids else _why(one, place), texts).to_dict()
    if text and not texts:
        made["completion"] = _completion(one, place).to_dict()
    return made


def _token(row: Figures, one: Found, place: Place | None) -> Figures:
    if place is None:
        return row
    position = _integers([row["position"]])
    ids, texts = _ids(one, place, position), _texts(one, place, position)
    return row | dict(zip(("token_id",), ids, strict=False)) | dict(zip(("text",), texts, strict=False))


def _integers(node: Node) -> list[int]:
    return [child for child in node if isinstance(child, int)] if isinstance(node, list) else []


def _ids(one: Found, place: Place, positions: list[int]) -> list[int | None]:
    """Token ids; none where the dump has not as many of them as tokens."""
    return one.ids_at(place.of(positions)) if one.ids is not None and len(one.ids) == place.tokens else []


def _texts(one: Found, place: Place, positions: list[int]) -> list[str | None]:
    if one.texts is None or len(one.texts) != place.tokens:
        return []
    return [None if text is None else _cut(text, TOKEN_CHARACTERS) for text in one.texts_at(place.of(positions))]


def _why(one: Found, place: Place) -> str:
    return one.ids_why if one.ids is None else _other_number(len(one.ids), "token ids", place)


def _completion(one: Found, place: Place | None) -> Completion:
    if one.completion is not None:
        return Completion(_cut(one.completion, COMPLETION_CHARACTERS), len(one.completion))
    if one.texts is None:
        return Completion(why=one.text_why)
    return Completion(why=_NO_STRIP if place is None else _other_number(len(one.texts), "token texts", place))


def _other_number(count: int, what: str, place: Place) -> str:
    return f"the dump has {count:,} {what} for the {place.tokens:,} tokens of this rollout"


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head = limit // 2
    return f"{text[:head]}…{text[len(text) - (limit - head - 1) :]}"
