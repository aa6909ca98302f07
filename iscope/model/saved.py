"""Reading a report that was saved as JSON."""

from __future__ import annotations

import os
from typing import Any

from iscope.errors import DataError
from iscope.model.report import SCHEMA_NAME, SCHEMA_VERSION, Report
from iscope.model.strict_json import loads


def read_report(path: str | os.PathLike[str]) -> Report:
    """Return the report of a JSON file, as ``iscope analyze -o report.json`` writes it.

    Raises:
        DataError: when the file cannot be read, is no JSON, or holds something else than a report of this schema.
    """
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = loads(file.read())
    except OSError as error:
        raise DataError(f"{name}: cannot read it: {error.strerror or error}.") from error
    except ValueError as error:  # neither JSON nor UTF-8
        raise DataError(f"{name}: this is not a report saved as JSON: {error}.") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != {"name": SCHEMA_NAME, "version": SCHEMA_VERSION}:
        raise DataError(f"{name}: {_what(data, schema)}, not of a report that this iscope reads; {_REMEDY}.")
    try:
        return Report.from_dict(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{name}: the report is not whole ({type(error).__name__}: {error}); {_REMEDY}.") from error


_REMEDY = "write one with iscope analyze DUMP -o report.json"


def _what(data: Any, schema: Any) -> str:
    if isinstance(schema, dict) and "name" in schema:
        return f"its schema is {schema.get('name')} version {schema.get('version')}"
    return "it has no schema" if isinstance(data, dict) else "it is JSON"
