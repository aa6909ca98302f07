"""What goes wrong over a network: tried again where that can help, and said in one sentence where it cannot."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from iscope.dump.remote.urls import Location
from iscope.errors import DataError, IscopeError, redacted

T = TypeVar("T")

ATTEMPTS = 5
# Seconds before the second attempt; each further wait is twice as long, and up to half as long again by chance.
FIRST_WAIT = 0.25

_STATUS = re.compile(r"HTTP status (\d{3})")
_AWS_SAYS, _REQUEST = re.compile(r"^When .*?: AWS Error "), re.compile(r"\(Request ID: [^)]*\)$")
_AWS = re.compile(r"AWS Error ([A-Z_]+)")
_NO_BUCKET = re.compile(r"[Bb]ucket '[^']*' not found")
_GOOGLE = re.compile(r"\b(PERMISSION_DENIED|UNAUTHENTICATED)\b")
_MISSING = ("NO_SUCH_KEY", "NO_SUCH_UPLOAD", "RESOURCE_NOT_FOUND")
_DENIED = (
    "ACCESS_DENIED",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "INVALID_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH",
    "INVALID_SIGNATURE",
    "INVALID_CLIENT_TOKEN_ID",
    "MISSING_AUTHENTICATION_TOKEN",
    "UNRECOGNIZED_CLIENT",
    "REQUEST_EXPIRED",
    "OPT_IN_REQUIRED",
)
_AGAIN = (408, 425, 429)
_ELSEWHERE = (301, 307, 400)
_NO_SUCH_RANGE = 416
_HELP = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to a key file, or run gcloud auth application-default login",
    "hf": "set HF_TOKEN, or run hf auth login",
}


class MissingError(DataError):
    """There is nothing at a place."""


class NoBucketError(MissingError):
    """There is no such bucket."""


class ShortReadError(OSError):
    """Fewer bytes came than were asked for."""


class NoRangesError(OSError):
    """More bytes came than were asked for: the server sends whole files only."""


def attempt(place: Location, action: Callable[[], T], going_on: Callable[[], bool] = lambda: True) -> T:
    """Do something over the network, again and again while what fails may pass.

    Args:
        place: what it is about.
        action: what to do.
        going_on: whether the result is still wanted; where it is not, the first failure is the last.

    Raises:
        MissingError: when there is nothing at the place.
        DataError: when access is denied, or the last attempt has failed.
    """
    for tried in range(1, ATTEMPTS + 1):
        try:
            return action()
        except Exception as error:  # libraries of several kinds, each with errors of its own
            said = _hopeless(place, error)
            if said is None and (tried == ATTEMPTS or not going_on()):
                said = DataError(
                    f"{place.shown}: cannot be read over the network, {tried} attempts have failed "
                    f"({_reason(error)}); run this again once the connection is stable, or copy the file here first."
                )
        if said is not None:
            raise said
        time.sleep(FIRST_WAIT * 2 ** (tried - 1) * random.uniform(1.0, 1.5))
    raise AssertionError("every attempt returns or raises")


def _hopeless(place: Location, error: Exception) -> IscopeError | None:
    """What to say of a failure that no further attempt can mend; None where one may."""
    if isinstance(error, IscopeError):
        return error
    chain = list(_chain(error))
    if any(isinstance(item, NoRangesError) for item in chain):
        return DataError(f"{place.shown}: the server sends whole files only, not parts; download the file first.")
    codes = {code for item in chain for code in (*_AWS.findall(str(item)), *_GOOGLE.findall(str(item)))}
    status = next((found for item in chain if (found := _status(item))), None)
    if "NO_SUCH_BUCKET" in codes or _NO_BUCKET.search(str(error)):
        return NoBucketError(f"{place.scheme}://{place.path.partition('/')[0]}: there is no such bucket.")
    if codes.intersection(_DENIED) or status in (401, 403) or isinstance(error, PermissionError):
        return DataError(_denied(place, error, status))
    if codes.intersection(_MISSING) or status in (404, 410) or (status is None and _is_missing(chain)):
        return MissingError(f"{place.shown}: no such file or folder.")
    if status == _NO_SUCH_RANGE:
        return DataError(f"{place.shown}: the file was replaced while it was being read; run this again.")
    if status is not None and 300 <= status < 500 and status not in _AGAIN:
        elsewhere = place.scheme == "s3" and status in _ELSEWHERE
        region = "; the bucket may be in another region: set AWS_REGION" if elsewhere else ""
        return DataError(f"{place.shown}: the request was refused ({_reason(error)}){region}.")
    return None


def _denied(place: Location, error: Exception, status: int | None) -> str:
    how = f"HTTP status {status}" if status else _reason(error)
    help_ = _HELP.get(place.scheme)
    if place.scheme == "s3" and not place.user and not _has_aws_keys():
        return f"{place.shown}: access denied, and no credentials were found: {help_}."
    if help_ is None:
        return f"{place.shown}: access denied ({how}); a link that was signed for a time may have expired."
    return f"{place.shown}: access denied ({how}); check that the credentials in use may read it, or {help_}."


def _has_aws_keys() -> bool:
    named = any(os.environ.get(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ROLE_ARN"))
    file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.expanduser("~/.aws/credentials")
    return named or os.path.exists(file)


def _is_missing(chain: list[BaseException]) -> bool:
    """Whether nothing is there: a FileNotFoundError that does not merely stand for a connection that failed."""
    return isinstance(chain[0], FileNotFoundError) and not any(
        isinstance(item, OSError) or type(item).__module__.startswith("aiohttp") for item in chain[1:]
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _status(error: BaseException) -> int | None:
    found: Any = getattr(error, "status", None) or getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(found, int):
        return found
    named = _STATUS.search(str(error))
    return int(named[1]) if named else None


def _reason(error: Exception) -> str:
    """The root of a failure in a few words."""
    root = list(_chain(error))[-1]
    text = " ".join(str(root).split("\n")[0].split())
    text = _AWS_SAYS.sub("", _REQUEST.sub("", text)).rstrip(". ")
    return redacted(text[:200]) or type(root).__name__
