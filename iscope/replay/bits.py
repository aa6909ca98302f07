"""Floating-point numbers as integers and back, in compiled loops."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

_INTEGERS: dict[Any, tuple[Any, int]] = {types.float32: (types.int32, 32), types.float64: (types.int64, 64)}


def _bits(context: Any, value: Any) -> Any:  # noqa: ARG001
    integer, width = _INTEGERS[value]
    return integer(value), lambda _, builder, __, args: builder.bitcast(args[0], ir.IntType(width))


def _float64_of(context: Any, bits: Any) -> Any:  # noqa: ARG001
    return types.float64(types.int64), lambda _, builder, __, args: builder.bitcast(args[0], ir.DoubleType())


bits_of: Any = intrinsic(_bits)
"""The bits of a float32 as int32, of a float64 as int64."""

float64_of: Any = intrinsic(_float64_of)
"""The float64 whose bits are an int64."""
