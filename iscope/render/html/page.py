"""The page as one file: templates, style, scripts and plotly.js, and the policy that lets it load nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

_SCRIPT_END = re.compile("</(script|style)", re.IGNORECASE)
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# Characters that could end the script, open a comment in it, or end a line of it.
_UNSAFE = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"})


# Long words are recipes and paths: they may be broken after these marks, rather than anywhere.
_LONG_WORD = re.compile(r"(\S{12,})")
_MARKS = re.compile(r"(?<=[,:=/])(?=\w)")


def breakable(text: str) -> Markup:
    """Return a text, escaped, that says where its long words may be broken."""
    # The pieces between long words come first, third, ...
    pieces = [_MARKS.split(piece) if place % 2 else [piece] for place, piece in enumerate(_LONG_WORD.split(text))]
    return Markup("").join(Markup("<wbr>").join(map(escape, parts)) for parts in pieces)


def script_json(value: Any) -> Markup:
    """Return a value as JSON that is safe inside a script element, whatever strings it holds."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return Markup(text.translate(_UNSAFE))


def render_page(context: dict[str, Any]) -> str:
    """Return the page; every string of the context is escaped."""
    scripts = {"theme_js": _static("theme.js"), "plotly_js": _plotly(), "report_js": _static("report.js")}
    own = {name: Markup(text) for name, text in (scripts | {"css": _static("report.css")}).items()}
    page = (
        environment().get_template("report.html").render(**context, **own, policy=_policy(*scripts.values())).lstrip()
    )
    # Paths that are not UTF-8 reach Python as lone surrogates, which no file can hold.
    return LONE_SURROGATE.sub("\ufffd", page)


@cache
def environment() -> Environment:
    """Return the templates; whatever they print is escaped."""
    loader = PackageLoader("iscope.render.html", "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {"script_json": script_json, "breakable": breakable}
    return made


@cache
def _static(name: str) -> str:
    text = (files("iscope.render.html") / "static" / name).read_text(encoding="utf-8")
    return text.strip()


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    # A browser reads CRLF as LF before it hashes a script.
    text: str = get_plotlyjs().replace("\r\n", "\n").replace("\r", "\n")
    if _SCRIPT_END.search(text):
        raise ValueError("this version of plotly.js cannot be put into a page: it holds the end of a script")
    return text


@cache
def _policy(*scripts: str) -> str:
    """Only the page's own scripts run, by their hashes, and nothing is loaded."""
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"
