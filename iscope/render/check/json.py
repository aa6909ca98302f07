"""The result of a check as JSON, schema ``iscope.check``."""

from __future__ import annotations

from iscope.model.check import CheckResult
from iscope.render.json import document


def render(result: CheckResult, *, width: int = 100, verbose: bool = False, color: bool = False) -> str:  # noqa: ARG001
    """Return the result as indented JSON; the other arguments change nothing: it always holds everything."""
    return document(result.to_dict())
