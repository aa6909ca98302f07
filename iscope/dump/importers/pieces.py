"""What importers share: parts of a record, checked, and the sentences for what is wrong with them."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from iscope.errors import DataError

SAME_PROMPT = "{framework} writes no group id: rollouts of one step with the same prompt tokens are taken as a group."


@dataclass(frozen=True)
class Record:
    """One record of a file and where it stands, for errors.

    Attributes:
        path: the file.
        place: ``line 3``.
        values: its fields.
    """

    path: str
    place: str
    values: Mapping[str, Any]

    def wrong(self, message: str) -> DataError:
        """Return the error that says what is wrong with it."""
        return DataError(f"{self.path}: {self.place}: {message}")

    def get(self, name: str) -> Any:
        """Return a field, None where it is missing."""
        return self.values.get(name)

    def tokens(self, name: str) -> Any:
        """Return a field that must be a list (or array [T]) where it is there, None where it is not."""
        value = self.values.get(name)
        if value is None or isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1):
            return value
        raise self.wrong(f"{name!r} must be a list with one value per token.")

    def needed(self, name: str) -> Any:
        """Return a field that must be there and a list."""
        value = self.tokens(name)
        if value is None:
            raise self.wrong(f"there is no {name!r}.")
        return value

    def same_lengths(self, columns: Mapping[str, Any]) -> None:
        """Refuse lists of different lengths; what is None is not looked at."""
        lengths = {name: len(value) for name, value in columns.items() if value is not None}
        first = next(iter(lengths), "")
        for name, length in lengths.items():
            if length != lengths[first]:
                raise self.wrong(f"{name!r} has {length} tokens and {first!r} {lengths[first]}.")

    def count(self, name: str) -> int | None:
        """Return a field that must be a whole number of at least 0 where it is there."""
        value = number(self.values.get(name))
        if value is None:
            return None
        if value < 0 or value != int(value) or value > 2**53:
            raise self.wrong(f"{name!r} must be a number of tokens, not {value!r}.")
        return int(value)


def number(value: Any) -> float | int | None:
    """Return a finite number, of an array or tensor of one value too; None for anything else."""
    if isinstance(value, torch.Tensor):
        value = value.item() if value.numel() == 1 and value.layout is torch.strided else None
    elif isinstance(value, np.ndarray | np.generic):
        value = value.item() if value.size == 1 else None
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < 2**63 else None
    return value if isinstance(value, float) and math.isfinite(value) else None


def number_in(path: str, pattern: str) -> int | None:
    """Return the last number that a pattern finds in a path."""
    found = re.findall(pattern, path)
    return int(found[-1][:18]) if found else None


def same(tokens: Any, *more: Any) -> str | None:
    """Return a short name for a prompt: equal for equal token ids; None without ids."""
    if tokens is None or len(tokens) == 0:
        return None
    text = ",".join(str(token) for token in tokens)
    return hashlib.blake2b(repr((*more, text)).encode(), digest_size=8).hexdigest()


def first_true(mask: Sequence[Any]) -> int:
    """Return the position of the first value that is true, the length where none is."""
    return next((index for index, value in enumerate(mask) if value), len(mask))
