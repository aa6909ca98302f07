"""Writers that are open when their process is asked to end: closed first, so that what they hold is not lost."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import weakref
from types import FrameType
from typing import Protocol


class Closing(Protocol):
    """Something that holds data until it is closed."""

    busy: bool

    def close(self) -> None:
        """Write what is held."""


_open: weakref.WeakSet[Closing] = weakref.WeakSet()
_state = {"pid": 0, "ending": 0}


def watch(writer: Closing) -> None:
    """Close a writer when the interpreter ends, or when SIGTERM is to end it and nobody else handles that.

    A process that forked off keeps its parent's writers alone.
    """
    if _state["pid"] != os.getpid():
        _open.clear()
        _state.update(pid=os.getpid(), ending=0)
        atexit.register(_close_all)
    _open.add(writer)
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminated)


def end_if_asked() -> None:
    """End the process now if SIGTERM came while a writer was busy."""
    if _state["ending"] and not any(writer.busy for writer in _open):
        _end()


def _terminated(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
    _state["ending"] = 1
    if not any(writer.busy for writer in _open):
        _end()


def _end() -> None:
    """Close the writers and end as SIGTERM ends a process, so that whoever sent it sees what it expects."""
    _close_all()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _close_all() -> None:
    if _state["pid"] == os.getpid():
        for writer in list(_open):
            writer.close()
