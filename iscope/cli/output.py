"""Where a report goes: the standard output, or a file that is replaced as a whole or not at all."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from iscope.errors import UsageError
from iscope.render import EXTENSIONS, RENDERERS, check_format, format_of

STDOUT = "-"
_FILE_WIDTH = 100


class Target(NamedTuple):
    """Where to write, and in which format.

    Attributes:
        path: the file; None is the standard output.
        format: a name from the table of renderers.
    """

    path: Path | None
    format: str

    @property
    def width(self) -> int:
        """Columns of the page: the terminal's, or 100 in a file."""
        return _FILE_WIDTH if self.path is not None else shutil.get_terminal_size().columns

    @property
    def color(self) -> bool:
        """Whether colours show: on a terminal that has them, unless NO_COLOR is set, or where FORCE_COLOR is."""
        if self.path is not None or os.environ.get("NO_COLOR"):
            return False
        if os.environ.get("FORCE_COLOR"):
            return True
        return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def target(
    output: str,
    format_name: str | None,
    *,
    force: bool,
    inputs: Iterable[str] = (),
    formats: Mapping[str, str] = RENDERERS,
    extensions: Mapping[str, str] = EXTENSIONS,
) -> Target:
    """Decide where a report goes, before any work is done for it.

    Args:
        output: a path, or ``-``.
        format_name: the format asked for; None takes it from the extension.
        force: whether a file may be overwritten.
        inputs: files that are read or written besides, and must not be overwritten at all.
        formats: the formats that there are.
        extensions: what the extension of a file stands for.

    Raises:
        UsageError: when the format is unknown or the file cannot be written there.
    """
    known = None if format_name is None else check_format(format_name, formats)
    if output == STDOUT:
        return Target(None, known or "terminal")
    format_name = known or format_of(output, extensions)
    return Target(writable(output, force=force, inputs=inputs), format_name)


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for JSON, told without parsing it, so that even a usage error can be JSON."""
    formats, outputs = (_values(arguments, *names) for names in (("--format",), ("-o", "--output")))
    if formats:
        return formats[-1] == "json"
    return bool(outputs) and EXTENSIONS.get(PurePath(outputs[-1]).suffix.lower()) == "json"


def writable(output: str, *, force: bool, inputs: Iterable[str] = (), option: str = "-o") -> Path:
    """Return the file of an option, links resolved, before any work is done for it.

    Args:
        output: a path.
        force: whether a file may be overwritten.
        inputs: files that are read or written besides, and must not be overwritten at all.
        option: whose file it is.

    Raises:
        UsageError: when the file cannot be written there.
    """
    from iscope.dump.files import local_output  # here: what prints to the terminal alone does without

    local_output(output, f"{option} {output}")
    path = Path(os.path.realpath(output))
    _check_writable(f"{option} {output}", path, force=force)
    if any(os.path.realpath(name) == str(path) for name in inputs):
        raise UsageError(f"{option} {output}: this file is also used by the command itself; name another one.")
    return path


def write(text: str, where: Target) -> None:
    """Write a report, whole.

    Raises:
        UsageError: when the file system refuses.
    """
    if where.path is None:
        _write_stdout(text, None if where.format == "terminal" else "utf-8")
    else:
        try:
            _write_file(text, where.path)
        except OSError as error:
            raise UsageError(f"-o {where.path}: cannot write it: {error.strerror or error}.") from error


def close_stdout() -> None:
    """Flush the standard output; where its reader has gone, or there is no room, send the rest nowhere."""
    try:
        sys.stdout.flush()
    except OSError:
        _discard_stdout()


def _values(arguments: Sequence[str], *names: str) -> list[str]:
    options = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    found = []
    for position, word in enumerate(options):
        name, equals, value = word.partition("=")
        if word in names:
            found.extend(options[position + 1 : position + 2])
        elif name in names and equals:
            found.append(value)
    return found


def _discard_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_writable(named: str, path: Path, *, force: bool) -> None:
    folder = path.parent
    if path.is_dir():
        raise UsageError(f"{named}: this is a folder; name a file in it.")
    if path.is_file() and not force:
        raise UsageError(f"{named}: the file exists; add --force to overwrite it.")
    if not folder.is_dir():
        raise UsageError(f"{named}: there is no folder {str(folder)!r}; make it first.")
    if not os.access(folder if not path.exists() or path.is_file() else path, os.W_OK):
        raise UsageError(f"{named}: no permission to write there.")


def _write_file(text: str, path: Path) -> None:
    data = text.encode("utf-8", "backslashreplace")
    mode = path.stat().st_mode if path.exists() else None
    if mode is not None and not stat.S_ISREG(mode):  # a device or a pipe is written to, never replaced
        path.write_bytes(data)
        return
    import secrets  # it loads hashing, which no command needs to print

    part = path.parent / f".iscope-{secrets.token_hex(8)}"
    try:
        with part.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            part.chmod(stat.S_IMODE(mode))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _write_stdout(text: str, encoding: str | None) -> None:
    data = text.encode(encoding or sys.stdout.encoding or "utf-8", "replace")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        close_stdout()
    except OSError as error:
        _discard_stdout()
        raise UsageError(f"the standard output cannot be written: {error.strerror or error}.") from error
