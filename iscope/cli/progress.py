"""Progress on the standard error, for people: never on a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tick = Callable[[int, int], None]


@contextmanager
def progress(*, quiet: bool) -> Iterator[Tick | None]:
    """Yield a callback for the rollouts and tokens of each batch that is done, None where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # here, so that --help need not wait for it
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("opening the dump")
        done = [0, 0]

        def tick(rollouts: int, tokens: int) -> None:
            done[:] = done[0] + rollouts, done[1] + tokens
            bar.update(task, description=f"{done[0]:,} rollouts, {done[1]:,} tokens read")

        yield tick
