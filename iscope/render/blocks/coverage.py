"""What was read, what became of it, and by what."""

from __future__ import annotations

import json
from collections.abc import Mapping

from iscope.model import Coverage, Report
from iscope.render.numbers import count
from iscope.render.strings import clean, elide, prose

_TEXT_LIMIT = 4000


def coverage(found: Coverage) -> list[tuple[str, str]]:
    """Return what was read and what became of it, as labelled sentences."""
    pairs = [
        ("files", count(found.files)),
        (
            "rollouts",
            f"{count(found.rollouts_read)} read: {count(found.rollouts_analyzed)} analyzed, "
            f"{count(found.rollouts_empty)} without a scored token, {count(sum(found.rollouts_excluded.values()))} "
            "excluded",
        ),
        ("excluded", _counts(found.rollouts_excluded)),
        (
            "tokens",
            f"{count(found.tokens_read)} read: {count(found.tokens_loss)} loss tokens, {count(found.tokens_scored)} "
            f"scored, {count(sum(found.tokens_unscored.values()))} unscored",
        ),
        ("unscored", _counts(found.tokens_unscored)),
        *((f"unscored, {clean(side)}", _counts(kinds)) for side, kinds in found.tokens_unscored_by_side.items()),
        ("noted", _counts(found.notes)),
    ]
    return [(name, text) for name, text in pairs if text]


def provenance(report: Report) -> list[tuple[str, str]]:
    """Return versions, files and options."""
    texts = {name: json.dumps(found, ensure_ascii=False, default=str) for name, found in report.provenance.items()}
    return [(elide(clean(name), 80), elide(clean(text), _TEXT_LIMIT)) for name, text in texts.items()]


def _counts(by_reason: Mapping[str, int]) -> str:
    return ", ".join(f"{prose(reason)} {count(n)}" for reason, n in by_reason.items() if n)
