"""The memory of a pass does not grow with the dump, nor with its row groups."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.analyze import STATUS

ROOT = Path(__file__).resolve().parent.parent
LENGTH = 1_000
PART = 1_000_000

# The sample of rollouts is bounded, but larger than these dumps.
PROGRAM = """
import sys
import iscope
from iscope.api import make_plan
from iscope.dump import open_dump
from iscope.engines import local
from iscope.ledger import sample
from benchmarks.analyze import peak_bytes
sample.TOKENS = 100_000
def run(path):
    return local.run(open_dump([path]).batches(), make_plan(), workers=1)
for _ in range(2):  # allocators settle only then
    run(sys.argv[1])
before = peak_bytes()
rows = run(sys.argv[2]).rows
print(rows["tokens"].sum(), peak_bytes() - before)
"""


def write(path: Path, parts: int) -> None:
    """Write a million tokens so many times over, all in one row group."""
    rng = np.random.default_rng(0)
    inference = -rng.gamma(0.45, 3.0, PART).astype(np.float32)
    trainer = np.minimum(inference + 0.05 * rng.standard_normal(PART, np.float32), 0)
    offsets = np.arange(0, PART * parts + 1, LENGTH, dtype=np.int32)
    columns = {"trainer_logprobs": trainer, "inference_logprobs": inference, "loss_mask": rng.random(PART) < 0.98}
    lists = {name: pa.ListArray.from_arrays(offsets, np.tile(values, parts)) for name, values in columns.items()}
    pq.write_table(pa.table(lists), path, row_group_size=10**9, use_dictionary=False)


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells the peak of this process alone")
def test_a_row_group_is_streamed(tmp_path):
    """15 million tokens more in one row group: all of them at once would take 135 MB more, before any arithmetic.

    The small one already has as many batches as may wait for each other.
    """
    small, large = tmp_path / "small.parquet", tmp_path / "large.parquet"
    write(small, 10)
    write(large, 25)
    assert pq.ParquetFile(large).metadata.num_row_groups == 1
    # The thread of a pass may start before that of the last one has given its heap back, and would open another.
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-c", PROGRAM, str(small), str(large)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    tokens, grown = map(int, done.stdout.split())
    assert tokens == 25 * PART
    assert grown < 60e6
