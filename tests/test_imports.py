from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import iscope

PACKAGE = Path(__file__).resolve().parent.parent / "iscope"
# From the top of the house to the bottom: a module imports from its own room and from rooms below it.
ROOMS = (
    "cli",
    "integrations",
    "checking",
    "sharding",
    "comparison",
    "following",
    "inspecting",
    "api",
    "gates",
    "render",
    "analysis",
    "engines",
    "ledger",
    "replay",
    "recipes",
    "dump",
    "model",
    "rollouts",
    "place",
    "errors",
)
ENTRY_POINTS = {"__init__.py", "__main__.py"}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if str(path.relative_to(PACKAGE)) not in ENTRY_POINTS)
MAX_FILE_LINES = 400
MAX_BODY_LINES = 80


def imported(tree: ast.AST, package: str) -> list[str]:
    """Full dotted names that a module of ``package`` imports, wherever in it and however written."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            home = ".".join([*above, *([node.module] if node.module else [])])
            names += [f"{home}.{alias.name}" for alias in node.names]
    return names


def upward(source: str, path: str) -> list[str]:
    """The imports of the module at ``path`` (relative to the package) that do not lead down the house."""
    parts = Path(path).with_suffix("").parts
    own = ROOMS.index(parts[0])
    package = ".".join(["iscope", *parts[:-1]])
    wrong = []
    for name in imported(ast.parse(source), package):
        head, _, rest = name.partition(".")
        room = rest.split(".")[0]
        # Anything else that is taken from the package itself is a lazy export, which would hide the room it lives in.
        if head == "iscope" and rest != "__version__" and (room not in ROOMS or ROOMS.index(room) < own):
            wrong.append(name)
    return wrong


def long_bodies(source: str) -> list[tuple[str, int]]:
    """Functions whose body, docstring apart, has more lines than allowed, and how many."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            if lines > MAX_BODY_LINES:
                found.append((node.name, lines))
    return found


def test_modules_are_found() -> None:
    assert {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES} <= set(ROOMS)
    assert PACKAGE / "errors.py" in MODULES


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_imports_downward_and_stays_small(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert upward(source, str(path.relative_to(PACKAGE))) == []
    assert len(source.splitlines()) <= MAX_FILE_LINES
    assert long_bodies(source) == []


@pytest.mark.parametrize(
    ("source", "path", "wrong"),
    [
        ("from iscope.api import analyze", "render/json.py", ["iscope.api.analyze"]),
        ("import iscope.cli.app", "dump/parquet.py", ["iscope.cli.app"]),
        ("def f():\n    from iscope.replay import weights", "recipes/trl.py", ["iscope.replay.weights"]),
        ("from ..ledger.store import load", "replay/view.py", ["iscope.ledger.store.load"]),
        ("from iscope import analyze", "analysis/figures/kl.py", ["iscope.analyze"]),
        ("from iscope import __version__", "analysis/figures/kl.py", []),
        ("from . import weights\nfrom iscope.recipes.model import Pair\nimport torch", "replay/view.py", []),
        ("from iscope.model import Report", "api.py", []),
        ("from iscope.model import Figure", "rollouts.py", ["iscope.model.Figure"]),
    ],
)
def test_upward_imports_are_seen(source: str, path: str, wrong: list[str]) -> None:
    assert upward(source, path) == wrong


def test_long_bodies_are_seen() -> None:
    body = "    x = 1\n"
    doc = '    """Doc."""\n'
    assert long_bodies("def f():\n" + doc + body * MAX_BODY_LINES) == []
    assert long_bodies("def f():\n" + doc + body * (MAX_BODY_LINES + 1)) == [("f", MAX_BODY_LINES + 1)]


@pytest.mark.parametrize("name", iscope.__all__)
def test_public_names_resolve(name: str) -> None:
    assert getattr(iscope, name) is not None
    assert name in dir(iscope)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'iscope' has no attribute 'analyse'"):
        _ = iscope.analyse


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, timeout=60, check=False
    )


def test_importing_iscope_loads_nothing_heavy() -> None:
    done = python("import sys, iscope; print(sorted({'torch', 'polars', 'numpy', 'pyarrow'} & set(sys.modules)))")
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["recipes"], ["analyze", "--help"], ["check", "--help"], ["explain", "IS003"]],
    ids=" ".join,
)
def test_light_commands_do_not_import_torch(arguments: list[str]) -> None:
    done = python(
        "import runpy, sys\n"
        f"sys.argv, code = ['iscope', *{arguments!r}], None\n"
        "try:\n"
        "    runpy.run_module('iscope', run_name='__main__')\n"
        "except SystemExit as stop:\n"
        "    code = stop.code\n"
        "print('torch' in sys.modules, code or 0, file=sys.stderr)\n"
    )
    assert done.stderr.splitlines()[-1:] == ["False 0"], done.stderr
    assert done.stdout.strip()
