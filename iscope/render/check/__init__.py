"""The result of a check -> text: one module per format, named in a table and imported on use."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from iscope.model.check import CheckResult
from iscope.render import check_format

RENDERERS = {
    "terminal": "iscope.render.check.terminal",
    "json": "iscope.render.check.json",
    "markdown": "iscope.render.check.markdown",
    "junit": "iscope.render.check.junit",
    "github": "iscope.render.check.github",
}
EXTENSIONS = {".txt": "terminal", ".json": "json", ".md": "markdown", ".xml": "junit"}
Renderer = Callable[..., str]


def check_renderer(name: str) -> Renderer:
    """Return the renderer of a format: a function of a ``CheckResult``, and of ``width``, ``verbose`` and ``color``.

    Raises:
        UsageError: when there is no such format.
    """
    check_format(name, RENDERERS)
    render: Renderer = importlib.import_module(RENDERERS[name]).render
    return render


def verdict_line(result: CheckResult) -> str:
    """Return the verdict as one line, its word first."""
    return f"CHECK {result.word}: {result.message}"
