"""``iscope analyze --follow``: the report of a run while it is being written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from iscope.cli import output
from iscope.errors import UsageError
from iscope.render import renderer
from iscope.render.numbers import counted

if TYPE_CHECKING:
    from iscope.model import Report

Show = Callable[["Report"], None]


@dataclass(frozen=True)
class Following:
    """How to follow a dump.

    Attributes:
        quiet_for: seconds after which a file that does not change is finished.
        until: the step to end with.
        idle_timeout: seconds without a new file to end after.
    """

    quiet_for: float
    until: int | None
    idle_timeout: float | None


def following(follow: bool, quiet_for: float | None, until: int | None, idle_timeout: float | None) -> Following | None:
    """Return how to follow a dump; None where it is not to be followed.

    Raises:
        UsageError: when an option has no meaning without ``--follow``.
    """
    given = {"--quiet-for": quiet_for, "--follow-until": until, "--idle-timeout": idle_timeout}
    for option, value in given.items():
        if value is not None and not follow:
            raise UsageError(f"{option} goes with --follow.")
        if value is not None and not value >= 0:
            raise UsageError(f"{option} must be 0 or more, not {value}.")
    return Following(5.0 if quiet_for is None else quiet_for, until, idle_timeout) if follow else None


def run(
    dump: list[str], target: output.Target, how: Following, /, *, quiet: bool, verbose: bool, **options: Any
) -> Report:
    """Follow a dump until it ends, or until Ctrl-C; return the last report, which is still to be delivered.

    Meanwhile a terminal shows the report as it is; anything else gets a line for each step on the standard error. A
    report that goes to a file is written anew each time.
    """
    from iscope.following.follow import follow  # torch is imported here, once nothing can be told without it

    report = None
    with _showing(target, quiet=quiet, verbose=verbose) as (show, say):
        reports = follow(
            *dump, **options, quiet_for=how.quiet_for, until=how.until, idle_timeout=how.idle_timeout, say=say
        )
        try:
            for report in reports:
                show(report)
        except KeyboardInterrupt:
            if report is None:
                raise
    assert report is not None, "following ends with a report or with an error"
    return report


@contextmanager
def _showing(target: output.Target, *, quiet: bool, verbose: bool) -> Iterator[tuple[Show, Callable[[str], None]]]:
    if target.path is None and target.format == "terminal" and not quiet and sys.stdout.isatty():
        with _live(target, verbose=verbose) as shown:
            yield shown
        return
    lines = _Lines()
    if not quiet:
        _say("waiting for finished files; Ctrl-C ends with the report")

    def show(report: Report) -> None:
        if target.path is not None:
            page = renderer(target.format)(report, width=target.width, verbose=verbose, color=False)
            output.write(page, target)
        if not quiet:
            lines.show(report)

    yield show, _say


def _say(sentence: str) -> None:
    print(f"iscope: {sentence}", file=sys.stderr, flush=True)


@contextmanager
def _live(target: output.Target, *, verbose: bool) -> Iterator[tuple[Show, Callable[[str], None]]]:
    """The report on a screen of its own, as much of it as fits; what was said comes after it."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    said: list[str] = []
    waiting = Text("waiting for finished files; Ctrl-C ends with the report")
    try:
        with Live(waiting, console=Console(), screen=True, auto_refresh=False, vertical_overflow="crop") as live:

            def show(report: Report) -> None:
                page = renderer("terminal")(report, width=target.width, verbose=verbose, color=target.color)
                head = f"following; {counted(report.coverage.files, 'file')}; Ctrl-C ends with the report\n"
                live.update(Text.from_ansi(head + page), refresh=True)

            yield show, said.append
    finally:
        for sentence in said:
            _say(sentence)


@dataclass
class _Lines:
    """One line for each step, when it is new or has got more rollouts."""

    seen: dict[Any, int] = field(default_factory=dict)

    def show(self, report: Report) -> None:
        """Print the lines that are new."""
        steps: list[Any] = list(report.breakdowns.get("step", ()))
        if not steps:
            covered = report.coverage
            read = f"{counted(covered.files, 'file')}, {counted(covered.rollouts_analyzed, 'rollout')}"
            _say(f"{read}, {_k3(report.mismatch)}")
        for row in steps:
            if self.seen.get(row["value"]) != row["rollouts"]:
                self.seen[row["value"]] = row["rollouts"]
                _say(f"step {row['value']}: {row['rollouts']:,} rollouts, {row['tokens']:,} tokens, {_k3(row)}")


def _k3(figures: Any) -> str:
    k3 = figures["k3"]
    if k3.value is None:
        return f"no k3: {k3.why}"
    return f"k3 {k3.value:.3g} nats per token (trainer over inference, over scored tokens)"
