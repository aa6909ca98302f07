"""YAML as settings by dotted path: the document's nodes are read, and no object is ever made of them."""

from __future__ import annotations

import re

import yaml

from iscope.recipes.configs.entries import Entry, UnreadableError, check_count, check_depth, join

_STANDARD = "tag:yaml.org,2002:"
_MERGE = f"{_STANDARD}merge"
_PLAIN_TAGS = {f"{_STANDARD}{kind}" for kind in ("null", "bool", "int", "float", "str", "timestamp", "merge", "value")}
# A bound pair such as 0.5_2, unquoted, is a number with a separator to the YAML that frameworks load.
_SEPARATED = re.compile(r"[+-]?\d[\d_]*(\.[\d_]*)?", re.ASCII)


def read(text: str) -> dict[str, Entry]:
    """Return the settings of a YAML document.

    Raises:
        UnreadableError: when it is not one document of named settings, or asks for an object to be made.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f" in line {mark.line + 1}, column {mark.column + 1}"
        raise UnreadableError(f"{error.problem or error.context}{where}") from None
    except yaml.YAMLError as error:
        raise UnreadableError(" ".join(str(error).split())) from None
    if not isinstance(root, yaml.MappingNode):
        raise UnreadableError("there are no named settings at its top")
    reader = _Reader()
    reader.mapping(root, "", 0)
    return reader.found


class _Reader:
    """The settings found so far, and how often a node was met: through aliases, more often than it is written."""

    def __init__(self) -> None:
        self.found: dict[str, Entry] = {}
        self._met = 0

    def mapping(self, node: yaml.MappingNode, prefix: str, depth: int) -> None:
        """Take the settings of a mapping; what it merges comes first, so that its own settings win."""
        self._meet(node, depth, ("map",))
        for source in (value for key, value in node.value if key.tag == _MERGE):
            for part in source.value if isinstance(source, yaml.SequenceNode) else [source]:
                if not isinstance(part, yaml.MappingNode):
                    raise UnreadableError(f"line {part.start_mark.line + 1} merges what is no mapping")
                self.mapping(part, prefix, depth + 1)
        names = set()
        for key, value in node.value:
            if key.tag == _MERGE:
                continue
            if not isinstance(key, yaml.ScalarNode):
                raise UnreadableError(f"line {key.start_mark.line + 1} has a name that is no word")
            _check_tag(key)
            path = join(prefix, key.value)
            if path in names:
                raise UnreadableError(f"{path!r} is given twice, the second time in line {key.start_mark.line + 1}")
            names.add(path)
            self._value(value, path, depth)

    def _value(self, node: yaml.Node, path: str, depth: int) -> None:
        where = f"line {node.start_mark.line + 1}"
        if isinstance(node, yaml.MappingNode):
            self.mapping(node, path, depth + 1)
        elif isinstance(node, yaml.SequenceNode):
            self._meet(node, depth, ("seq",))
            self.found[path] = Entry([_item(item, depth + 1) for item in node.value], where)
        elif isinstance(node, yaml.ScalarNode):
            self._meet(node, depth, ())
            self.found[path] = Entry(node.value, where, _unclear(node))

    def _meet(self, node: yaml.Node, depth: int, kinds: tuple[str, ...]) -> None:
        check_depth(depth)
        self._met += 1
        check_count(self._met)
        _check_tag(node, kinds)


def _item(node: yaml.Node, depth: int) -> str:
    """The text of a list's item; what is nested in it does not matter here, but is held to the same tags."""
    check_depth(depth)
    if isinstance(node, yaml.ScalarNode):
        _check_tag(node)
        return str(node.value)
    _check_tag(node, ("map", "seq"))
    return "..."


def _unclear(node: yaml.ScalarNode) -> str:
    if node.style is None and "_" in node.value and _SEPARATED.fullmatch(node.value):
        number = node.value.replace("_", "")
        return f"{node.value} without quotes is the number {number} in YAML; write it in quotes"
    return ""


def _check_tag(node: yaml.Node, kinds: tuple[str, ...] = ()) -> None:
    allowed = {f"{_STANDARD}{kind}" for kind in kinds} if kinds else _PLAIN_TAGS
    if node.tag not in allowed:
        tag = node.tag.replace(_STANDARD, "!!")
        raise UnreadableError(
            f"line {node.start_mark.line + 1} has the tag {tag!r}; only plain values are read, no objects are made"
        )
