"""Loops over tokens as machine code: several quantities of a token in one pass, while other threads run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import binding
from numba.core import event

F = TypeVar("F", bound=Callable[..., Any])

# Multiply-add in one rounding; every sum in the order that is written.
EXACT = frozenset({"contract"})
# A sum may be taken in several lanes. How it is split depends on the number of its terms alone: same tokens, same bits.
LANES = frozenset({"contract", "reassoc", "nsz"})

_CONFIG: Any = numba.config
# LLVM keeps to half the width of AVX-512 for the sake of processors that slow down under it; those with this do not.
_FULL_WIDTH = "+avx512vbmi2"


def take_full_width() -> None:
    """Let loops use the widest vectors of the machine, unless ``NUMBA_CPU_FEATURES`` says what they may use."""
    try:
        features = binding.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM cannot tell on every machine
        return
    if _CONFIG.CPU_FEATURES is None and _FULL_WIDTH in features.split(","):
        _CONFIG.CPU_FEATURES = f"{features},-prefer-256-bit"


take_full_width()


def compiled(arithmetic: frozenset[str] = EXACT) -> Callable[[F], F]:
    """Compile a function when it is first called, without the interpreter's lock; what comes out is kept on disk.

    Args:
        arithmetic: what the compiler may change in floating-point arithmetic.
    """

    def compile_(function: F) -> F:
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": set(arithmetic)}
        try:
            found = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # no place to keep it that can be written to
            return cast("F", numba.njit(**options)(function))
        _kept_if_possible(found)
        _compiled_anew_with_what_it_calls(found)
        return cast("F", found)

    return compile_


def _kept_if_possible(function: Any) -> None:
    """Go on with a loop that was compiled where a full disk does not let it be kept."""
    save = function._cache.save_overload

    def attempt(*compiled_one: Any) -> None:
        with suppress(OSError):
            save(*compiled_one)

    function._cache.save_overload = attempt


def _compiled_anew_with_what_it_calls(function: Any) -> None:
    """Have what is kept of a loop dated by the files of the loops it calls, too, which are part of it."""
    names = function.py_func.__code__.co_names
    called: list[Any] = [getattr(function.py_func.__globals__.get(name), "_cache", None) for name in names]
    files = [cache._cache_file for cache in called if hasattr(cache, "_cache_file")]  # what cannot be kept has none
    own = function._cache._cache_file
    own._source_stamp = (own._source_stamp, *(file._source_stamp for file in files))


class _Listener(event.Listener):
    """Calls a function when numba begins to compile."""

    def __init__(self, told: Callable[[], None]) -> None:
        self._told = told

    def on_start(self, event: Any) -> None:  # noqa: ARG002 - that there is one is all
        self._told()

    def on_end(self, event: Any) -> None:
        """Nothing is to be said of the end."""


@contextmanager
def compiling(told: Callable[[], None]) -> Iterator[None]:
    """Call a function whenever a loop is compiled meanwhile: not where it was kept from an earlier run."""
    with event.install_listener("numba:compile", _Listener(told)):
        yield


@compiled()
def tokens_of(offsets: Any, row: int) -> Any:
    """The places of the tokens of a segment, from offsets [N + 1], to index with and for nothing else.

    They have no sign: with one, an index may count from the end, and the compiler gathers where it could load.
    """
    return range(np.uint64(offsets[row]), np.uint64(offsets[row + 1]))
