"""Whatever a file holds: a dump, or one sentence; never a traceback, an execution, a hang or a gigabyte."""

from __future__ import annotations

import functools
import io
import json
import os
import pickle
import pickletools
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from benchmarks.analyze import STATUS
from iscope.dump import Sides, open_dump
from iscope.dump.importers.json_lines import MAX_CONTAINERS, MAX_LINE, MAX_LISTS, MAX_VALUES
from iscope.dump.importers.loaded import load
from iscope.dump.importers.scan import MAX_OBJECTS, scan
from iscope.errors import DataError, IscopeError
from tests.dump.importers import layouts

ROOT = Path(__file__).resolve().parents[3]
quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
NAMES = ("a.parquet", "a.jsonl", "a.json", "a.pt", "a.pkl", "rank_0.jsonl", "a")
TRACES = ("traces stream", "traces trainer")
MAGIC = (b"", b"PAR1", b"PK\x03\x04", b"\x80\x04", b"{", b"[", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xef\xbb\xbf{")


def read(path: Path) -> str | None:
    """Read a file in every way it can be named; return what is said if it cannot."""
    said = None
    for sides in (None, Sides(trainer=path, inference=path)):
        try:
            dump = open_dump([path]) if sides is None else open_dump(sides=sides)
            for _ in dump.batches():
                pass
        except IscopeError as error:
            said = str(error)
            assert "\n" not in said
            assert len(said) < 3000 + 4 * len(str(path))
    return said


def read_bytes(data: bytes, name: str) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        return read(path)


@quick
@given(magic=st.sampled_from(MAGIC), rest=st.binary(max_size=300), name=st.sampled_from(NAMES))
def test_arbitrary_bytes(magic, rest, name):
    assert read_bytes(magic + rest, name) is not None


@functools.cache
def whole_files() -> dict[str, tuple[str, bytes]]:
    """Every layout's bytes, by name."""
    found = {}
    rows = layouts.rollouts(groups=2, size=3)
    for name, write in (layouts.WHOLE | layouts.ENGINE).items():
        with tempfile.TemporaryDirectory() as folder:
            path = write(rows, Path(folder))
            if path.is_dir():
                path = next(
                    file
                    for file in sorted(path.rglob("*.*"))
                    if "val_" not in file.name and "rollout_data" not in str(file)
                )
            found[name] = (path.name, path.read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        for path in layouts.write_traces(rows, Path(folder)):
            found[f"traces {path.name}"] = ("a.jsonl", (path / "00000.jsonl").read_bytes())
    table = layouts.canonical(rows)
    for codec in ("none", "zstd"):
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression=codec)
        found[f"parquet {codec}"] = ("a.parquet", buffer.getvalue())
    return found


@pytest.mark.parametrize("layout", [*layouts.WHOLE, *layouts.ENGINE, "parquet none", "parquet zstd"])
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_files(layout, data):
    name, whole = whole_files()[layout]
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    read_bytes(bytes(damaged), name)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def mutated(value, draw):
    """A value with one of its parts, somewhere, replaced by anything."""
    if isinstance(value, dict) and value and draw(st.integers(0, 3)):
        key = draw(st.sampled_from(sorted(value)))
        return value | {key: mutated(value[key], draw)}
    if isinstance(value, list) and value and draw(st.integers(0, 3)):
        index = draw(st.integers(0, len(value) - 1))
        return [*value[:index], mutated(value[index], draw), *value[index + 1 :]]
    return draw(json_values)


@pytest.mark.parametrize("layout", ["jsonl", "long jsonl", "prime-rl", "nemo-rl", *layouts.ENGINE, *TRACES])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_json_of_other_values(layout, data):
    name, whole = whole_files()[layout]
    text = whole.decode()
    records = json.loads(text) if name.endswith(".json") else [json.loads(line) for line in text.splitlines()]
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, len(records) - 1))
        if isinstance(records[index], dict):
            records[index] = mutated(records[index], data.draw)
    read_bytes("\n".join(json.dumps(record) for record in records).encode(), "rank_0.jsonl")


@pytest.mark.parametrize("layout", ["slime", "miles", "verl", "trl"])
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_torch_files_of_other_values(layout, data):
    content = torch.load(io.BytesIO(whole_files()[layout][1]), weights_only=True)

    def swap(value):
        if isinstance(value, dict) and value and data.draw(st.integers(0, 4)):
            key = data.draw(st.sampled_from(sorted(value)))
            return value | {key: swap(value[key])}
        if isinstance(value, list) and value and data.draw(st.integers(0, 4)):
            return [swap(value[0]), *value[1:]]
        shapes = st.lists(st.integers(0, 3), max_size=3)
        tensors = st.builds(torch.zeros, shapes, dtype=st.sampled_from([torch.float32, torch.int8, torch.complex64]))
        return data.draw(json_values | tensors)

    buffer = io.BytesIO()
    torch.save(swap(content), buffer)
    read_bytes(buffer.getvalue(), "a.pt")


