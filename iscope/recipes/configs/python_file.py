"""A Python script's settings: the literals that it gives to configurations by keyword. It is parsed, never run."""

from __future__ import annotations

import ast

from iscope.recipes.configs.entries import Entry, UnreadableError, check_count, join

# What configurations are called: GRPOConfig, TrainingArguments.
_CALLED = ("Config", "Arguments", "Args")


def read(text: str) -> dict[str, Entry]:
    """Return the keywords of the calls whose name ends as that of a configuration does.

    A name stands for the literal that the script gives it, where it does so once.

    Raises:
        UnreadableError: when it is no Python, or has no such call.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, MemoryError) as error:
        where = f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise UnreadableError(f"{getattr(error, 'msg', 'too deep')}{where}") from None
    names = _names(tree)
    found: dict[str, Entry] = {}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func).endswith(_CALLED)):
            continue
        for keyword in node.keywords:
            if keyword.arg is not None:
                path = join("", keyword.arg)
                entry = _entry(keyword.value, names)
                twice = path in found and found[path].value != entry.value
                unclear = "it is given twice, with different values; write a file with one of them" if twice else ""
                found[path] = Entry(entry.value, entry.where, unclear or entry.unclear)
                check_count(len(found))
    if not found:
        raise UnreadableError(f"there is no call of a name that ends in {', '.join(_CALLED)} with keywords in it")
    return found


def _names(tree: ast.Module) -> dict[str, ast.expr]:
    """Names that one assignment of the script gives a literal, and no other."""
    given: dict[str, list[ast.expr | None]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name):
                        given.setdefault(name.id, []).append(node.value if name is target else None)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            given.setdefault(node.id, [])
    once = {name: values[0] for name, values in given.items() if len(values) == 1}
    return {name: value for name, value in once.items() if value is not None}


def _entry(node: ast.expr, names: dict[str, ast.expr]) -> Entry:
    where = f"line {node.lineno}"
    value = names.get(node.id, node) if isinstance(node, ast.Name) else node
    try:
        literal = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        text = ast.unparse(node)
        return Entry(text, where, f"{text} is not told by this file alone; write its value")
    return Entry(list(map(str, literal)) if isinstance(literal, list | tuple) else _plain(literal), where)


def _plain(literal: object) -> object:
    return literal if literal is None or isinstance(literal, str | bool | int | float) else type(literal).__name__
