"""Functions of the user's: found, called with a view, and what they return checked before anything is made of it."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module, util
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import torch
from torch import Tensor

from iscope.errors import UsageError
from iscope.recipes.model import Function
from iscope.replay.view import EXPONENT_LIMIT, TokenView


def log_weight(view: TokenView, function: Function, *, per_token: bool) -> Tensor:
    """Log of the weights that a function gives, float64 [P] or [N]; none larger than figures can hold.

    Raises:
        UsageError: when the function fails, or returns anything but weights.
    """
    weight = _numbers(view, function, per_token=per_token)
    if bool((weight < 0).any()) or bool(weight.isnan().any()):
        raise UsageError(f"{function.reference} returned a weight of {_worst(weight)}; weights are numbers from 0.")
    return weight.log().clamp_(max=EXPONENT_LIMIT)


def statistic(view: TokenView, function: Function, *, per_token: bool) -> Tensor:
    """What a function gives to be tested, float64 [P] or [N].

    Raises:
        UsageError: when the function fails, or returns anything but such numbers.
    """
    return _numbers(view, function, per_token=per_token)


def loss(view: TokenView, signal: Tensor, weight: Tensor, function: Function) -> tuple[Tensor, Tensor]:
    """The loss of each token and its derivative by the current logprob, float64 [P] each.

    Raises:
        UsageError: when the function fails, or does not return these two.
    """
    found = _call(function, view, signal, weight)
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise UsageError(f"{function.reference} returned {_kind(found)}, not each token's loss and its derivative.")
    parts = [_shaped(part, view.segments.tokens, view, function, "tokens") for part in found]
    if not all(bool(part.isfinite().all()) for part in parts):
        raise UsageError(f"{function.reference} returned a loss or derivative that is not finite.")
    return parts[0], parts[1]


def identity(function: Function) -> str:
    """Return what tells a function from another of its name: a hash of its source, and of the plain values it holds.

    Of a lambda, or without a source, it is of its compiled code. It is the name alone where the function is not there,
    as for a ledger that was measured elsewhere.
    """
    try:
        call = resolve(function.call)
    except UsageError:
        return function.reference
    code = getattr(call, "__code__", None)
    if code is None:
        return function.reference
    try:
        text = inspect.getsource(call).encode()
    except (OSError, TypeError):
        text = b""
    if not text or code.co_name == "<lambda>":  # the source of a lambda is the whole line that it stands in
        text = _compiled(code)
    cells = [cell.cell_contents for cell in getattr(call, "__closure__", None) or ()]
    held = [value for value in cells if value is None or isinstance(value, bool | int | float | str)]
    return hashlib.sha256(text + repr(held).encode()).hexdigest()[:16]


def resolve(call: str | Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that ``module:function`` or ``file.py:function`` names, or the function itself.

    Raises:
        UsageError: when there is none, or its module cannot be imported.
    """
    return _imported(call) if isinstance(call, str) else call


@cache
def _imported(reference: str) -> Callable[..., Any]:
    home, _, name = reference.rpartition(":")
    try:
        module = _from_file(Path(home)) if home.endswith(".py") else import_module(home)
        found: Any = module
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # whatever the code of others raises
        raise UsageError(f"{reference} cannot be imported: {type(error).__name__}: {error}.") from error
    if not callable(found):
        raise UsageError(f"{reference} is no function but {_kind(found)}.")
    function: Callable[..., Any] = found
    return function


@cache
def _from_file(path: Path) -> ModuleType:
    spec = util.spec_from_file_location(f"iscope_own_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _numbers(view: TokenView, function: Function, *, per_token: bool) -> Tensor:
    size, unit = (view.segments.tokens, "tokens") if per_token else (view.segments.rows, "rollouts")
    return _shaped(_part(view, function), size, view, function, unit)


def _part(view: TokenView, function: Function) -> Any:
    """The part of what a function returns that is asked for; the function is called once for a view."""
    found = view.once((function.call, function.arguments), lambda: _call(function, view))
    if function.part == "whole":
        return found
    pair = found if isinstance(found, tuple | list) else (found, None)
    if len(pair) != 2:
        raise UsageError(f"{function.reference} returned {len(pair)} things, not a weight, or a weight and a keep.")
    weight, keep = pair
    if function.part == "weight" or not isinstance(weight, Tensor):
        return weight
    return torch.ones_like(weight, dtype=torch.float64) if keep is None else keep


def _call(function: Function, view: TokenView, *arguments: Any) -> Any:
    call = resolve(function.call)
    try:
        return call(view, *arguments, **dict(function.arguments))
    except Exception as error:  # whatever the code of others raises
        where = view.device.type
        hint = "" if where == "cpu" else f" Its tensors are on the device {where}; take cpu if it cannot use those."
        raise UsageError(f"{function.reference} failed: {type(error).__name__}: {error}.{hint}") from error


def _shaped(values: Any, size: int, view: TokenView, function: Function, unit: str) -> Tensor:
    if not isinstance(values, Tensor):
        raise UsageError(f"{function.reference} returned {_kind(values)}, not a tensor of {size} {unit}.")
    if values.shape != (size,):
        shape = " x ".join(map(str, values.shape)) or "one number"
        raise UsageError(f"{function.reference} returned a tensor of {shape}, not one value for each of {size} {unit}.")
    return values.detach().to(view.device, torch.float64)


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"what is of type {type(value).__name__}"


def _worst(weight: Tensor) -> float:
    return float(weight[weight.isnan() | (weight < 0)][0])


def _compiled(code: CodeType) -> bytes:
    constants = [_compiled(each).hex() if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return repr((code.co_code.hex(), constants, code.co_names)).encode()
