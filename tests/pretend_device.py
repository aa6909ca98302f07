"""A pretend CUDA device: tensors that live in the CPU's memory and behave, for what mixes worlds, as CUDA's do.

Inside ``pretend_device()``:

- a factory with ``device="cuda"``, and ``.to("cuda")``, give pretend tensors; so does every operation on them;
- ``.device`` of a pretend tensor is ``cuda``; ``.cpu()`` and ``.to("cpu")`` bring it home;
- NumPy cannot read a pretend tensor;
- an operation on a pretend tensor and on one of the CPU with more than one number raises, as it would on a GPU.

Code that passes is pure: it moves its tensors on purpose only. The arithmetic is the CPU's, so what a GPU rounds
otherwise, and whether its kernels take these arguments, it does not show.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

CUDA = torch.device("cuda", 0)
_INTO_NUMPY = {Tensor.numpy, Tensor.__array__}


class PretendTensor(Tensor):
    """A tensor of the pretend device; its results are plain tensors again unless the mode below wraps them."""

    __torch_function__ = torch._C._disabled_torch_function_impl


class _Pretend(TorchFunctionMode):
    """Sees every call of torch in its thread."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        found = list(_tensors([args, kwargs]))
        there = any(isinstance(one, PretendTensor) for one in found)
        if func == Tensor.device.__get__:
            return CUDA if there else func(*args)
        if func == Tensor.is_cuda.__get__:
            return there
        if there and func in _INTO_NUMPY:
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")
        if func is Tensor.cpu:
            return _plain(args[0])
        if func is Tensor.pin_memory:
            return args[0]
        if func is Tensor.to:
            return _moved(args[0], args[1:], kwargs)
        if there and any(not isinstance(one, PretendTensor) and one.dim() for one in found):
            raise RuntimeError(f"{func.__name__}: expected all tensors on one device, found cuda:0 and cpu.")
        if kwargs.get("device") is not None:
            there = torch.device(kwargs["device"]).type == "cuda"
            kwargs["device"] = "cpu"
        result = func(*args, **kwargs)
        return _wrapped(result) if there else result


@contextmanager
def pretend_device() -> Iterator[torch.device]:
    """Have a pretend CUDA device in this thread."""
    with _Pretend():
        yield CUDA


def _moved(values: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    there = isinstance(values, PretendTensor)
    target = kwargs.pop("device", None)
    rest = []
    for argument in args:
        if isinstance(argument, torch.device | str):
            target = argument
        else:
            rest.append(argument)
    kwargs.pop("non_blocking", None)
    plain = _plain(values)
    result = plain.to(*rest, **kwargs) if rest or kwargs else plain
    if target is not None:
        there = torch.device(target).type == "cuda"
    return _wrapped(result) if there else result


def _plain(values: Tensor) -> Tensor:
    return values.as_subclass(Tensor) if isinstance(values, PretendTensor) else values


def _wrapped(result: Any) -> Any:
    if isinstance(result, PretendTensor):
        return result
    if isinstance(result, Tensor):
        return result.as_subclass(PretendTensor)
    if type(result) in (list, tuple) or hasattr(result, "n_sequence_fields"):
        return type(result)([_wrapped(one) for one in result])
    return iter([_wrapped(one) for one in result]) if isinstance(result, Iterator) else result


def _tensors(values: Any) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, dict):
        yield from _tensors(list(values.values()))
    elif isinstance(values, list | tuple):
        for one in values:
            yield from _tensors(one)
