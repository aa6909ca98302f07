"""Torch files and pickles, opened so that nothing in them runs: plain containers, tensors and numbers, or an error."""

from __future__ import annotations

import io
import mmap
import os
import pickle
import re
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, BinaryIO, NoReturn

import numpy as np
import torch

from iscope.dump.importers.scan import scan
from iscope.dump.remote.file import first_bytes, on_disk
from iscope.errors import DataError

_STORAGES = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
_TORCH_GLOBALS = frozenset(
    (
        *(f"torch {kind}Storage" for kind in _STORAGES),
        "torch._utils _rebuild_tensor_v2",
        "torch.storage UntypedStorage",
        "collections OrderedDict",
        "torch Size",
        "torch device",
    )
)
# Classes of these packages carry settings and metadata beside the tensors; they become empty objects.
_INERT = re.compile(r"(skyrl\w*|verl|tensordict|omegaconf|numpy)(\.|$)")
_SKYRL = (
    "sequences",
    "response_mask",
    "loss_mask",
    "rollout_logprobs",
    "action_log_probs",
    "base_action_log_probs",
    "advantages",
)
_DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")


def load(path: str) -> Mapping[str, Any]:
    """Return the content of a torch file (zip) or of a pickle.

    Raises:
        DataError: when it is damaged, names anything but data, or holds no dictionary.
    """
    try:
        with on_disk(path) as file:
            torch_file = first_bytes(file, 4).startswith(b"PK")
            content = torch_content(file, path) if torch_file else _unpickled(file, path)
    except MemoryError:
        raise DataError(f"{path}: it claims more memory than there is.") from None
    if not isinstance(content, Mapping):
        raise DataError(f"{path}: it holds a {type(content).__name__} and no dictionary; iscope cannot read it.")
    return content


def torch_content(file: str | BinaryIO, path: str) -> Any:
    """Return what ``torch.save`` wrote, read with ``weights_only=True``; the tensors of a file are mapped, not read.

    Args:
        file: a path or an open file.
        path: what errors call it.

    Raises:
        DataError: when it is damaged or names anything but tensors and containers.
    """
    _check_zip(file, path)
    try:
        return torch.load(file, map_location="cpu", weights_only=True, mmap=isinstance(file, str))
    except Exception as error:  # a parser of foreign bytes: whatever it trips over is the file's fault
        raise DataError(f"{path}: it is no torch file that can be read ({_reason(error)}).") from None


def array_of(value: Any, path: str, name: str) -> np.ndarray[Any, Any]:
    """Return a tensor, array or list of numbers as an array; bfloat16 becomes float32.

    Raises:
        DataError: when it is none, or has more values than the file holds.
    """
    if isinstance(value, torch.Tensor):
        value = value.detach()
        if value.layout is not torch.strided or value.device.type != "cpu":
            raise DataError(f"{path}: {name!r} is a {value.layout} tensor on {value.device}, not a plain one.")
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise DataError(f"{path}: {name!r} claims {value.numel()} values, more than the file holds.")
        found: np.ndarray[Any, Any] = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
        return found
    try:
        found = np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise DataError(f"{path}: {name!r} is no array ({_reason(error)}).") from None
    if found.dtype.kind not in "fiub":
        raise DataError(f"{path}: {name!r} holds {found.dtype}, not numbers.")
    return found


def _check_zip(file: str | BinaryIO, path: str) -> None:
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            pickles = [entry for entry in entries if entry.filename.endswith("/data.pkl")]
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries) or len(pickles) != 1:
                raise DataError(f"{path}: it is no file that torch.save wrote: compressed, or without its data.pkl.")
            scan(archive.read(pickles[0]), path, _TORCH_GLOBALS)
    except DataError:
        raise
    except Exception as error:  # a parser of foreign bytes: whatever it trips over is the file's fault
        raise DataError(f"{path}: it is no torch file that can be read ({_reason(error)}).") from None
    if not isinstance(file, str):
        file.seek(0)


def _unpickled(local: str, path: str) -> Any:
    with open(local, "rb") as file:
        if os.fstat(file.fileno()).st_size:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                scan(data, path)
        try:
            return _Restricted(file, path).load()
        except DataError:
            raise
        except Exception as error:  # a parser of foreign bytes: whatever it trips over is the file's fault
            raise DataError(f"{path}: it is no pickle that can be read ({_reason(error)}).") from None


def _inert() -> type:
    """A class made anew for each file, so that none can leave a trace in it."""

    class Inert:
        """Stands for an object that is not needed: takes anything, does nothing."""

        def __init__(self, *args: Any, **options: Any) -> None:
            pass

        def __setstate__(self, state: Any) -> None:
            pass

        def __setitem__(self, key: Any, value: Any) -> None:
            pass

        def append(self, value: Any) -> None:
            pass

    return Inert


class _Restricted(pickle.Unpickler):
    """An unpickler that builds containers, numbers and SkyRL's batch, and refuses every other global."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        super().__init__(file)
        self._path, self._inert = path, _inert()

    def find_class(self, module: str, name: str) -> Any:
        if name == "_rebuild_tensor_batch" and module.startswith("skyrl"):
            return lambda _, state=None: _skyrl_batch(state, self._path)
        if (module, name) == ("collections", "OrderedDict"):
            return lambda *pairs: OrderedDict(*pairs)
        if (module, name) == ("torch", "device"):
            return lambda *_: None
        if _INERT.match(module):
            return self._inert
        asked = f"{module}.{name}"[:100]
        raise DataError(f"{self._path}: it was not unpickled, since it asks for {asked!r}, which no dump needs.")

    def persistent_load(self, pid: Any) -> NoReturn:
        asked = str(pid)[:40]
        raise DataError(f"{self._path}: it was not unpickled, since it refers to {asked!r} outside of it.")


def _skyrl_batch(state: Any, path: str) -> dict[str, Any]:
    """SkyRL's training batch: its tensors as arrays, and its metadata."""
    if not isinstance(state, dict) or not isinstance(state.get("batch_dict"), dict):
        raise DataError(f"{path}: its training batch has no 'batch_dict'.")
    fields = state["batch_dict"]
    arrays = {name: _skyrl_tensor(fields.get(name), path, name) for name in _SKYRL}
    return {**arrays, "metadata": state.get("metadata"), "skyrl training batch": True}


def _skyrl_tensor(value: Any, path: str, name: str) -> Any:
    if not isinstance(value, dict) or not isinstance(value.get("data"), bytes):
        return None
    if value.get("format") == "torch":
        return array_of(torch_content(io.BytesIO(value["data"]), path), path, name)
    dtype = str(value.get("dtype")).removeprefix("torch.")
    if dtype not in _DTYPES:
        raise DataError(f"{path}: {name!r} is of type {dtype!r}, which iscope does not read.")
    try:
        return np.frombuffer(value["data"], np.dtype(dtype)).reshape(value.get("shape"))
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: {name!r} does not hold what it claims ({_reason(error)}).") from None


def _reason(error: BaseException) -> str:
    text = str(error).strip().split("\n")[0].rstrip(".")
    return (text[:160] or type(error).__name__) if not isinstance(error, RecursionError) else "nested too deeply"
