"""The command line as a whole: its commands, and how every way of ending becomes an exit code."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, NoReturn

import typer

from iscope.cli import output
from iscope.cli.analyze import analyze
from iscope.cli.check import check
from iscope.cli.compare import compare
from iscope.cli.convert import convert
from iscope.cli.explain import explain
from iscope.cli.help import GroupedCommand
from iscope.cli.inspect import inspect
from iscope.cli.map import map_
from iscope.cli.merge import merge
from iscope.cli.options import wants_json
from iscope.cli.recipes import recipes
from iscope.cli.replay import replay
from iscope.cli.report import report
from iscope.errors import IscopeError, redacted
from iscope.render.json import error_json
from iscope.render.strings import prose

INTERRUPTED = 130
INTERNAL = 4

app = typer.Typer(
    name="iscope",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Offline analysis of the trainer/vLLM logprob mismatch of an RL run and of the corrections for it.",
)
app.command("analyze", cls=GroupedCommand, short_help="What a dump shows, and what corrections do to it.")(analyze)
app.command("compare", cls=GroupedCommand, short_help="Which correction at which bounds; two dumps side by side.")(
    compare
)
app.command("check", cls=GroupedCommand, short_help="Gates for CI: exit 1 where a figure is beyond its limit.")(check)
app.command("replay", cls=GroupedCommand, short_help="What one correction does to every token, as Parquet.")(replay)
app.command("inspect", cls=GroupedCommand, short_help="What is in a dump, and what is wrong with it.")(inspect)
app.command("map", cls=GroupedCommand, short_help="One shard of a dump measured, for any scheduler.")(map_)
app.command("merge", cls=GroupedCommand, short_help="The report of a dump from its shards' parts.")(merge)
app.command("report", cls=GroupedCommand, short_help="A saved report in any format, without its dump.")(report)
app.command("explain", cls=GroupedCommand, short_help="A finding: what it means, its causes, what to do.")(explain)
app.command("convert", cls=GroupedCommand, short_help="Any framework's dump as Parquet, sides joined.")(convert)
app.command("recipes", cls=GroupedCommand, short_help="The corrections iscope can replay, or one in full.")(recipes)


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
    json = wants_json(arguments)
    try:
        code = _invoke(arguments or ["--help"])
        return _fail(KeyboardInterrupt("interrupted"), code, json=json) if code == INTERRUPTED else code
    except typer.TyperException as error:
        return _fail(error, error.exit_code, error.format_message(), json=json)
    except IscopeError as error:
        return _fail(error, error.exit_code, json=json)
    except KeyboardInterrupt:
        return _fail(KeyboardInterrupt("interrupted"), INTERRUPTED, json=json)
    except MemoryError as error:
        return _fail(
            error, INTERNAL, "out of memory: analyze fewer files at a time, or use a larger machine.", json=json
        )
    except Exception as error:
        hint = "Run it again with ISCOPE_TRACEBACK=1 to see where."
        return _fail(error, INTERNAL, f"internal error, {type(error).__name__}: {error}. {hint}", json=json)
    finally:
        output.close_stdout()


def _invoke(arguments: Sequence[str]) -> int:
    command = typer.main.get_command(app)
    try:
        code = command.main(list(arguments), prog_name="iscope", standalone_mode=False)
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # the reader of the output has left: not a failure
            return 0
        return int(stop.code or 0)
    return code if isinstance(code, int) else 0


def _fail(error: BaseException, code: int, message: str | None = None, *, json: bool) -> int:
    said = redacted(prose(message if message is not None else error))
    with suppress(OSError):  # the exit code tells it too, where there is no room left for a sentence
        print(f"iscope: error: {said}", file=sys.stderr)
    if os.environ.get("ISCOPE_TRACEBACK"):
        print(redacted("".join(traceback.format_exception(error))), end="", file=sys.stderr)
    if json:
        output.write(error_json(error, code, said), output.Target(None, "json"))
    return code
