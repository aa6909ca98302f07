"""What a pickle would build, told from its opcodes before any of it is built."""

from __future__ import annotations

import pickle
import pickletools
from collections.abc import Container
from mmap import mmap

from iscope.errors import DataError

# Python objects that a dump may take beyond its tensors, in bytes.
MAX_OBJECTS = 768 << 20
_COSTS = {
    **dict.fromkeys((pickle.EMPTY_DICT, pickle.EMPTY_LIST, pickle.EMPTY_SET, pickle.LIST, pickle.DICT), 100),
    **dict.fromkeys((pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.FROZENSET), 80),
    **dict.fromkeys((pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE), 110),
    **dict.fromkeys((pickle.REDUCE, pickle.NEWOBJ, pickle.NEWOBJ_EX, pickle.BUILD, pickle.MARK), 100),
    **dict.fromkeys((pickle.GLOBAL, pickle.STACK_GLOBAL, pickle.BINPERSID), 150),
    **dict.fromkeys((pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.BININT1, pickle.BINGET), 18),
}
# Opcodes that no pickle of plain data has: old classes, the extension registry, buffers beside the stream, protocol 0.
_REFUSED = {pickle.INST, pickle.OBJ, pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.PERSID, pickle.PUT}
_REFUSED |= {pickle.NEXT_BUFFER, pickle.READONLY_BUFFER}
_OTHER = 44


def _table() -> list[tuple[int, int, bool]]:
    """For each byte: the length of its argument (negative: how it is told), its cost, whether it may be there."""
    table = [(0, 0, False)] * 256
    for code in pickletools.opcodes:
        byte = code.code.encode("latin-1")
        length = 0 if code.arg is None else code.arg.n
        table[byte[0]] = (length, _COSTS.get(byte, _OTHER), byte not in _REFUSED)
    return table


_TABLE = _table()
_PREFIX = {pickletools.TAKEN_FROM_ARGUMENT1: 1, pickletools.TAKEN_FROM_ARGUMENT4: 4}
_PREFIX |= {pickletools.TAKEN_FROM_ARGUMENT4U: 4, pickletools.TAKEN_FROM_ARGUMENT8U: 8}
_STOP, _GLOBAL = pickle.STOP[0], pickle.GLOBAL[0]
_PUTS = {pickle.BINPUT[0], pickle.LONG_BINPUT[0]}
_FRAME = pickle.FRAME[0]
_BYTES = {pickle.BINBYTES[0], pickle.BINBYTES8[0], pickle.BYTEARRAY8[0], pickle.SHORT_BINBYTES[0]}


def scan(data: bytes | mmap, path: str, allowed: Container[str] | None = None) -> None:
    """Refuse a pickle that is cut off, claims lengths that are not there, or would build too much.

    Args:
        data: the pickle.
        path: the file it comes from, for errors.
        allowed: the globals, as ``module name``, that it may name; None leaves them to the unpickler.

    Raises:
        DataError: when it is refused.
    """
    end, at, spent, puts = len(data), 0, 0, 0
    while at < end:
        code, start = data[at], at + 1
        length, cost, known = _TABLE[code]
        if not known:
            raise _refused(path, f"its byte {at} is no instruction that a dump needs")
        at = _end_of(data, code, start, length)
        claimed = int.from_bytes(data[start:at], "little") if code == _FRAME else 0
        if not start <= at <= end - claimed:
            raise _refused(path, "it is cut off, or claims more than the file holds")
        if code == _STOP:
            return
        spent += cost if length >= 0 or code in _BYTES else cost + 4 * (at - start)
        if spent > MAX_OBJECTS:
            raise _refused(path, f"it would build more than {MAX_OBJECTS >> 20} MiB of objects beside its tensors")
        if code in _PUTS:
            puts += 1
            if int.from_bytes(data[start:at], "little") > 2 * puts + 1024:
                raise _refused(path, "its memo has gaps")
        elif code == _GLOBAL and allowed is not None:
            name = data[start : at - 1].decode("utf-8", "replace").replace("\n", " ")
            if name not in allowed:
                raise _refused(path, f"it asks for {name.replace(' ', '.')!r}, which no dump needs")
    raise _refused(path, "it is cut off")


def _end_of(data: bytes | mmap, code: int, start: int, length: int) -> int:
    """Return where the argument that begins at ``start`` ends; before ``start`` where it does not."""
    if length >= 0:
        return start + length
    if length != pickletools.UP_TO_NEWLINE:
        size = _PREFIX[length]
        return start + size + int.from_bytes(data[start : start + size], "little")
    end = data.find(b"\n", start) + 1
    return data.find(b"\n", end) + 1 if code == _GLOBAL and end else end


def _refused(path: str, reason: str) -> DataError:
    return DataError(f"{path}: it was not unpickled, since {reason}.")
