"""IS021: a correction that eats the batch, one sign of the advantage, or whole groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iscope.analysis.findings.kind import Kind
from iscope.model import Figure

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.model import Figures, Finding, Node, RecipeReport

KIND = Kind(
    code="IS021",
    title="The correction eats the batch",
    meaning=(
        "A recipe leaves less than half of the gradient, of the rollouts that carry it, of one sign of the advantage "
        "against the other, or of the groups that still have both signs."
    ),
    consistent_with=("bounds that this mismatch does not fit, or a mismatch that no bounds fit",),
    no_evidence_of="the discarded rollouts being bad",
    action="weigh bounds against each other: iscope compare DUMP --recipe NAME --sweep OPTION=VALUES",
    method=(
        "Gradient left, effective batch size over its base, the smaller of gradient left at A > 0 and A < 0 over the "
        "larger, and groups with both signs, each below 0.5. The filter and the bound that hit most rollouts are "
        "named. Above information only for a recipe that was named."
    ),
    sources=("NVIDIA-NeMo/RL#2269", "NVIDIA-NeMo/RL#4243", "rllm-org/rllm#760", "verl-project/verl#6375"),
)

_LITTLE = 0.5


@dataclass(frozen=True)
class Loss:
    """What a recipe takes most of: its share left, what it is of, and in words."""

    report: RecipeReport
    left: float
    what: str
    title: str


def judge(_: Any, evidence: Evidence) -> Finding | None:
    """Report the recipe that leaves least, a named one first."""
    found = [loss for report in evidence.reports if (loss := _worst(report)) is not None]
    if not found:
        return None
    loss = min(found, key=lambda entry: (not entry.report.named, entry.left, entry.report.spec))
    more = f" {len(found) - 1} other recipes leave less than half of some share too." if len(found) > 2 else ""
    return KIND.finding(
        "warning" if loss.report.named else "information",
        f"{loss.report.spec} leaves {loss.left:.0%} of {loss.what}{_which(loss.report)}.{more}",
        title=loss.title,
        evidence={"spec": loss.report.spec, "left": Figure(loss.left), "of": loss.what},
    )


def _worst(report: RecipeReport) -> Loss | None:
    """The smallest of the four shares, where it is below a half."""
    shares = [
        Loss(report, left, what, title)
        for left, what, title in (
            (_number(report.figures, "gradient_left", "all"), "the gradient", "The correction eats the batch"),
            (_size(report.figures), "the effective batch size", "The correction leaves few rollouts"),
            (*_signs(report.figures), "The correction eats one sign of the advantage"),
            (_groups(report.figures), "the groups that have both signs", "The correction eats whole groups"),
        )
        if left is not None and left < _LITTLE
    ]
    return min(shares, key=lambda loss: loss.left, default=None)


def _node(figures: Figures, *path: str) -> Node:
    node: Node = figures
    for name in path:
        node = node.get(name) if isinstance(node, dict) else None
    return node


def _number(figures: Figures, *path: str) -> float | None:
    node = _node(figures, *path)
    value = node.value if isinstance(node, Figure) else node
    return float(value) if isinstance(value, int | float) else None


def _size(figures: Figures) -> float | None:
    value, base = (_number(figures, "effective_batch_size", name) for name in ("value", "base"))
    return value / base if value is not None and base else None


def _signs(figures: Figures) -> tuple[float | None, str]:
    positive, negative = (_number(figures, "gradient_left", name) for name in ("positive", "negative"))
    if positive is None or negative is None or not max(positive, negative):
        return None, ""
    weak, strong = ("A > 0", "A < 0") if positive < negative else ("A < 0", "A > 0")
    return min(positive, negative) / max(positive, negative), f"the gradient at {weak} that it leaves at {strong}"


def _groups(figures: Figures) -> float | None:
    kept, total = (_number(figures, "groups_with_both_signs", name) for name in ("kept", "total"))
    return kept / total if kept is not None and total else None


def _which(report: RecipeReport) -> str:
    """The filter and the bound that hit most rollouts; empty where no filter hits any."""
    filters = _node(report.figures, "masked", "by_filter")
    most, text = 0.0, ""
    for entry in filters if isinstance(filters, list) else []:
        for side, word in (("low", "lower"), ("high", "upper")):
            hits = _number(entry, f"rollouts_{side}") if isinstance(entry, dict) else None
            if isinstance(entry, dict) and hits is not None and hits > most:
                most, text = hits, f"; what hits most rollouts is the {word} bound of {entry['name']}"
    return text
