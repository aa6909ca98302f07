"""The tokens of the worst rollouts one by one, coloured by their log-ratio: ids, or text where the report has it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

from iscope.model import Figures, Node, Report
from iscope.model.shown import Completion, StripTokens
from iscope.render.nodes import at, entries, number_of
from iscope.render.numbers import count, ratio
from iscope.render.strings import clean, elide, prose

_FAR = (0.1, 0.5, 1.5)  # nats: from where on a token of a strip is a little, clearly and far off
_Value = TypeVar("_Value")
_LABEL, _TEXT = 40, 12_000  # characters, escapes included


@dataclass(frozen=True)
class Token:
    """A token of a strip.

    Attributes:
        sign: how far off it is, in signs.
        css: the same as a class.
        said: the same in words, and which token it is.
        label: its text or else its id; empty where the report has neither.
    """

    sign: str
    css: str
    said: str
    label: str = ""


@dataclass(frozen=True)
class Strip:
    """Tokens of one of the worst rollouts around its largest abs(d).

    Attributes:
        name: the rollout.
        tokens: the tokens.
        before: scored tokens of the rollout before them.
        after: scored tokens after them.
        text: the text of the rollout, its lines kept; empty where there is none, or the tokens have theirs.
        notes: what it lacks.
    """

    name: str
    tokens: list[Token]
    before: int = 0
    after: int = 0
    text: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Strips:
    """The strips of a report.

    Attributes:
        strips: one per rollout.
        notes: what all of them lack, each reason once.
    """

    strips: list[Strip]
    notes: tuple[str, ...] = ()


def strips(report: Report) -> Strips:
    """Return the tokens of the worst rollouts."""
    made = [_strip(row) for row in entries(at(report.parts, "worst", "rollouts"))]
    shared = tuple(note for note in (made[0].notes if made else ()) if all(note in strip.notes for strip in made))
    if len(made) < 2 or not shared:
        return Strips(made)
    own = [tuple(note for note in strip.notes if note not in shared) for strip in made]
    return Strips([replace(strip, notes=notes) for strip, notes in zip(made, own, strict=True)], shared)


def shown(text: str) -> str:
    """Return the text of a token so that all of it can be seen, spaces and line ends too, as one short word."""
    return elide(clean(text).replace(" ", "␣"), _LABEL) or "(empty)"


def _strip(row: Figures) -> Strip:
    name, strip = elide(clean(row.get("rollout_id")), 80), row.get("strip")
    ratios, positions = at(row, "strip", "log_ratios"), at(row, "strip", "positions")
    text, notes = _completion(Completion.from_dict(row.get("completion")))
    if not isinstance(strip, dict) or not isinstance(ratios, list) or not isinstance(positions, list):
        why = f"No tokens: {prose(at(row, 'strip', 'why') or 'the report has none')}."
        return Strip(name, [], text=text, notes=(why, *notes))
    which = StripTokens.from_dict(strip)
    chosen = number_of(strip.get("at"))
    tokens = [
        _token(position, d, _nth(which.ids, place), _nth(which.texts, place), chosen=place == chosen)
        for place, (position, d) in enumerate(zip(positions, ratios, strict=False))
    ]
    lacking = (f"No token ids: {prose(which.why)}.",) if which.why else ()
    before, after = (int(number_of(strip.get(side)) or 0) for side in ("before", "after"))
    return Strip(name, tokens, before, after, text, (*lacking, *notes))


def _nth(values: list[_Value | None], place: int) -> _Value | None:
    return values[place] if place < len(values) else None


def _token(position: Node, node: Node, number: int | None, text: str | None, *, chosen: bool) -> Token:
    d = float(number_of(node) or 0.0)
    step = sum(abs(d) >= limit for limit in _FAR)
    css = [f"{'u' if d > 0 else 'd'}{step}"] if step else []
    words = "" if text is None else shown(text)
    known = [*([] if number is None else [f"id {number}"]), *([f"text {words}"] if words else [])]
    far = f"position {clean(position)}: d {d:+.3f}, ratio {ratio(math.exp(max(-700.0, min(d, 700.0))))}"
    return Token(
        sign=("+" if d > 0 else "\N{MINUS SIGN}") * step or "·",
        css=" ".join([*css, *(["at"] if chosen else [])]),
        said=", ".join([far, *known]),
        label=words or ("" if number is None else str(number)),
    )


def _completion(found: Completion | None) -> tuple[str, list[str]]:
    """The text of a rollout and what is to be said of it."""
    if found is None:
        return "", []
    if found.why:
        return "", [f"No text: {prose(found.why)}."]
    text = elide("\n".join(map(clean, found.text.split("\n"))), _TEXT)
    cut = found.characters > len(found.text)
    return text, [f"The middle of its {count(found.characters)} characters is left out."] if cut else []
