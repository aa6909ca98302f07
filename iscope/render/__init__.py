"""Report -> text: one module per format, named in a table and imported on use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol

from iscope.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from iscope.model import Report

RENDERERS = {
    "terminal": "iscope.render.terminal",
    "json": "iscope.render.json",
    "html": "iscope.render.html",
    "markdown": "iscope.render.markdown",
}
EXTENSIONS = {
    ".txt": "terminal",
    ".json": "json",
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
}


class Renderer(Protocol):
    """What every module of the table offers under the name ``render``."""

    def __call__(self, report: Report, *, width: int = 100, verbose: bool = False, color: bool = False) -> str:
        """Return the report as text that ends in a line feed.

        Args:
            report: what to show.
            width: columns of the page, for formats that have one.
            verbose: show every figure, for formats that choose.
            color: add ANSI colours, for formats that have them.
        """
        ...


def renderer(name: str) -> Renderer:
    """Return the renderer of a format.

    Raises:
        UsageError: when there is no such format.
    """
    check_format(name)
    render: Renderer = importlib.import_module(RENDERERS[name]).render
    return render


def check_format(name: str, formats: Mapping[str, str] = RENDERERS) -> str:
    """Return the name of a format as it came.

    Args:
        name: the format.
        formats: those that there are.

    Raises:
        UsageError: when there is no such format.
    """
    if name not in formats:
        raise UsageError(f"There is no format {name!r}; there are {', '.join(formats)}.{did_you_mean(name, formats)}")
    return name


def format_of(path: str, extensions: Mapping[str, str] = EXTENSIONS) -> str:
    """Return the format that the extension of a path stands for.

    Args:
        path: of the file to be written.
        extensions: what each stands for.

    Raises:
        UsageError: when it stands for none.
    """
    extension = PurePath(path).suffix.lower()
    if extension not in extensions:
        known = ", ".join(extensions)
        raise UsageError(f"The extension of {path!r} names no format: end it in one of {known}, or add --format.")
    return extensions[extension]
