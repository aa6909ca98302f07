"""The command line as a whole: its commands, and how every way of ending becomes an exit code."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, NoReturn

import typer

from iscope.cli import output
from iscope.cli.commands import CATALOGUE, Commands, function, register
from iscope.errors import IscopeError, redacted
from iscope.render.strings import prose

INTERRUPTED = 130
USAGE, INTERNAL = 2, 4
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

app = typer.Typer(
    name="iscope",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Offline analysis of the trainer/vLLM logprob mismatch of an RL run and of the corrections for it.",
)
register(app)


def _print_version(asked: bool) -> None:
    if asked:
        from iscope import __version__

        print(f"iscope {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> NoReturn:
    """Run the command line and leave the process with its exit code; SIGTERM interrupts it as Ctrl-C does."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command line.

    Args:
        arguments: the words after ``iscope``.

    Returns:
        The exit code: 0 fine, 1 a gate failed, 2 usage, 3 data, 4 internal, 130 interrupted.
    """
    json = output.wants_json(arguments)
    try:
        code = _invoke(arguments or ["--help"])
        return _fail(KeyboardInterrupt("interrupted"), code, json=json) if code == INTERRUPTED else code
    except typer.TyperException as error:
        return _fail(error, error.exit_code, error.format_message(), json=json)
    except IscopeError as error:
        return _fail(error, error.exit_code, json=json)
    except KeyboardInterrupt:
        return _fail(KeyboardInterrupt("interrupted"), INTERRUPTED, json=json)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            return _internal(error, json=json)
        return _fail(error, USAGE, f"what was to be written finds no room: {error.strerror}.", json=json)
    except MemoryError as error:
        return _fail(
            error, INTERNAL, "out of memory: analyze fewer files at a time, or use a larger machine.", json=json
        )
    except Exception as error:
        return _internal(error, json=json)
    finally:
        output.close_stdout()


def _invoke(arguments: Sequence[str]) -> int:
    try:
        if list(arguments) == [CATALOGUE]:
            function(CATALOGUE)()
            return 0
        command = typer.main.get_command(app)
        code = command.main(list(arguments), prog_name="iscope", standalone_mode=False)
    except BrokenPipeError:
        return 0
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # the reader of the output has left: not a failure
            return 0
        return int(stop.code or 0)
    return code if isinstance(code, int) else 0


def _internal(error: Exception, *, json: bool) -> int:
    hint = "Run it again with ISCOPE_TRACEBACK=1 to see where."
    return _fail(error, INTERNAL, f"internal error, {type(error).__name__}: {error}. {hint}", json=json)


def _fail(error: BaseException, code: int, message: str | None = None, *, json: bool) -> int:
    said = redacted(prose(message if message is not None else error))
    with suppress(OSError):  # the exit code tells it too, where there is no room left for a sentence
        print(f"iscope: error: {said}", file=sys.stderr)
    if os.environ.get("ISCOPE_TRACEBACK"):
        print(redacted("".join(traceback.format_exception(error))), end="", file=sys.stderr)
    if json:
        from iscope.render.json import error_json

        with suppress(IscopeError):  # the same
            output.write(error_json(error, code, said), output.Target(None, "json"))
    return code
