"""The errors a user can meet, each with the exit code the command line returns for it."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable

# Secrets that a library may quote in what it says of a failure.
_SECRET_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
)
# As text: re compiles a pattern when it is first used, which most commands never do.
# A user and password before the host. A password that was not percent-encoded may hold a slash; "host:8000/" is none.
_WEB_USER = r"(?i)(https?://)(?:[^\s/?#@]*@|(?![^\s/?#]*:\d{1,5}/)[^\s?#/]*:[^\s?#]*@)"
_STORE_USER = r"(?i)((?!https?:)\b[a-z][a-z0-9+.-]*://)(?:[^\s/?#@]*@|[^\s?#]*:[^\s?#]*@)"
_QUERY = r"(?i)(\b[a-z][a-z0-9+.-]*://[^\s?#]*[?#])\S*[=&](?:\S*[^\s'\")>,;:.])?"


class IscopeError(Exception):
    """Base of every error iscope raises on purpose: one clear sentence, no traceback needed."""

    exit_code = 4

    def __init__(self, message: object = "") -> None:
        """Take the sentence; credentials of URLs in it are left out."""
        super().__init__(redacted(str(message)))


class UsageError(IscopeError):
    """A command, recipe, option or setting that cannot be carried out as written."""

    exit_code = 2


class DataError(IscopeError):
    """A dump that cannot be used as it is."""

    exit_code = 3


class GateFailure(IscopeError, AssertionError):  # noqa: N818 - a test that fails is no error of the test
    """A gate that failed: what ``CheckResult.raise_for_failures`` raises."""

    exit_code = 1


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest known word, or an empty string."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def redacted(text: str) -> str:
    """Return a text without the credentials of URLs in it: users, passwords, query strings; and without the keys set.

    In doubt too much is left out. The keys are those that the usual environment variables hold.
    """
    if "://" in text:
        for pattern in (_WEB_USER, _STORE_USER):
            text = re.sub(pattern, r"\1", text)
        text = re.sub(_QUERY, r"\1...", text)
    for name in _SECRET_VARIABLES:
        value = os.environ.get(name, "")
        if len(value) >= 8:
            text = text.replace(value, "***")
    return text
