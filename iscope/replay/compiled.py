"""Loops over tokens as machine code: several quantities of a token in one pass, while other threads run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

# Multiply-add in one rounding; every sum in the order that is written.
EXACT = frozenset({"contract"})
# A sum may be taken in several lanes. How it is split depends on the number of its terms alone: same tokens, same bits.
LANES = frozenset({"contract", "reassoc", "nsz"})


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
        return cast("F", found)

    return compile_


def _kept_if_possible(function: Any) -> None:
    """Go on with a loop that was compiled where a full disk does not let it be kept."""
    save = function._cache.save_overload

    def attempt(*compiled_one: Any) -> None:
        with suppress(OSError):
            save(*compiled_one)

    function._cache.save_overload = attempt
