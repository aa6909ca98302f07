"""A part: what some units of a dump add to its ledger, in a file of its own."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from iscope.dump.record import Record
from iscope.dump.supplied import Supplied
from iscope.dump.tally import Tally
from iscope.errors import DataError
from iscope.ledger import store
from iscope.ledger.ledger import Ledger

FORMAT = {"name": "iscope.part", "version": 1}
_ABOUT, _SUPPLIED = "part.json", "supplied.npz"


@dataclass(frozen=True)
class Whole:
    """What parts that belong together have in common.

    Attributes:
        plan: fingerprint of the plan.
        dump: digest of the dump's units and of how they are read.
        units: units of the dump.
        rows: rollouts of the dump.
        iscope: the version that measured.
    """

    plan: str
    dump: str
    units: int
    rows: int
    iscope: str


@dataclass(frozen=True)
class Asked:
    """What was asked for, beside the plan: what it takes to report on all parts without the dump.

    Attributes:
        shard: the number of this part and how many there are.
        record: the dump, as far as its footers tell.
        by: what to break the figures down by.
        said: what to say of the configurations that were read.
        columns: which column of the dump holds what, as the user said.
        where: the condition on rollouts; None is none.
    """

    shard: tuple[int, int]
    record: Record
    by: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None


@dataclass(frozen=True)
class Part:
    """Some units of a dump, measured.

    Attributes:
        whole: what they are part of.
        units: their ids.
        rows: rollouts in them, those left out included.
        ledger: what was measured.
        tally: what was counted.
        asked: what was asked for; None in a part that only its own command goes on from.
    """

    whole: Whole
    units: tuple[str, ...]
    rows: int
    ledger: Ledger
    tally: Tally
    asked: Asked | None = None


def save(part: Part, path: str | os.PathLike[str]) -> None:
    """Write a part, whole or not at all.

    Raises:
        UsageError: when the file system refuses.
    """
    about: dict[str, Any] = {"format": FORMAT, "whole": asdict(part.whole), "units": part.units, "rows": part.rows}
    about |= {"tally": asdict(part.tally), "asked": None}
    members = {}
    if part.asked is not None:
        asked = part.asked
        about["asked"] = {
            "shard": asked.shard,
            "record": asked.record.to_dict(),
            "by": asked.by,
            "said": asked.said,
            "columns": dict(asked.columns),
            "where": asked.where,
        }
        members = _packed(asked.record.supplied)
    store.save(part.ledger, path, {_ABOUT: json.dumps(about, sort_keys=True).encode(), **members})


def load(path: str | os.PathLike[str]) -> Part:
    """Read a part.

    Raises:
        DataError: when the file is no part, or one of another version.
    """
    about, supplied = _about(path)
    asked = about["asked"]
    if asked is not None:
        record = replace(Record.from_dict(asked["record"]), supplied=supplied)
        names = {name: tuple(asked[name]) for name in ("shard", "by", "said")}
        asked = Asked(record=record, columns=asked["columns"], where=asked["where"], **names)
    return Part(
        whole=Whole(**about["whole"]),
        units=tuple(about["units"]),
        rows=about["rows"],
        ledger=store.load(path),
        tally=Tally(**about["tally"]),
        asked=asked,
    )


def units_in(path: str | os.PathLike[str]) -> list[str]:
    """Return the ids of the units of a part, without reading what was measured.

    Raises:
        DataError: when the file is no part.
    """
    units: list[str] = _about(path)[0]["units"]
    return units


def _about(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[Supplied]]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if _ABOUT not in names and "header.json" in names:
                raise DataError(
                    f"{path}: this is a ledger of a whole dump and no part; parts are what iscope map writes."
                )
            about = json.loads(archive.read(_ABOUT))
            supplied = _unpacked(archive.read(_SUPPLIED)) if _SUPPLIED in names else []
    except FileNotFoundError:
        raise DataError(f"{path}: no such file.") from None
    except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
        raise DataError(f"{path}: this is no part that iscope map wrote, or it is damaged ({error}).") from None
    if about.get("format") != FORMAT:
        raise DataError(f"{path} is a part of format {about.get('format')}; this iscope reads {FORMAT}.")
    return about, supplied


def _packed(supplied: Any) -> dict[str, bytes]:
    if not supplied:
        return {}
    arrays: dict[str, Any] = {"names": np.array([one.name for one in supplied])}
    for index, one in enumerate(supplied):
        lists = {"values": one.values, "loss": one.loss, "offsets": one.offsets}
        lists |= {f"logprobs:{name}": values for name, values in one.logprobs.items()}
        arrays |= {f"{index}:{name}": values for name, values in lists.items()}
        arrays[f"{index}:ids"] = np.array(json.dumps(one.ids and [str(name) for name in one.ids]))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return {_SUPPLIED: buffer.getvalue()}


def _unpacked(content: bytes) -> list[Supplied]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return [_one(str(name), arrays, f"{index}:") for index, name in enumerate(arrays["names"].tolist())]


def _one(name: str, arrays: Mapping[str, Any], prefix: str) -> Supplied:
    own = {key.removeprefix(prefix): arrays[key] for key in arrays if key.startswith(prefix)}
    logprobs = {key.removeprefix("logprobs:"): own[key] for key in own if key.startswith("logprobs:")}
    ids = json.loads(str(own["ids"]))
    return Supplied(name, own["values"], logprobs, own["loss"], own["offsets"], ids)
