"""A ledger as one file: a zip of Parquet tables (rows, histograms, tails, sample, furthest) and a JSON header."""

from __future__ import annotations

import io
import json
import os
import secrets
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from iscope.errors import DataError, UsageError
from iscope.ledger.ledger import Ledger
from iscope.ledger.plan import Plan
from iscope.ledger.sample import Sample
from iscope.ledger.tail import Tails
from iscope.recipes.grammar import parse
from iscope.recipes.model import Recipe
from iscope.recipes.own.check import checked
from iscope.recipes.own.decode import decode
from iscope.recipes.own.encode import to_json
from iscope.recipes.own.where import Where

FORMAT = {"name": "iscope.ledger", "version": 2}
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
                _write(archive, "rows.parquet", _parquet(ledger.rows))
                _write(archive, "trained.parquet", _parquet(ledger.trained))
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
    """Read a ledger.

    Raises:
        DataError: when the file is no ledger, or one of another version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read("header.json"))
            if header.get("format") != FORMAT:
                found = header.get("format")
                raise DataError(f"{path} is a ledger of format {found}, this iscope reads {FORMAT}: measure it again.")
            frames = {
                name: pl.read_parquet(io.BytesIO(archive.read(f"{name}.parquet")))
                for name in ("rows", "trained", "histograms", "tails", "sample", "furthest")
            }
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path} cannot be read as a ledger: {error}.") from error
    return Ledger(
        plan=_plan(header["plan"], _own(path, header["own"])),
        rows=frames["rows"],
        trained=frames["trained"],
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


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
