"""The errors a user can meet, each with the exit code the command line returns for it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class IscopeError(Exception):
    """Base of every error iscope raises on purpose: one clear sentence, no traceback needed."""

    exit_code = 4


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
