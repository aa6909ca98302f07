"""Advice: which setting to run, by fixed rules, with the sentences and numbers that it rests on.

1. ``fix_first``: a finding of severity error says that the log-ratios do not mean what they should.
2. ``fuse``: uncorrected, less than 10% of the gradient is weighted otherwise than by the product, so a bound on tokens
   is there for the rare token only.
3. ``lowest_k3``: of the settings that leave 90% of the gradient of either sign, the signs within 0.15 of each other,
   90% of the effective batch size and 95% of the groups with both signs, the one whose kept tokens have the lowest k3.
4. ``no_mask_repairs``: the same, where more than half of what it keeps is weighted otherwise than by the product.
5. ``none_qualifies``: no setting does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iscope.analysis.compare.front import carried
from iscope.analysis.compare.nodes import effective_share, number_at
from iscope.model import Figures, Finding, Node, RecipeReport

FUSE_BELOW = 0.10
LEFT, APART, EFFECTIVE, GROUPS = 0.9, 0.15, 0.9, 0.95
BEYOND_REPAIR = 0.5
# A setting that leaves more than this share of the k3 has hardly lowered it.
_LITTLE = 0.9

_BASE = "of the same loss at weight 1 with everything kept"


@dataclass(frozen=True)
class Advice:
    """What to do.

    Attributes:
        rule: which rule spoke.
        title: the advice in one line.
        sentences: its reasons, with their numbers.
        spec: the setting it is about; None where it is about none.
    """

    rule: str
    title: str
    sentences: tuple[str, ...]
    spec: str | None = None

    def to_node(self) -> Figures:
        """Return the JSON form."""
        return {"rule": self.rule, "title": self.title, "sentences": [*self.sentences], "spec": self.spec}


@dataclass(frozen=True)
class Case:
    """What the rules look at.

    Attributes:
        entries: the settings to choose from.
        uncorrected: the figures of weight 1 with everything kept.
        findings: what the dump shows.
        narrow: what is to be said of the bounds of a setting that noise alone breaks; empty where there are none.
        on_tokens: whether a setting has rules on single tokens and no others.
    """

    entries: Sequence[RecipeReport]
    uncorrected: Figures
    findings: Sequence[Finding]
    narrow: Callable[[RecipeReport], list[str]]
    on_tokens: Callable[[RecipeReport], bool]


def advise(case: Case) -> Advice:
    """Apply the rules in their order."""
    errors = [finding for finding in case.findings if finding.severity == "error"]
    if errors:
        return _fix_first(errors)
    away = number_at(case.uncorrected, "product_left")
    if away is None or number_at(case.uncorrected, "gradient_left.all") is None:
        why = "The dump has no advantages, or all are 0: there is no gradient to weigh the settings by."
        return Advice("no_advice", "no advice without a gradient", (why,))
    if away < FUSE_BELOW:
        return _fuse(case, away)
    judged = [(entry, shortfalls(entry)) for entry in case.entries if not entry.why]
    fit = [entry for entry, short in judged if not short and _k3(entry) is not None]
    if not fit:
        return _none_qualifies(case, judged)
    return _lowest_k3(case, fit, away)


def shortfalls(entry: RecipeReport) -> list[str]:
    """Return in words what a setting lacks of rule 3; empty where it qualifies."""
    positive, negative = (number_at(entry.figures, f"gradient_left.{sign}") for sign in ("positive", "negative"))
    sides = [(left, name) for left, name in ((positive, "A>0"), (negative, "A<0")) if left is not None]
    found = [f"gradient left at {name} is {left:.2f}" for left, name in sides if left < LEFT]
    if not sides:
        found.append("no gradient is known")
    if positive is not None and negative is not None and abs(positive - negative) > APART:
        found.append(f"the signs are {abs(positive - negative):.3g} apart ({positive:.3g} and {negative:.3g})")
    share = effective_share(entry.figures)
    if share is not None and share < EFFECTIVE:
        found.append(f"the effective batch size is {share:.0%} of the base's")
    groups = groups_share(entry)
    if groups is not None and groups < GROUPS:
        found.append(f"{groups:.0%} of the groups keep both signs")
    return found


def groups_share(entry: RecipeReport) -> float | None:
    """Share of the groups with both signs that keep both; None where there are none."""
    kept, total = (number_at(entry.figures, f"groups_with_both_signs.{part}") for part in ("kept", "total"))
    return None if kept is None or not total else kept / total


def _k3(entry: RecipeReport) -> float | None:
    return number_at(entry.figures, "unmasked_mismatch_kl.token")


def _fix_first(errors: Sequence[Finding]) -> Advice:
    said = [f"{finding.code} {finding.title}: {finding.action}." for finding in errors]
    return Advice(
        "fix_first",
        f"fix {errors[0].code} first; no correction",
        ("The data are at fault, so that no figure below says what a correction would do.", *said),
    )


def _fuse(case: Case, away: float) -> Advice:
    tokens = [entry for entry in case.entries if case.on_tokens(entry) and not entry.why]
    said = (
        f"Uncorrected, {away:.1%} of the gradient is in rollouts whose product weight exp(S) is away from 1 by more "
        f"than a factor of 2; below {FUSE_BELOW:.0%} there is nothing to correct but the rare token."
    )
    if not tokens:
        return Advice("fuse", "any token-level bound, as a fuse; none is among the settings", (said,))
    best = max(tokens, key=lambda entry: carried(entry) or 0.0)
    own = f"Of the token-level settings {best.spec} carries most: {_left(best)}."
    return Advice("fuse", f"any token-level bound, as a fuse: {best.spec}", (said, own), best.spec)


def _lowest_k3(case: Case, fit: Sequence[RecipeReport], away: float) -> Advice:
    best = min(fit, key=lambda entry: _k3(entry) or 0.0)
    left = number_at(best.figures, "product_left")
    said = [
        f"Uncorrected, {away:.0%} of the gradient is weighted otherwise than by the product exp(S), by more than a "
        "factor of 2.",
        f"{len(fit)} of {len(case.entries)} settings leave {LEFT:.0%} of the gradient of either sign, the signs within "
        f"{APART:g}, {EFFECTIVE:.0%} of the effective batch size and {GROUPS:.0%} of the groups with both signs.",
        f"Of these {best.spec} has the lowest k3 over kept tokens, {_k3(best):.3g} nats per token against "
        f"{number_at(case.uncorrected, 'unmasked_mismatch_kl.token') or 0.0:.3g} uncorrected; {_left(best)}.",
    ]
    before = number_at(case.uncorrected, "unmasked_mismatch_kl.token") or 0.0
    if (_k3(best) or 0.0) > _LITTLE * before:
        said.append(
            "That is hardly less: the rare token aside, the settings that qualify do about as well as each other, and "
            "the plainest will do."
        )
    if left is None or left <= BEYOND_REPAIR:
        return Advice("lowest_k3", f"run {best.spec}", tuple(said), best.spec)
    said.append(
        f"But {left:.0%} of what it keeps is weighted otherwise than by the product, by more than a factor of 2: no "
        "mask repairs this. Cut the lag, or the gap between trainer and engine; until then it is the least bad."
    )
    return Advice("no_mask_repairs", "no mask repairs this: cut lag or gap", tuple(said), best.spec)


def _none_qualifies(case: Case, judged: Sequence[tuple[RecipeReport, list[str]]]) -> Advice:
    near = sorted((pair for pair in judged if pair[1]), key=lambda pair: (len(pair[1]), -(carried(pair[0]) or 0.0)))
    said = [
        f"None of {len(judged)} settings leaves {LEFT:.0%} of the gradient of either sign, the signs within {APART:g}, "
        f"{EFFECTIVE:.0%} of the effective batch size and {GROUPS:.0%} of the groups with both signs."
    ]
    if near:
        said.append(f"Nearest is {near[0][0].spec}: {', '.join(near[0][1])}.")
    narrow = [sentence for entry, short in near if short for sentence in case.narrow(entry)]
    said += list(dict.fromkeys(narrow))[:3]
    return Advice("none_qualifies", "no setting qualifies: widen the bounds, or cut lag and gap", tuple(said))


def _left(entry: RecipeReport) -> str:
    positive, negative = (number_at(entry.figures, f"gradient_left.{sign}") for sign in ("positive", "negative"))
    sides = [f"{left:.2f} of A{sign}0" for left, sign in ((positive, ">"), (negative, "<")) if left is not None]
    share, groups = effective_share(entry.figures), groups_share(entry)
    said = [f"it leaves {' and '.join(sides)} of the gradient {_BASE}"] if sides else []
    said += [] if share is None else [f"{share:.0%} of the effective batch size"]
    said += [] if groups is None else [f"{groups:.0%} of the groups with both signs"]
    return ", ".join(said)


def with_config(advice: Advice, config: Sequence[str], notes: Sequence[str]) -> Node:
    """Return advice with the lines of a framework's configuration that follow it."""
    return advice.to_node() | {"config": [*config], "notes": [*notes]}
