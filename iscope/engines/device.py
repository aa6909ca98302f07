"""The device that tokens are measured on: the CPU, or a GPU on which every thread has a stream of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from iscope.errors import UsageError, did_you_mean

CPU = torch.device("cpu")
DEVICES = ("auto", "cpu", "cuda")

# A batch takes a GPU some thousand short kernels whatever its size; on a CPU it should fit into the caches.
_BATCH_TOKENS = {"cpu": 2**20, "cuda": 2**22}
# Four threads with a batch each need about half of it.
_FREE_BYTES = 16 * 2**30


def device_of(name: str) -> torch.device:
    """Return the device that ``auto``, ``cpu`` or ``cuda`` names: ``auto`` is a GPU that has memory left, else the CPU.

    Raises:
        UsageError: when it is none of these, or there is no GPU that torch can use.
    """
    if name not in DEVICES:
        raise UsageError(f"The device must be auto, cpu or cuda, not {name!r}.{did_you_mean(str(name), DEVICES)}")
    if name == "cuda" and not torch.cuda.is_available():
        why = "is built without CUDA" if torch.version.cuda is None else "finds no GPU"
        raise UsageError(f"The device cuda cannot be used: torch {torch.__version__} {why}; take cpu, or leave it out.")
    if name == "cuda" or (name == "auto" and torch.cuda.is_available() and _has_room()):
        return torch.device("cuda", torch.cuda.current_device())
    return CPU


def _has_room() -> bool:
    """Whether the GPU has memory left, for one that trains has none; the driver is the one to know."""
    try:
        free, _ = torch.cuda.mem_get_info()
    except RuntimeError:
        return False
    return free >= _FREE_BYTES


def batch_tokens(device: torch.device) -> int:
    """Tokens that a batch for a device has at most, unless a single rollout has more."""
    return _BATCH_TOKENS[device.type]


def lane(device: torch.device) -> AbstractContextManager[object]:
    """What a thread works in, so that its copies and kernels do not wait for those of the others."""
    if device.type != "cuda":
        return nullcontext()
    return torch.cuda.stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]


@contextmanager
def enough_memory() -> Iterator[None]:
    """Say in one sentence that a GPU is full.

    Raises:
        UsageError: when it is.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise UsageError("The GPU has too little free memory for this dump: take the device cpu.") from error
