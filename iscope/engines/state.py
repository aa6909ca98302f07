"""The folder of ``--resume``: parts that are done, kept so that the next run goes on from them."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO

from iscope.engines.gather import difference
from iscope.engines.job import Job
from iscope.errors import DataError, UsageError
from iscope.ledger import part as parts
from iscope.ledger.part import Part, Whole

FORMAT = {"name": "iscope.state", "version": 1}
_ABOUT, _LOCK = "state.json", "lock"
_OWN = re.compile(rf"{re.escape(_ABOUT)}|{_LOCK}|[0-9a-f]{{16}}\.part|\.iscope-[0-9a-f]+")


class State:
    """The parts of one job that are done, in a folder that no other process uses meanwhile.

    Attributes:
        folder: where they are.
        done: ids of the units in them.
    """

    def __init__(self, folder: str | os.PathLike[str], job: Job) -> None:
        """Open a folder, or make a new one.

        Raises:
            UsageError: when it holds other things, or parts of another plan or dump, or is in use.
            DataError: when a part in it is damaged.
        """
        self.folder = Path(folder)
        self._make()
        self._lock = self._locked()
        try:
            self._check(job)
            self.done = {unit for file in self._files() for unit in parts.units_in(file)}
        except BaseException:
            self.close()
            raise

    def keep(self, part: Part) -> None:
        """Write a part; it is there as a whole or not at all.

        Raises:
            UsageError: when the file system refuses.
        """
        parts.save(part, self.folder / f"{part.units[0]}.part")
        self.done.update(part.units)

    def parts(self) -> Iterator[tuple[str, Part]]:
        """Yield every part with the name of its file."""
        for file in self._files():
            yield str(file), parts.load(file)

    def close(self) -> None:
        """Let others use the folder."""
        self._lock.close()

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.part"))

    def _make(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise UsageError(f"--resume {self.folder}: this is a file; name a folder, which is made if there is none.")
        others = [name for name in _listed(self.folder) if not _OWN.fullmatch(name)]
        if others:
            raise UsageError(
                f"--resume {self.folder}: the folder holds other things ({min(others)}); name a new one, which is made."
            )
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise UsageError(f"--resume {self.folder}: cannot make the folder: {error.strerror}.") from None

    def _locked(self) -> IO[bytes]:
        try:
            file = open(self.folder / _LOCK, "ab")  # noqa: SIM115 - it is held until the work is done
        except OSError as error:
            raise UsageError(f"--resume {self.folder}: cannot write there: {error.strerror}.") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise UsageError(f"--resume {self.folder}: another iscope is working with this folder.") from None
        except OSError:
            pass  # a file system without locks
        return file

    def _check(self, job: Job) -> None:
        for left in self.folder.glob(".iscope-*"):  # of a process that was killed while it wrote
            left.unlink(missing_ok=True)
        about = self.folder / _ABOUT
        files = {file.path: _stamp(file.path) for file in job.dump.files}
        if not about.exists():
            if self._files():
                raise DataError(f"--resume {self.folder}: its {_ABOUT} is gone; name a new folder.")
            self._describe(about, {"format": FORMAT, "whole": asdict(job.whole), "files": files})
            return
        try:
            found = json.loads(about.read_text())
            whole, known = Whole(**found["whole"]), found["files"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{about}: cannot be read ({error}); name a new folder for --resume.") from None
        changed = next((path for path in files if path in known and files[path] != known[path]), None)
        if changed:
            raise UsageError(
                f"--resume {self.folder}: {changed} has changed since its parts were measured; name a new folder."
            )
        why = difference(whole, job.whole)
        if why:
            raise UsageError(
                f"--resume {self.folder}: its parts were measured {why} than asked for; name a new folder."
            )

    def _describe(self, about: Path, content: dict[str, object]) -> None:
        part = self.folder / f".iscope-{os.getpid():x}"
        try:
            part.write_text(json.dumps(content, sort_keys=True))
            part.replace(about)
        except OSError as error:
            raise UsageError(f"--resume {self.folder}: cannot write there: {error.strerror}.") from None
        finally:
            part.unlink(missing_ok=True)


def _listed(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.is_dir() else []


def _stamp(path: str) -> list[int]:
    """Size and time of change of a file; nothing of one that is not on this machine's file system."""
    try:
        found = os.stat(path)
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns]
