"""The report as JSON: schema ``iscope.report``, and errors as ``iscope.error``."""

from __future__ import annotations

import json
import re
from typing import Any

from iscope.errors import IscopeError
from iscope.model import Report

ERROR_SCHEMA = {"name": "iscope.error", "version": 1}
_KINDS = {1: "gate", 2: "usage", 3: "data", 130: "interrupted"}
_SURROGATE = re.compile("[\ud800-\udfff]")


def render(report: Report, *, width: int = 100, verbose: bool = False, color: bool = False) -> str:  # noqa: ARG001
    """Return the report as indented JSON; the other arguments change nothing: it always holds everything."""
    return document(report.to_dict())


def error_json(error: BaseException, exit_code: int | None = None, message: str | None = None) -> str:
    """Return an error as a JSON document.

    Args:
        error: what went wrong.
        exit_code: the exit code of the process; the error's own by default, 4 (internal) where it has none.
        message: what to say; the error's own words by default.
    """
    own = error.exit_code if isinstance(error, IscopeError) else 4
    code = own if exit_code is None else exit_code
    body = {
        "kind": _KINDS.get(code, "internal"),
        "message": str(error) if message is None else message,
        "exit_code": code,
    }
    return document({"schema": ERROR_SCHEMA, "error": body})


def document(content: Any) -> str:
    """Return a document of JSON values as indented text that UTF-8 can hold."""
    text = json.dumps(content, allow_nan=False, indent=2, ensure_ascii=False) + "\n"
    # Paths that are not UTF-8 reach Python as lone surrogates, which UTF-8 cannot hold but a JSON escape can.
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
