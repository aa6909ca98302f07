from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent

# A shell lets what it starts in the background ignore Ctrl-C, and so would all that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("local", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every test the same terminal: 80 columns, no colour forced or forbidden from outside."""
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of golden values: what the frameworks' own code gave."""
    return ROOT / "tests" / "data" / "golden"


@pytest.fixture(scope="session")
def sample() -> Path:
    """The folder of real dumps, reduced to the columns that figures need."""
    return ROOT / "tests" / "data" / "sample"


@pytest.fixture(scope="session")
def sample_data() -> Path:
    """The sample data that users get."""
    return ROOT / "sample_data"
