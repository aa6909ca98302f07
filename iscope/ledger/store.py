"""A ledger as one file: a zip of Parquet tables (rows, histograms, tails, sample, furthest) and a JSON header.

Rows are in tables of some columns each, so that neither who writes them nor who reads them needs memory for all.
"""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl

from iscope.errors import DataError, UsageError
from iscope.ledger.ledger import Ledger
from iscope.ledger.plan import Plan
from iscope.ledger.rows import LedgerRows
from iscope.ledger.run import Opened, Run, Section
from iscope.ledger.sample import Sample
from iscope.ledger.tail import Tails
from iscope.recipes.grammar import parse
from iscope.recipes.model import Recipe
from iscope.recipes.own.check import checked
from iscope.recipes.own.decode import decode
from iscope.recipes.own.encode import to_json
from iscope.recipes.own.where import Where

FORMAT = {"name": "iscope.ledger", "version": 3}
# Bytes of columns that are written at a time, rows of a row group, and bytes of rows that are read into memory.
_BLOCK, _GROUP, _LOADED = 2**25, 2**16, 2**23
_EPOCH = (1980, 1, 1, 0, 0, 0)  # zip members carry a time; a fixed one keeps equal ledgers equal byte for byte


def save(ledger: Ledger, path: str | os.PathLike[str], members: Mapping[str, bytes] | None = None) -> None:
    """Write a ledger, whole or not at all.

    Args:
        ledger: the ledger.
        path: the file, which is replaced if it is there.
        members: further contents of the file, by name.

    Raises:
        UsageError: when the file system refuses.
    """
    try:
        _save(ledger, Path(path), members or {})
    except OSError as error:
        raise UsageError(f"{path}: cannot write the ledger: {error.strerror or error}.") from error


def _save(ledger: Ledger, target: Path, members: Mapping[str, bytes]) -> None:
    header = {
        "format": FORMAT,
        "plan": ledger.plan.to_dict(),
        "own": {own.name: to_json(own.row) for own in ledger.plan.recipes if own.row.framework is not None},
        "unscored": ledger.unscored,
        "rounded_positive": ledger.rounded_positive,
    }
    part = target.parent / f".iscope-{secrets.token_hex(8)}"
    try:
        with part.open("xb") as handle:
            with zipfile.ZipFile(handle, "w") as archive:
                _write(archive, "header.json", json.dumps(header, sort_keys=True).encode())
                _write_rows(archive, "rows", ledger.rows)
                _write_rows(archive, "trained", ledger.trained)
                _write(archive, "histograms.parquet", _parquet(pl.DataFrame(ledger.histograms)))
                _write(archive, "tails.parquet", _parquet(_listed(ledger.tails)))
                _write(archive, "sample.parquet", _parquet(ledger.sample.to_frame()))
                _write(archive, "furthest.parquet", _parquet(ledger.furthest.to_frame()))
                for name, content in members.items():
                    _write(archive, name, content)
            handle.flush()
            os.fsync(handle.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> Ledger:
    """Read a ledger; rows that are many stay in the file, and are read from there when they are asked for.

    Raises:
        DataError: when the file is no ledger, or one of another version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read("header.json"))
            if header.get("format") != FORMAT:
                found = header.get("format")
                raise DataError(f"{path} is a ledger of format {found}, this iscope reads {FORMAT}: measure it again.")
            frames = {name: _frame(archive, name) for name in ("histograms", "tails", "sample", "furthest")}
            rows, trained = (_read_rows(path, archive, name) for name in ("rows", "trained"))
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path} cannot be read as a ledger: {error}.") from error
    return Ledger(
        plan=_plan(header["plan"], _own(path, header["own"])),
        rows=rows,
        trained=trained,
        histograms={name: np.array(frames["histograms"][name]) for name in frames["histograms"].columns},
        unscored=header["unscored"],
        rounded_positive=header["rounded_positive"],
        tails={pair: values.to_numpy() for pair, values in zip(*frames["tails"].get_columns(), strict=True)},
        sample=Sample.from_frame(frames["sample"]),
        furthest=Sample.from_frame(frames["furthest"]),
    )


def _own(path: str | os.PathLike[str], data: dict[str, Any]) -> dict[str, Recipe]:
    """The own recipes that the ledger was measured with, as they were then."""
    return {name: checked(decode(Recipe, row, Where(f"{path}: {name}"))) for name, row in data.items()}


def _plan(data: dict[str, Any], own: dict[str, Recipe]) -> Plan:
    specs = zip(data["recipes"], data["named"], data["like"], data["fitted"], strict=True)
    recipes = tuple(
        replace(parse(spec, own), named=named, like=like, fitted=tuple(fitted)) for spec, named, like, fitted in specs
    )
    return Plan(recipes, tuple(data["carry"]), data["precision"], data["unscored"], data["fit"], data["batch"])


def _listed(tails: Tails) -> pl.DataFrame:
    values = [pl.Series(tail) for tail in tails.values()]
    return pl.DataFrame({"pair": list(tails), "log_ratio": values}, schema_overrides={"pair": pl.String})


def _write_rows(archive: zipfile.ZipFile, name: str, rows: LedgerRows) -> None:
    """Write rows as tables of as many columns as fit into memory, one at least."""
    most = max(_BLOCK // max(8 * rows.height, 1), 1)
    for index, columns in enumerate(_by(rows.columns, most)):
        info = zipfile.ZipInfo(f"{name}.{index}.parquet", _EPOCH)
        with archive.open(info, "w", force_zip64=True) as member:
            rows.select(columns).write_parquet(member, row_group_size=_GROUP)


def _by(names: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    for first in range(0, max(len(names), 1), most):
        yield names[first : first + most]


def _read_rows(path: str | os.PathLike[str], archive: zipfile.ZipFile, name: str) -> LedgerRows:
    tables = [info for info in archive.infolist() if re.fullmatch(rf"{name}\.\d+\.parquet", info.filename)]
    tables.sort(key=lambda info: int(info.filename.split(".")[1]))
    if sum(info.file_size for info in tables) <= _LOADED:
        frames = [pl.read_parquet(io.BytesIO(archive.read(info))) for info in tables]
        return LedgerRows.of(pl.concat(frames, how="horizontal"))
    for info in tables:
        with archive.open(info) as member:
            while member.read(_GROUP):  # which checks its sum
                pass
    opened = Opened(open(path, "rb"))  # noqa: SIM115 - for as long as rows are read
    sections = [Section(opened, _start(opened.file, info), info.file_size) for info in tables]
    return LedgerRows([Run(str(path), sections)])


def _start(file: IO[bytes], info: zipfile.ZipInfo) -> int:
    """Where the bytes of a member that is not compressed begin: behind its local header, a name and an extra field.

    Source: APPNOTE 4.3.7 of the ZIP format.
    """
    name, extra = struct.unpack("<HH", os.pread(file.fileno(), 4, info.header_offset + 26))
    return int(info.header_offset + 30 + name + extra)


def _frame(archive: zipfile.ZipFile, name: str) -> pl.DataFrame:
    return pl.read_parquet(io.BytesIO(archive.read(f"{name}.parquet")))


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
