"""``iscope explain``: what a finding means, what causes it, and what to do."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from iscope.analysis.findings import kind_of, kinds
from iscope.analysis.levels import REFERENCE
from iscope.render.terminal.explain import listing, page

if TYPE_CHECKING:
    from iscope.analysis.findings.kind import Kind

_SCHEMA = {"name": "iscope.findings", "version": 1}
_WIDTH = 100


def explain(
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE",
            show_default=False,
            help="A finding's code, such as IS003. Left out: every kind of finding, and the reference levels.",
        ),
    ] = None,
    format_: Annotated[Literal["terminal", "json"], typer.Option("--format", help="How to print it.")] = "terminal",
) -> None:
    """Explain a finding: what a dump that has it shows, what usually causes it, and what to do."""
    found = kinds() if code is None else [kind_of(code)]
    if format_ == "json":
        document: dict[str, Any] = {"schema": _SCHEMA, "findings": [_json(one) for one in found]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    sys.stdout.write(listing(found, REFERENCE, _WIDTH) if code is None else page(found[0], _WIDTH))


def _json(one: Kind) -> dict[str, Any]:
    return {
        "code": one.code,
        "title": one.title,
        "meaning": one.meaning,
        "consistent_with": list(one.consistent_with),
        "no_evidence_of": one.no_evidence_of,
        "action": one.action,
        "method": one.method,
        "sources": list(one.sources),
    }
