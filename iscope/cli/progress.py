"""Progress on the standard error, for people: never on a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

Tick = Callable[[int, int], None]


@contextmanager
def progress(*, quiet: bool, files: Sequence[str] = ()) -> Iterator[Tick | None]:
    """Yield a callback for the rollouts and tokens of each batch that is done, None where nobody watches.

    Args:
        quiet: whether nobody wants to watch.
        files: what is read, one side of dumps with several; the time left is told by their rollouts.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # here, so that --help need not wait for it
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from iscope.replay.compiled import compiling

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    left = TimeRemainingColumn(compact=True)
    with Progress(*columns, left, console=Console(stderr=True), transient=True) as bar:
        total = _rollouts(files)
        task = bar.add_task("opening the dump", total=total)
        done, started = [0, 0], time.monotonic()

        def tick(rollouts: int, tokens: int) -> None:
            done[:] = done[0] + rollouts, done[1] + tokens
            bar.update(task, completed=done[0], description=_described(done, total, time.monotonic() - started))

        def compile_() -> None:
            bar.update(task, description="compiling loops for this machine, once")

        with compiling(compile_):
            yield tick


def _described(done: Sequence[int], total: int | None, seconds: float) -> str:
    """Rollouts and tokens that were read, of how many rollouts, and how fast."""
    of = f" of {total:,}" if total is not None and done[0] <= total else ""
    speed = f", {done[1] / seconds / 1e6:.1f}M tokens/s" if seconds > 0 else ""
    return f"{done[0]:,}{of} rollouts, {done[1]:,} tokens read{speed}"


def _rollouts(files: Sequence[str]) -> int | None:
    """Rows in the footers of the files; None where they cannot be told, which is for the reader to complain about."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from iscope.dump.files import expand, is_remote
    from iscope.errors import IscopeError

    if any(map(is_remote, files)):  # their footers are read once, by whoever needs them
        return None
    try:
        paths = [path for name in files for path in expand(name)]
        return sum(pq.read_metadata(path).num_rows for path in paths) or None
    except (IscopeError, pa.ArrowException, OSError):
        return None
