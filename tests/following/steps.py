"""A run that is written while it is followed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

QUICK = {"quiet_for": 0.0, "every": 0.02}


def text_of(report, *, without: str = "provenance") -> str:
    left_out = {"provenance", without}
    return json.dumps({name: part for name, part in report.to_dict().items() if name not in left_out})


def put(path: Path, folder: Path, name: str | None = None) -> Path:
    """Copy a file into a folder, where it appears as a whole."""
    target = folder / (name or path.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target.parent / f".{target.name}")
    return (target.parent / f".{target.name}").replace(target)
