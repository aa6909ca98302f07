"""Builds the wheel of this package with nothing but the standard library, so that it installs offline anywhere."""

from __future__ import annotations

import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stem = f"{project['name'].replace('-', '_')}-{project['version']}"
    info = f"{stem}.dist-info"
    points = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()), "")
    ]
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: backend\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "\n".join(points),
    }
    for path in sorted((HERE / "src").rglob("*")):
        if path.suffix in (".py", ".toml"):
            files[path.relative_to(HERE / "src").as_posix()] = path.read_text(encoding="utf-8")
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    name = f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w") as wheel:
        for path, content in (files | {f"{info}/RECORD": record}).items():
            wheel.writestr(path, content)
    return name
