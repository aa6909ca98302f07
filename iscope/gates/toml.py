"""Gates from a TOML file: ``iscope.toml``, or the table ``[tool.iscope]`` of a ``pyproject.toml``."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iscope.errors import UsageError
from iscope.gates.comparable import LOG_Q_APART, Terms
from iscope.gates.config import Config
from iscope.gates.defaults import check_framework
from iscope.gates.read import read_gate, read_number, read_word
from iscope.place import Place, shown

LARGEST = 2**20
FILE, PROJECT = "iscope.toml", "pyproject.toml"
_KEYS = ("gates", "defaults", "framework", "healthy_k3", "baseline")
_BASELINE_KEYS = ("file", "prompts", "minus_log_q")


def find_config(folder: str | os.PathLike[str] = ".") -> Config:
    """Return what the files of a folder say: ``iscope.toml``, else ``[tool.iscope]`` of ``pyproject.toml``.

    Without either it is the default gates.

    Raises:
        UsageError: when the file cannot be read, or is not sound.
    """
    own, project = Path(folder, FILE), Path(folder, PROJECT)
    if own.is_file():
        return read_config(own)
    if project.is_file():
        table = _table(_document(project), project)
        if table is not None:
            return _config(table, project)
    return Config()


def read_config(path: str | os.PathLike[str]) -> Config:
    """Return what a file of gates says; of a ``pyproject.toml`` its table ``[tool.iscope]``.

    Raises:
        UsageError: when the file cannot be read, or is not sound; names file and key.
    """
    place = Path(path)
    document = _document(place)
    table = _table(document, place) if place.name == PROJECT else document
    if table is None:
        raise UsageError(f"{path}: it has no table [tool.iscope].")
    return _config(table, place)


def _document(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}.") from error
    if len(content) > LARGEST:
        raise UsageError(f"{path}: it is larger than {LARGEST:,} bytes, which no file of gates is.")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: it is no TOML file: not UTF-8 at byte {error.start}.") from error
    except RecursionError as error:
        raise UsageError(f"{path}: it is no file of gates: its values are nested too deeply.") from error
    except ValueError as error:
        raise UsageError(f"{path}: it is no TOML file: {error}.") from error


def _table(document: Mapping[str, Any], path: Path) -> dict[str, Any] | None:
    tool = document.get("tool", {})
    table = tool.get("iscope") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{path}: tool.iscope must be a table, not {shown(table)}.")
    return table


def _config(table: Mapping[str, Any], path: Path) -> Config:
    home = Place(str(path))
    for key in table:
        if key not in _KEYS:
            raise home.error(f"there is no key {shown(key)}; the keys are {', '.join(_KEYS)}", key, _KEYS)
    listed = table.get("gates", [])
    if not isinstance(listed, list):
        raise home.at("gates").error(f"it must be a list of tables, [[gates]], not {shown(listed)}")
    gates = tuple(
        read_gate(item, home.at("gates").at(index), f"{path.name} gates[{index}]") for index, item in enumerate(listed)
    )
    defaults = table.get("defaults", not gates)
    if not isinstance(defaults, bool):
        raise home.at("defaults").error(f"it must be true or false, not {shown(defaults)}")
    if not gates and not defaults:
        raise home.error("it has no gates and turns the default ones off, so that nothing could ever fail")
    healthy = read_number(table.get("healthy_k3"), home.at("healthy_k3"), above=0.0)
    file, terms = _baseline(table.get("baseline", {}), home.at("baseline"), path.parent)
    return Config(gates, defaults, _framework(table, home), healthy, file, terms, str(path))


def _framework(table: Mapping[str, Any], home: Place) -> str:
    name = table.get("framework", "")
    if not isinstance(name, str):
        raise home.at("framework").error(f"it must be the name of a framework, not {shown(name)}")
    try:
        return check_framework(name) if name else ""
    except UsageError as error:
        raise UsageError(f"{home.home} framework: {error}") from error


def _baseline(value: Any, place: Place, folder: Path) -> tuple[str | None, Terms]:
    table = {"file": value} if isinstance(value, str) else value
    if not isinstance(table, dict):
        raise place.error(f"it must be a file's name or a table, not {shown(value)}")
    for key in table:
        if key not in _BASELINE_KEYS:
            known = ", ".join(_BASELINE_KEYS)
            raise place.error(f"there is no key {shown(key)}; the keys are {known}", key, _BASELINE_KEYS)
    file = table.get("file")
    if file is not None and (not isinstance(file, str) or not file or "\0" in file):
        raise place.at("file").error(f"it must be the name of a file, not {shown(file)}")
    prompts = read_word(table.get("prompts", "same"), place.at("prompts"), ("same", "any"))
    apart = read_number(table.get("minus_log_q", LOG_Q_APART), place.at("minus_log_q"), above=0.0)
    named = None if file is None else os.path.join(folder, file)
    return named, Terms(prompts == "same", LOG_Q_APART if apart is None else apart)