class Opens:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


class Runs:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("make", [Opens, lambda path: Runs(f"touch {path}")], ids=["open", "system"])
def test_nothing_in_a_pickle_runs(tmp_path, make, protocol):
    trap = tmp_path / "trap"
    hostile = {"response_mask": make(str(trap)), "metadata": [make(str(trap))]}
    (tmp_path / "global_step_1_training_input.pkl").write_bytes(pickle.dumps(hostile, protocol))
    torch.save(hostile, tmp_path / "a.pt", pickle_protocol=max(protocol, 2))
    for name in ("global_step_1_training_input.pkl", "a.pt"):
        said = read(tmp_path / name)
        assert said is not None
        assert not trap.exists()


def test_a_traps_name_is_told(tmp_path):
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps(Runs("true")))
    assert "it asks for 'posix.system', which no dump needs" in (read(path) or "")


def test_skyrls_stand_ins_cannot_be_changed_by_a_file(tmp_path):
    """BUILD on a global sets its attributes; what it gets here is thrown away with the file."""
    path = tmp_path / "a.pkl"
    state = b"(}\x8c\x0c__setstate__\x8c\x05skyrl\x8c\x01f\x93st"
    path.write_bytes(b"\x80\x04\x8c\x05skyrl\x8c\x05Inert\x93N" + state[:1] + state[1:] + b"\x86b.")
    assert read(path) is not None
    layouts_path = layouts.write_skyrl(layouts.rollouts(), tmp_path)
    assert read(layouts_path) is None or "rollout_id" in (read(layouts_path) or "")


def bomb(kind: str) -> bytes:
    return {
        "containers": b"\x80\x04(" + b"}" * 90_000 + b"l.",
        "nested": b"\x80\x04" + b"(" * 90_000 + b".",
        "long": b"\x80\x04\x8b" + struct.pack("<I", 2**31 - 1) + b"1.",
        "bytes": b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"1.",
        "frame": b"\x80\x04\x95" + struct.pack("<Q", 2**60) + b"N.",
        "memo": b"\x80\x04Nr" + struct.pack("<I", 2**32 - 1) + b".",
        "memo text": b"\x80\x04Np4294967295\n.",
        "string": b"\x80\x04X" + struct.pack("<I", 2**32 - 1) + b"a.",
        "negative": b"\x80\x04T" + struct.pack("<i", -2) + b"a.",
        "unfinished": b"\x80\x04" + b"N" * 100,
        "nothing": b"\x80",
    }[kind]


BOMBS = [
    "containers",
    "nested",
    "long",
    "bytes",
    "frame",
    "memo",
    "memo text",
    "string",
    "negative",
    "unfinished",
    "nothing",
]


@pytest.mark.parametrize("kind", BOMBS)
def test_pickles_that_would_not_fit(tmp_path, monkeypatch, kind):
    assert MAX_OBJECTS < 1 << 30
    monkeypatch.setattr("iscope.dump.importers.scan.MAX_OBJECTS", MAX_OBJECTS // 100)
    path = tmp_path / "a.pkl"
    path.write_bytes(bomb(kind))
    with pytest.raises(DataError, match="was not unpickled"):
        load(str(path))
    archive = tmp_path / "a.pt"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a/data.pkl", bomb(kind))
    with pytest.raises(DataError, match="was not unpickled"):
        load(str(archive))


@quick
@given(st.binary(max_size=200))
@example(b"\x80\x04.")
@example(b"c\n")
def test_the_scan_is_no_laxer_than_pythons_own(data):
    """What Python's own reader of opcodes refuses, cut-off arguments above all, is refused."""
    try:
        scan(data, "a")
    except DataError:
        return
    list(pickletools.genops(data))


def test_tensors_that_claim_more_than_there_is(tmp_path):
    wide = torch.zeros(1).expand(1 << 40).view(1 << 20, 1 << 20)
    content = {"response_mask": wide, "old_log_probs": wide, "rollout_log_probs": wide}
    torch.save(content, tmp_path / "a.pt")
    assert "more than the file holds" in (read(tmp_path / "a.pt") or "")


def test_tensors_beyond_their_storage(tmp_path):
    """The size of a tensor, changed in the pickle to more than its storage has."""
    torch.save({"response_mask": torch.zeros(3, 5)}, tmp_path / "good.pt")
    with zipfile.ZipFile(tmp_path / "good.pt") as good, zipfile.ZipFile(tmp_path / "a.pt", "w") as bad:
        for entry in good.infolist():
            data = good.read(entry)
            if entry.filename.endswith("data.pkl"):
                assert data.count(b"K\x03K\x05\x86") == 1
                data = data.replace(b"K\x03K\x05\x86", b"J\xff\xff\xff\x3fK\x05\x86")
            bad.writestr(entry.filename, data)
    assert "no torch file that can be read" in (read(tmp_path / "a.pt") or "")


def test_a_compressed_archive_is_no_torch_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.pt", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a/data.pkl", b"\x00" * (1 << 26))
    assert "no file that torch.save wrote" in (read(tmp_path / "a.pt") or "")


