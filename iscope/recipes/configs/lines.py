"""Settings as lines in a framework's own syntax, which reading gives back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping

from iscope.recipes.configs.model import ConfigTable, Values
from iscope.recipes.configs.values import plain, same
from iscope.recipes.options import Value

_SIMPLE = re.compile(r"[A-Za-z][\w.\-]*", re.ASCII)


def write_lines(table: ConfigTable, values: Values) -> tuple[str, ...]:
    """Return settings as lines of a configuration; those of a second file follow a comment with its name.

    Args:
        table: the framework's, for syntax and root.
        values: of settings, by the table's path.
    """
    apart = () if table.include is None else table.include.settings
    second = {path: value for path, value in values.items() if path in apart}
    first = {path: value for path, value in values.items() if path not in apart}
    if table.include is None or not second:
        return _lines(table, first)
    name = f"{table.framework}.yaml"
    return (*_lines(table, first | {table.include.paths[0]: name}), f"# {name}:", *_yaml(second))


def _lines(table: ConfigTable, values: Values) -> tuple[str, ...]:
    rooted = {table.roots[0] + path: value for path, value in values.items()}
    writers: dict[str, Callable[[], Iterable[str]]] = {
        "yaml": lambda: _yaml(rooted),
        "toml": lambda: _toml(rooted),
        "hydra": lambda: (f"{path}={_hydra(value)}" for path, value in rooted.items()),
        "flags": lambda: _flags(table, rooted),
    }
    return tuple(writers[table.syntax]())


def _yaml(values: Values) -> Iterable[str]:
    """Nested mappings, parts of one mapping together."""
    tree: dict[str, object] = {}
    for path, value in values.items():
        *parents, name = path.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})  # type: ignore[assignment]
        node[name] = _word(value)
    yield from _nested(tree, "")


def _nested(tree: Mapping[str, object], indent: str) -> Iterable[str]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from _nested(value, indent + "  ")
        else:
            yield f"{indent}{name}: {value}"


def _toml(values: Values) -> Iterable[str]:
    tables: dict[str, list[str]] = {}
    for path, value in values.items():
        table, _, name = path.rpartition(".")
        text = json.dumps(value) if isinstance(value, str) else '"None"' if value is None else _word(value)
        tables.setdefault(table, []).append(f"{name} = {text}")
    for table, lines in sorted(tables.items(), key=lambda item: item[0] != ""):
        if table:
            yield f"[{table}]"
        yield from lines


def _flags(table: ConfigTable, values: Values) -> Iterable[str]:
    several = {table.roots[0] + setting.path for setting in table.settings if setting.several}
    for path, value in values.items():
        name = path.replace("_", "-") if table.dashes else path
        if table.switches and isinstance(value, bool):
            if value:
                yield f"--{name}"
        elif path in several:
            yield f"--{name} {str(value).replace(',', ' ')}"
        else:
            yield f"--{name} {_word(value)}"


def _word(value: Value) -> str:
    """A value as YAML, Hydra and a shell all read it: exponents have a point, text that would be a number quotes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        mantissa, e, exponent = repr(value).partition("e")
        return f"{mantissa if '.' in mantissa or not e else mantissa + '.0'}{e}{exponent}"
    text = str(value)
    if isinstance(value, int):
        return text
    return text if same(plain(text), text) and _simple(text) else json.dumps(text)


def _hydra(value: Value) -> str:
    """A value for a shell and then for Hydra, which would read commas and 0.5_2 otherwise than as text."""
    text = _word(value)
    return f"\"'{value}'\"" if text.startswith('"') else text


def _simple(text: str) -> bool:
    return _SIMPLE.fullmatch(text) is not None
