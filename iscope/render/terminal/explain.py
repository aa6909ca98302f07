"""The pages of ``iscope explain`` as plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iscope.analysis.findings.kind import Kind
    from iscope.analysis.levels import Level

_INDENT = "  "


def listing(kinds: Sequence[Kind], levels: Sequence[Level], width: int) -> str:
    """Return one line per kind of finding, and the reference levels."""
    lines = [f"{kind.code}  {kind.title}" for kind in kinds]
    lines += ["", "Healthy levels of k3, trainer over inference, nats per token (yours: --healthy-k3):"]
    for level in levels:
        text = f"{level.stack}: up to {level.k3:g}. {level.text} ({level.source})"
        lines += _wrap(text, width, 2 * _INDENT)
    return "\n".join([*lines, "", "iscope explain CODE says what one means and what to do."]) + "\n"


def page(kind: Kind, width: int) -> str:
    """Return everything about one kind of finding."""
    parts = [
        ("What the dump shows", [kind.meaning]),
        ("Usual causes", [f"- {cause}" for cause in kind.consistent_with]),
        ("No evidence of", [kind.no_evidence_of]),
        ("What to do", [kind.action]),
        ("How it is found", [kind.method]),
        ("Sources", [f"- {source}" for source in kind.sources]),
    ]
    lines = [f"{kind.code} {kind.title}"]
    for title, paragraphs in parts:
        lines += ["", title]
        for text in paragraphs:
            hanging = 2 * _INDENT if text.startswith("- ") else _INDENT
            lines += _wrap(text, width, hanging)
    return "\n".join(lines) + "\n"


def _wrap(text: str, width: int, hanging: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=_INDENT, subsequent_indent=hanging, break_on_hyphens=False, break_long_words=False
    )
