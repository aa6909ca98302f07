from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import pytest
from llvmlite import binding
from numba.core.caching import IndexDataCacheFile

from iscope.replay.compiled import compiled, compiling, take_full_width


def test_what_cannot_be_kept_is_compiled_all_the_same() -> None:
    """A function that is in no file has no place beside it."""
    names: dict[str, Any] = {}
    exec("def successor(x):\n    return x + 1", names)
    assert compiled()(names["successor"])(1) == 2


def test_a_full_disk_does_not_keep_a_loop_from_running(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def full(*_: Any) -> None:
        asked.append(1)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "save", full)

    def predecessor(x: int) -> int:
        return x - 1

    assert compiled()(predecessor)(1) == 0
    assert asked


@pytest.mark.parametrize(
    ("machine", "asked", "expected"),
    [
        ("+avx512f,+avx512vbmi2", None, "+avx512f,+avx512vbmi2,-prefer-256-bit"),
        ("+avx512f,+avx512vbmi2", "+avx2", "+avx2"),
        ("+avx512f,-avx512vbmi2", None, None),
        ("+neon", None, None),
    ],
)
def test_vectors_are_as_wide_as_the_machine_runs_at_full_speed(
    monkeypatch: pytest.MonkeyPatch, machine: str, asked: str | None, expected: str | None
) -> None:
    monkeypatch.setattr(numba.config, "CPU_FEATURES", asked)
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: SimpleNamespace(flatten=lambda: machine))
    take_full_width()
    assert expected == numba.config.CPU_FEATURES


def test_a_loop_is_compiled_anew_where_one_that_it_calls_has_changed(tmp_path: Path) -> None:
    """Each version of the inner loop in a process of its own, as after an edit."""
    (tmp_path / "outer.py").write_text(
        "from inner import successor\n"
        "from iscope.replay.compiled import compiled\n\n"
        "@compiled()\ndef twice(x):\n    return successor(successor(x))\n\nprint(twice(1))\n"
    )
    inner = "from iscope.replay.compiled import compiled\n\n@compiled()\ndef successor(x):\n    return x + {}\n"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    found = []
    for step in ("1", "1", "10"):
        (tmp_path / "inner.py").write_text(inner.format(step))
        command = [sys.executable, "-B", str(tmp_path / "outer.py")]
        found.append(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    assert found == ["3\n", "3\n", "21\n"]


def test_it_is_told_when_a_loop_is_compiled() -> None:
    told: list[int] = []
    names: dict[str, Any] = {}
    exec("def half(x):\n    return x / 2", names)  # of no file, so that it was not kept
    loop = compiled()(names["half"])
    with compiling(lambda: told.append(1)):
        assert loop(3.0) == 1.5
        assert told
        del told[:]
        loop(5.0)
    loop(7)
    assert not told


def test_a_machine_that_llvm_cannot_tell_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Any:
        raise RuntimeError("failed to get host cpu features.")

    monkeypatch.setattr(numba.config, "CPU_FEATURES", None)
    monkeypatch.setattr(binding, "get_host_cpu_features", unknown)
    take_full_width()
    assert numba.config.CPU_FEATURES is None


def test_a_loop_may_call_one_that_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {}
    exec("def third(x):\n    return x / 3", names)
    monkeypatch.setitem(globals(), "third", compiled()(names["third"]))

    def ninth(x: float) -> float:
        return third(third(x))  # type: ignore[name-defined, no-any-return]  # noqa: F821

    assert compiled()(ninth)(18.0) == 2.0