LINES = {
    "deep": b'{"trainer_logprobs": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "deep objects": b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
    "huge integer": b'{"trainer_logprobs": [' + b"9" * 5000 + b'], "inference_logprobs": [1]}',
    "large integer": b'{"trainer_logprobs": [-1.0], "inference_logprobs": [-1.0], "step": 99999999999999999999}',
    "huge float": b'{"trainer_logprobs": [-1e999], "inference_logprobs": [-1e-999]}',
    "surrogate": b'{"trainer_logprobs": [-1.0], "inference_logprobs": [-1.0], "rollout_id": "\\ud800"}',
    "surrogate name": b'{"trainer_logprobs": [-1.0], "inference_logprobs": [-1.0], "\\ud800": [1], "\\udfff": 1}',
    "control": b'{"trainer_logprobs": [-1.0], "inference_logprobs": [-1.0], "env": "a\\u0000\\u001b[31m\\u202e"}',
    "utf-16": '{"trainer_logprobs": [-1.0], "inference_logprobs": [-1.0]}'.encode("utf-16"),
    "latin-1": b'{"trainer_logprobs": [-1.0], "env": "\xe9"}',
    "doubled key": b'{"trainer_logprobs": [-1.0], "trainer_logprobs": 1, "inference_logprobs": [-1.0]}',
    "objects": b'{"logprobs": [' + b'{"a":1},' * 1000 + b'{"logprob": 1}]}',
    "empty lists": b'{"trainer_logprobs": [], "inference_logprobs": []}',
    "text": b"trainer_logprobs,inference_logprobs\n1,2\n",
    "blank": b"\n \n\t\n",
}


@pytest.mark.parametrize("data", LINES.values(), ids=LINES)
def test_odd_lines(tmp_path, data):
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(data if name == "a.jsonl" else data + b"\n" + data)
        read(tmp_path / name)


def test_graphs_without_end(tmp_path, monkeypatch):
    """Nodes that are each other's ancestors, and a long stem with many leaves."""
    circle = [{"parent": 1, "token_ids": [1], "mask": [1]}, {"parent": 2}, {"parent": 1}, {"parent": 2}]
    stem = [{"parent": index - 1} for index in range(100)] + [{"parent": 99}] * 100
    monkeypatch.setattr("iscope.dump.importers.prime_rl_traces._MOST", 9_000)
    for nodes, said in ((circle, "a node is its own ancestor"), (stem, "more than 9,000 nodes")):
        path = layouts.lines(tmp_path / "a.jsonl", [{"traces": [{"nodes": nodes}]}])
        assert said in (read(path) or "")


def test_a_line_without_end(tmp_path):
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.write(b'{"trainer_logprobs": [')
        file.seek(3 << 30)
        file.write(b"]}")
    assert "line 1 is longer than 64 MiB" in (read(path) or "")


def test_a_compressed_line_without_end(tmp_path):
    path = tmp_path / "a.jsonl.zst"
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        file.write(b"{")
        for _ in range(100):
            file.write(b" " * (1 << 20))
    assert "line 1 is longer than 64 MiB" in (read(path) or "")


@pytest.mark.parametrize("piece", [b"{},", b"[],", b"1,"], ids=["objects", "lists", "values"])
def test_lines_of_too_much(tmp_path, piece):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"trainer_logprobs": [' + piece * 9_000_000 + b"1]}")
    assert "holds more values, lists or objects than a rollout has" in (read(path) or "")


# Each at the edge of what is let through: the dearest kinds of value for their size in the file.
DEAREST = ("0.001,", "{},")
MEMORY = """
import sys
from iscope.dump import open_dump
from iscope.errors import IscopeError
import iscope.dump.importers.long_form, iscope.dump.importers.plain, iscope.dump.importers.responses
from benchmarks.analyze import peak_bytes
base = peak_bytes()
try:
    for batch in open_dump([sys.argv[1]]).batches():
        pass
except IscopeError:
    pass
print((peak_bytes() - base) >> 20)
"""


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells the peak of this process alone")
@pytest.mark.parametrize("piece", DEAREST)
def test_a_line_takes_less_than_a_gigabyte(tmp_path, piece):
    path = tmp_path / "a.jsonl"
    most = {"{": MAX_CONTAINERS, "[": MAX_LISTS}.get(piece[0], MAX_VALUES) - 10
    path.write_bytes(b'{"trainer_logprobs": [' + piece.encode() * min(most, (MAX_LINE - 100) // len(piece)) + b"1]}")
    done = subprocess.run([sys.executable, "-c", MEMORY, path], capture_output=True, text=True, cwd=ROOT, check=True)
    assert int(done.stdout) < 1024
