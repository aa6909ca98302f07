"""One Arrow type per column, whatever types the files of a dump give it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from iscope.dump.resolve import is_list
from iscope.dump.schema import IDS, KEY
from iscope.errors import DataError

_TEXT = (*IDS, KEY)


def unify(column: str, kinds: Mapping[str, pa.DataType]) -> pa.DataType:
    """Return the type in which a column is read from every file.

    Args:
        column: its canonical (or carried) name.
        kinds: file to the type it has there.

    Raises:
        DataError: when it is a list in one file and a single value in another.
    """
    if column in _TEXT:
        return pa.large_string()
    if column == "reward":
        return pa.float64()
    found = list(dict.fromkeys(_plain(kind) for kind in kinds.values()))
    lists = [is_list(kind) for kind in found if not pa.types.is_null(kind)]
    if any(lists) and not all(lists):
        named = {is_list(_plain(kind)): (file, kind) for file, kind in kinds.items()}
        (file, kind), (other, other_kind) = named[True], named[False]
        raise DataError(f"{file}: {column} is {kind}, but in {other} it is {other_kind}; read them apart.")
    if len(found) == 1:
        return found[0]
    return _common(found)


def cast(file: str, column: str, array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array in the type agreed on.

    Raises:
        DataError: when a value has no such form.
    """
    if array.type == kind:
        return array
    try:
        return (textual(array) if pa.types.is_large_string(kind) else array).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise DataError(f"{file}: column {column!r} cannot be read as {kind} ({reason}).") from None


def textual(array: pa.Array) -> pa.Array:
    """An array that can be cast to text: UUIDs as they are written, bytes that are no UTF-8 with escapes for those."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if _is_uuid(array.type):
        return pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.large_string())
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    if pa.types.is_fixed_size_binary(array.type):
        return pa.array([None if value is None else value.hex() for value in array.to_pylist()], pa.large_string())
    if _is_bytes(array.type):
        return _decoded(array)
    return _integral(array) if pa.types.is_floating(array.type) else array


def _decoded(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.large_string())
    except pa.ArrowInvalid:
        texts = [None if value is None else value.decode(errors="backslashreplace") for value in array.to_pylist()]
        return pa.array(texts, pa.large_string())


def _is_bytes(kind: pa.DataType) -> bool:
    return any(is_of(kind) for is_of in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view))


def _is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and bool(kind.extension_name == "arrow.uuid")


def _integral(array: pa.Array) -> pa.Array:
    """An id of 7 that a writer stored as 7.0 is still 7."""
    whole = pc.all(pc.equal(pc.floor(array), array)).as_py()
    return array.cast(pa.int64()) if whole else array


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_string_view(kind) or _is_bytes(kind):
        return pa.large_string()
    if _is_uuid(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.large_string()
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type)
    return kind


def _common(kinds: Iterable[pa.DataType]) -> pa.DataType:
    kinds = [pa.large_list(kind.value_type) if is_list(kind) else kind for kind in kinds]
    try:
        schemas = [pa.schema([("", kind)]) for kind in kinds]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowTypeError:
        if all(is_list(kind) for kind in kinds):
            return pa.large_list(_common(_counted(kind.value_type) for kind in kinds))
        return pa.large_string()


def _counted(kind: pa.DataType) -> pa.DataType:
    return pa.uint8() if pa.types.is_boolean(kind) else kind
