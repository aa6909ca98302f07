"""What a URL says: whose store, where in it, with which credentials; and how its files are called in print."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, unquote

from iscope.errors import UsageError, did_you_mean

SCHEMES = ("s3", "gs", "hf", "https", "http")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# pathlib makes one slash of two.
_PATHLIB = re.compile(rf"({'|'.join(SCHEMES)}):/(?=[^/])")
# In names of object stores ? is a wildcard, unless settings follow.
_SETTINGS = ("region", "endpoint_override", "scheme", "anonymous")
_QUERY = re.compile(rf"\?(?=(?:{'|'.join(_SETTINGS)})=)")


# How the stamp of a file begins of which a store does not tell when it was changed.
UNSTAMPED = "?"


class RemoteName(str):
    """The name of a remote file. As a string it is its URL without credentials and query, fit to be printed.

    Attributes:
        url: the URL in full.
        size: bytes, where a listing has told.
        stamp: what changes when the file does, where a listing has told.
    """

    url: str
    size: int | None
    stamp: str

    def __new__(cls, shown: str, url: str = "", size: int | None = None, stamp: str = "") -> RemoteName:
        """Make a name out of its printed form and its URL."""
        name = super().__new__(cls, shown)
        name.url, name.size, name.stamp = url or shown, size, stamp
        return name


@dataclass(frozen=True)
class Location:
    """A place in a store.

    Attributes:
        scheme: ``s3``, ``gs``, ``hf``, ``https`` or ``http``.
        path: where: bucket and key, repository and path, or host and path.
        user: the user or access key in the URL.
        password: the password or secret key in the URL.
        query: what follows the question mark.
    """

    scheme: str
    path: str
    user: str = ""
    password: str = ""
    query: str = ""

    @property
    def url(self) -> str:
        """The URL in full."""
        user = f"{self.user}{':' if self.password else ''}{self.password}@" if self.user else ""
        return f"{self.scheme}://{user}{self.path}{'?' if self.query else ''}{self.query}"

    @property
    def shown(self) -> str:
        """The URL without credentials and query."""
        return f"{self.scheme}://{self.path}"

    @property
    def settings(self) -> dict[str, str]:
        """The settings of an object store that stand in the query."""
        return dict(parse_qsl(self.query)) if self.scheme in ("s3", "gs") else {}

    def at(self, path: str) -> Location:
        """Return another place in the same store."""
        return replace(self, path=path)


def remote_url(path: str | os.PathLike[str]) -> str | None:
    """Return the URL that a path is; None where it is a local one, which a ``://`` in it alone does not prevent."""
    if isinstance(path, RemoteName):
        return path.url
    text = os.fspath(path)
    if not isinstance(path, str):
        text = _PATHLIB.sub(r"\1://", text, count=1) if _PATHLIB.match(text) else text
    return text if _SCHEME.match(text) and not os.path.lexists(text) else None


def located(url: str) -> Location:
    """Read a URL.

    Raises:
        UsageError: when it is of no scheme that iscope reads, or no such URL.
    """
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found else ""
    if found is None or scheme not in SCHEMES:
        hint = did_you_mean(scheme, SCHEMES)
        raise UsageError(f"{url}: iscope reads {', '.join(f'{name}://' for name in SCHEMES)} and local files.{hint}")
    rest = url[found.end() :]
    if scheme in ("http", "https"):
        rest = rest.partition("#")[0]
        rest, _, query = rest.partition("?")
    else:
        rest, query = _QUERY.split(rest, maxsplit=1) if _QUERY.search(rest) else (rest, "")
    authority, slash, key = rest.partition("/")
    userinfo, _, host = authority.rpartition("@")
    if not host or (":" in host and not _is_port(scheme, host)):
        raise UsageError(
            f"{url}: this is no URL of a dump: it takes {_form(scheme)}; a password in it must be percent-encoded."
        )
    user, _, password = userinfo.partition(":")
    return Location(scheme, f"{host}{slash}{key}", user, password, query)


def credentials(place: Location) -> tuple[str, str]:
    """Return the user and the password of a URL, their percent-encoding undone."""
    return unquote(place.user), unquote(place.password)


def _is_port(scheme: str, host: str) -> bool:
    return scheme in ("http", "https") and bool(re.search(r":\d+$", host))


def _form(scheme: str) -> str:
    return {"hf": "hf://datasets/OWNER/NAME/PATH"}.get(
        scheme, f"{scheme}://{'BUCKET' if scheme in ('s3', 'gs') else 'HOST'}/PATH"
    )
