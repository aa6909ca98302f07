"""RolloutWriter: a trainer's rollouts as a dump, one whole Parquet file per rank and step."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from iscope import __version__
from iscope.dump.files import local_output
from iscope.dump.interruption import end_if_asked, watch
from iscope.dump.rollout_columns import LISTS, table_of
from iscope.errors import UsageError, did_you_mean

_SETTINGS = ("temperature", "top_p", "top_k", "min_p", "logprobs_mode")
_PACKAGES = ("torch", "vllm", "transformers", "trl", "verl", "prime-rl", "skyrl", "slime", "nemo-rl")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")


class RolloutWriter:
    """Writes rollouts as they are trained on, one file per rank and step: ``step000012-rank000.parquet``.

    A file is written beside its place and moved there when its step is over: readers, and a run that is killed, see
    whole files or none. Rollouts of the step that is under way are written when the writer is closed, on leaving its
    ``with`` block, at the interpreter's exit and on SIGTERM; after SIGKILL they are lost, the files of the steps before
    are not. Needs neither torch nor a GPU. Threads may share a writer.

    A step that is added to after its file was moved, in a run that was resumed for instance, gets a further file
    (``step000012-rank000-001.parquet``).
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        rank: int = 0,
        settings: Mapping[str, Any] | None = None,
        flush_tokens: int = 1 << 20,
    ) -> None:
        """Start; the folder is made where it is missing.

        Args:
            folder: where the files go; readers take it as the dump.
            rank: the process, for the names of its files and default rollout ids.
            settings: how tokens are sampled, the same for all rollouts: ``temperature``, ``top_p``, ``top_k``,
                ``min_p``, ``logprobs_mode``.
            flush_tokens: tokens to hold in memory before a row group is written.

        Raises:
            UsageError: when the folder cannot be made, or a setting is not known.
        """
        local_output(folder, os.fspath(folder))
        self._folder, self._rank, self._flush_tokens = Path(folder), rank, flush_tokens
        self._settings = dict(settings or {})
        for name in self._settings:
            if name not in _SETTINGS:
                raise UsageError(f"settings: {name!r} is none of a dump's.{did_you_mean(name, _SETTINGS)}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self._folder}: cannot make this folder: {error.strerror}.") from None
        self._step: int | None = None
        self._held: list[pa.Table] = []
        self._tokens = self._count = 0
        self._file: pq.ParquetWriter | None = None
        self._schema: pa.Schema | None = None
        self._closed = False
        self._lock = threading.RLock()
        self._process = os.getpid()
        self.busy = False
        watch(self)

    def add(
        self,
        *,
        step: int,
        trainer_logprobs: Any = None,
        inference_logprobs: Any = None,
        current_logprobs: Any = None,
        ref_logprobs: Any = None,
        loss_mask: Any = None,
        advantage: Any = None,
        token_ids: Any = None,
        present: Any = None,
        **columns: Any,
    ) -> None:
        """Add N rollouts of a step; a new step ends the one before.

        Token columns are lists of N arrays [T_i], or padded arrays or tensors [N, T] with ``present`` to say which
        positions hold a token: bool or int [N, T]. Positions that are not present are left out.

        Args:
            step: the trainer's step.
            trainer_logprobs: nats, the trainer's recomputation at the weights that generated.
            inference_logprobs: nats, what the engine reported for the sampled tokens.
            current_logprobs: nats, the trainer's at optimisation time.
            ref_logprobs: nats, the reference policy's.
            loss_mask: where tokens train.
            advantage: N values, or one per token.
            token_ids: the sampled tokens.
            present: for padded columns, where there is a token.
            **columns: values of rollouts: ``rollout_id``, ``group_id``, ``reward``, ``policy_version``,
                ``trainer_version``, ``finish_reason``, ``env``, or any other name; N values, or one for all.

        Raises:
            UsageError: when lengths or shapes disagree, columns come and go, or the file system refuses.
        """
        if self._closed:
            raise UsageError("add: the writer is closed.")
        for name in columns:
            if not _NAME.match(name):
                raise UsageError(f"add: {name!r} is no name of a column.")
        tokens = {
            "trainer_logprobs": trainer_logprobs,
            "inference_logprobs": inference_logprobs,
            "current_logprobs": current_logprobs,
            "ref_logprobs": ref_logprobs,
            "loss_mask": loss_mask,
            "advantage": advantage,
            "token_ids": token_ids,
        }
        made = table_of({**tokens, **self._settings, **columns, "step": int(step)}, present)
        with self._at_work():
            if self._step is not None and step != self._step:
                self._end_step()
            self._step = int(step)
            self._hold(self._named(made))

    def end_step(self) -> None:
        """Write what is held and put the file of the step in its place."""
        with self._at_work():
            self._end_step()

    def close(self) -> None:
        """End the step that is under way; further calls do nothing, nor does one in a process that forked off."""
        if not self._closed and self._process == os.getpid():
            self._closed = True
            self.end_step()

    @property
    def closed(self) -> bool:
        """Whether nothing more can be added."""
        return self._closed

    def __enter__(self) -> Self:
        """Return the writer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it, after an error or an interruption too: the rollouts so far are whole."""
        self.close()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Let nobody else in, and put SIGTERM off until what was begun is whole."""
        with self._lock:
            self.busy = True
            try:
                yield
            finally:
                self.busy = False
        end_if_asked()

    def _hold(self, table: pa.Table) -> None:
        self._agree(table)
        self._count += table.num_rows
        self._held.append(table)
        anchor = next(name for name in LISTS if name in table.schema.names)
        self._tokens += len(table.column(anchor).combine_chunks().flatten())
        if self._tokens >= self._flush_tokens:
            self._flush()

    def _end_step(self) -> None:
        if self._step is None:
            return
        self._flush()
        file, step = self._file, self._step
        self._step = self._file = self._schema = None
        self._count = 0
        if file is None:
            return
        part = self._part(step)
        try:
            file.close()
            _to_disk(part)
            part.rename(self._free(step))
        except OSError as error:
            raise self._refused(error) from None

    def _named(self, table: pa.Table) -> pa.Table:
        if "rollout_id" in table.schema.names:
            return table
        first = self._count
        ids = [f"{self._step}/{self._rank}/{first + row}" for row in range(table.num_rows)]
        return table.append_column("rollout_id", pa.array(ids, pa.string()))

    def _agree(self, table: pa.Table) -> None:
        """Refuse token columns that come and go within a step; other columns are null where they are not given."""
        if self._schema is not None and (new := set(table.schema.names) - set(self._schema.names)):
            raise UsageError(f"add: {min(new)} was not given for the first rollouts of step {self._step}.")
        if not self._held and self._schema is None:
            return
        before = self._schema or self._held[0].schema
        there, here = (
            {name for name in schema.names if name in LISTS or name == "advantage"} for schema in (before, table.schema)
        )
        if there != here:
            name = sorted(there ^ here)[0]
            raise UsageError(f"add: {name} is given for some rollouts of step {self._step} and not for others.")

    def _flush(self) -> None:
        held, self._held, self._tokens = self._held, [], 0
        if not held:
            return
        try:
            table = pa.concat_tables(held, promote_options="permissive")
            if self._file is None or self._schema is None:
                about = json.dumps({"settings": self._settings, "versions": _versions()}, default=str)
                self._schema = table.schema.with_metadata({"iscope": about})
                self._file = pq.ParquetWriter(self._part(self._step or 0), self._schema, compression="zstd")
            self._file.write_table(_conformed(table, self._schema))
        except OSError as error:
            raise self._refused(error) from None
        except pa.ArrowException as error:
            reason = str(error).splitlines()[0]
            raise UsageError(f"add: columns of step {self._step} change their type ({reason}).") from None

    def _part(self, step: int) -> Path:
        """The file while it is written: hidden, and the same again for a rank that restarts in the same step."""
        return self._folder / f".step{step:06d}-rank{self._rank:03d}.part"

    def _free(self, step: int) -> Path:
        name = f"step{step:06d}-rank{self._rank:03d}"
        path, more = self._folder / f"{name}.parquet", 0
        while path.exists():
            more += 1
            path = self._folder / f"{name}-{more:03d}.parquet"
        return path

    def _refused(self, error: OSError) -> UsageError:
        return UsageError(f"{self._folder}: cannot write there: {error.strerror or error}.")


def _conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table in the schema of its file: missing columns are null."""
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.schema.names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


@cache
def _versions() -> dict[str, str]:
    found = {"iscope": __version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
