"""JSON lines of the canonical columns, or of the names that frameworks give them: one rollout a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from iscope.dump.importers.formats import Rows
from iscope.dump.importers.kinds import is_known


def recognises(record: Mapping[str, Any]) -> bool:
    """Return whether a record has a list under a name that means something."""
    return any(is_known(name) and isinstance(value, list) for name, value in record.items())


def rollouts(records: Iterator[tuple[str, dict[str, Any]]], path: str, say: Callable[[str], None]) -> Rows:  # noqa: ARG001 - one signature for all formats
    """Yield the records as they are."""
    yield from records
