"""Writing a baseline, whole or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path

from iscope.errors import UsageError
from iscope.gates.baseline import Baseline


def check_target(target: str) -> None:
    """Refuse a file that cannot be written, before any work is done for it.

    Raises:
        UsageError: when it is a folder, or in none.
    """
    path = Path(target)
    if path.is_dir():
        raise UsageError(f"{target}: this is a folder; name a file in it for the baseline.")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{target}: there is no folder {str(path.absolute().parent)!r}; make it first.")


def write_baselines(baseline: Baseline, targets: Iterable[str]) -> None:
    """Write a baseline to files, each replaced as a whole.

    Raises:
        UsageError: when the file system refuses.
    """
    for target in targets:
        part = Path(target).absolute().parent / f".iscope-{secrets.token_hex(8)}"
        try:
            part.write_text(baseline.to_json(), encoding="utf-8")
            part.replace(target)
        except OSError as error:
            raise UsageError(f"{target}: cannot write the baseline: {error.strerror or error}.") from error
        finally:
            part.unlink(missing_ok=True)
