"""Columns of local files grow in memory of the C library; the process keeps the pool that it had."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iscope.dump.parquet_file import open_parquet


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "dump.parquet"
    pq.write_table(pa.table({"logprobs": [[-1.0] * 1000] * 100}), path)
    return str(path)


def test_columns_are_in_system_memory(file: str) -> None:
    system, before = pa.system_memory_pool(), pa.default_memory_pool().backend_name
    with open_parquet(file) as (opened, _):
        held = system.bytes_allocated()
        batch = next(opened.iter_batches(batch_size=100, use_threads=False))
        assert system.bytes_allocated() - held >= batch.nbytes
    assert pa.default_memory_pool().backend_name == before


def test_a_file_that_cannot_be_opened_leaves_the_pool_as_it_was(tmp_path: Path) -> None:
    before = pa.default_memory_pool().backend_name
    (tmp_path / "dump.parquet").write_bytes(b"PAR1")
    with pytest.raises(pa.ArrowInvalid), open_parquet(str(tmp_path / "dump.parquet")):
        pass
    assert pa.default_memory_pool().backend_name == before
