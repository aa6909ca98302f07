"""Padded batches of [N, T] arrays as rollouts without their padding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from iscope.dump.importers.loaded import array_of
from iscope.errors import DataError

Array = np.ndarray[Any, Any]


def matrix(content: Mapping[str, Any], name: str, path: str, rows: int | None = None) -> Array | None:
    """Return a field as an array [N, T]; None where it is missing.

    Raises:
        DataError: when it is of another shape, or has other than ``rows`` rows.
    """
    if content.get(name) is None:
        return None
    found = array_of(content[name], path, name)
    if found.ndim != 2 or (rows is not None and len(found) != rows):
        raise DataError(f"{path}: {name!r} is {list(found.shape)}, not [rollouts, tokens] of one batch.")
    return found


def spans(present: Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return int64 [N] twice: the first position that is present in each row of [N, T], and the one after the last."""
    there = present != 0
    some = there.any(axis=1)
    width = present.shape[1]
    if not width:
        return np.zeros(len(present), np.int64), np.zeros(len(present), np.int64)
    first = np.where(some, there.argmax(axis=1), 0).astype(np.int64)
    last = np.where(some, width - there[:, ::-1].argmax(axis=1), 0).astype(np.int64)
    return first, last


def sliced(columns: Mapping[str, Array | None], present: Array, path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each row of padded columns between the first and the last position that is present.

    Args:
        columns: arrays [N, T], or [N] for values of rollouts.
        present: [N, T], not zero where there is a token.
        path: the file.

    Raises:
        DataError: when shapes disagree.
    """
    for name, array in columns.items():
        if array is not None and array.shape not in (present.shape, present.shape[:1]):
            raise DataError(
                f"{path}: {name!r} is {list(array.shape)}, but the mask is {list(present.shape)}: pad them alike."
            )
    first, last = spans(present)
    for row in range(len(present)):
        cut = slice(int(first[row]), int(last[row]))
        yield (
            row,
            {
                name: None if array is None else array[row, cut] if array.ndim == 2 else array[row]
                for name, array in columns.items()
            },
        )
