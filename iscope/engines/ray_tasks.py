"""The Ray engine: units measured as tasks of a Ray cluster, the parts put together where they were asked for."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from iscope import __version__
from iscope.dump.units import Unit, elsewhere
from iscope.engines.in_parts import Failed, measured_singly
from iscope.engines.job import Job
from iscope.engines.local import Progress
from iscope.errors import DataError, IscopeError, UsageError
from iscope.ledger.part import Part

# Tokens of a task: seconds of work, so that starting it and moving its part, some 12 MB at most, do not count.
TASK_TOKENS = 2**25
_PATIENCE = 10.0  # seconds


@dataclass(frozen=True)
class Ray:
    """A Ray cluster.

    Attributes:
        address: of the cluster; None is that of ``RAY_ADDRESS``, the one that ``ray start`` joined this machine to, or
            else one that is started here and ended with the work. A cluster that the process is connected to already is
            used as it is.
        task_tokens: tokens of a task, about; a task is one unit at least.
        cpus: processors that a task asks for, and threads that it takes.
        in_flight: tasks that are submitted at a time; None is twice as many as the cluster can run.
        retries: how often a task is run again whose worker was lost.
        options: further arguments of ``ray.init`` (``runtime_env``, ``num_cpus``, ...).
    """

    address: str | None = None
    task_tokens: int = TASK_TOKENS
    cpus: int = 1
    in_flight: int | None = None
    retries: int = 3
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cannot work.

        Raises:
            UsageError: when Ray is not installed, or a number is too small.
        """
        if importlib.util.find_spec("ray") is None:
            raise UsageError("the ray engine needs Ray, which is not installed here: pip install 'iscope[ray]'.")
        for name, least in (("task_tokens", 1), ("cpus", 1), ("in_flight", 1), ("retries", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name} of the ray engine must be at least {least}, not {value}.")

    def parts(
        self, job: Job, units: Sequence[Unit], progress: Progress | None, *, tolerant: bool
    ) -> Iterator[Part | Failed]:
        """Yield parts as their tasks are done; see ``Engine.parts``."""
        if not units:
            return
        with _connected(self.address, self.options) as ray:
            run = ray.remote(_task).options(num_cpus=self.cpus, max_retries=self.retries, name="iscope")
            shipped = ray.put(_shipped(job))
            waiting, running = deque(_tasks(units, self.task_tokens)), dict[Any, list[Unit]]()
            limit = self.in_flight or 2 * max(int(ray.cluster_resources().get("CPU", 1)) // self.cpus, 1)
            try:
                while waiting or running:
                    while waiting and len(running) < limit:
                        chosen = waiting.popleft()
                        running[run.remote(shipped, chosen, self.cpus, tolerant)] = chosen
                    (done,), _ = ray.wait(list(running), num_returns=1)
                    chosen = running.pop(done)
                    found = _result(ray, done)
                    if isinstance(found, str):  # the worker was lost again and again: by which of its units?
                        if tolerant and len(chosen) > 1:
                            waiting.extend([unit] for unit in chosen)
                            continue
                        found = [_lost(chosen, found, self.retries)]
                    yield from _checked(found, job, tolerant=tolerant)
                    if progress is not None:
                        progress(sum(unit.rows for unit in chosen), sum(unit.tokens for unit in chosen))
            finally:
                for task in running:
                    ray.cancel(task)


def _task(job: Job, units: list[Unit], workers: int, tolerant: bool) -> bytes:
    """Measure units in a worker; what comes back is copied, so that nothing of it stays in the object store."""
    from ray import cloudpickle

    if job.whole.iscope != __version__:
        raise UsageError(f"a Ray worker has iscope {__version__}, not {job.whole.iscope}; install the same everywhere.")
    found: list[Part | Failed]
    try:
        found = [job.measure(units, workers=workers)]
    except DataError as error:
        found = list(measured_singly(job, units, workers)) if tolerant else [Failed(units[0], error)]
    content: bytes = cloudpickle.dumps(found)  # type: ignore[no-untyped-call]
    return content


def _result(ray: Any, task: Any) -> list[Part | Failed] | str:
    """What a task gave, or why its worker was lost."""
    try:
        found: list[Part | Failed] = ray.cloudpickle.loads(ray.get(task))
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, IscopeError):
            raise error.cause from None
        said = str(error.cause).strip().split("\n")[0]
        raise IscopeError(
            f"a task failed on a Ray worker, {type(error.cause).__name__}: {said} (workers need the same iscope)"
        ) from error
    except ray.exceptions.RayError as error:
        return type(error).__name__
    return found


def _checked(found: Sequence[Part | Failed], job: Job, *, tolerant: bool) -> Iterator[Part | Failed]:
    """What a task gave, with the plan of this process: functions of the user's come back as others."""
    for part in found:
        if isinstance(part, Part):
            yield replace(part, ledger=replace(part.ledger, plan=job.plan))
        elif tolerant:
            yield part
        else:
            raise part.error


def _lost(units: Sequence[Unit], why: str, retries: int) -> Failed:
    rows = str(units[0]) if len(units) == 1 else f"one of {len(units):,} units from {units[0]} on"
    return Failed(
        units[0],
        IscopeError(
            f"{rows}: the Ray worker was lost {retries + 1:,} times ({why}); give tasks more memory, or leave such "
            "rows out with --allow-missing."
        ),
    )


def _shipped(job: Job) -> Job:
    """A job as workers need it: other machines may have copies of the files, written at other times."""
    return replace(job, dump=elsewhere(job.dump), units=())


def _tasks(units: Sequence[Unit], tokens: int) -> Iterator[list[Unit]]:
    """Neighbouring units of about so many tokens."""
    chosen: list[Unit] = []
    for unit in units:
        if chosen and sum(one.tokens for one in chosen) + unit.tokens > tokens:
            yield chosen
            chosen = []
        chosen.append(unit)
    if chosen:
        yield chosen


@contextmanager
def _connected(address: str | None, options: Mapping[str, Any]) -> Iterator[Any]:
    """Yield Ray, connected; a connection that was made here is ended."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    import ray

    if ray.is_initialized():
        yield ray
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    named = address or os.environ.get("RAY_ADDRESS") or ""
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if named in ("", "local"):
        quiet["include_dashboard"] = False
    try:
        try:
            _join(ray, address, named, quiet | dict(options))
        finally:
            if threading.current_thread() is threading.main_thread():
                for number, handler in handlers.items():
                    signal.signal(number, handler)
        yield ray
    finally:
        ray.shutdown()


def _join(ray: Any, address: str | None, named: str, options: Mapping[str, Any]) -> None:
    try:
        _reach(named)
        ray.init(address=address, **options)
    except (ConnectionError, OSError) as error:
        said = str(error).strip().split("\n")[0].rstrip(".")
        raise UsageError(f"no Ray cluster answers at {named or 'this machine'} ({said}).") from None
    except SystemExit:  # what Ray makes of SIGTERM meanwhile
        raise KeyboardInterrupt from None


def _reach(address: str) -> None:
    """Try a plain address first: Ray itself tries for minutes before it says that nobody is there."""
    host, colon, port = address.rpartition(":")
    if colon and host and port.isdecimal() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
