"""The gap between engine and trainer is within the gates of iscope.toml: run ``pytest``."""

from __future__ import annotations

from iscope.integrations.pytest_plugin import Checker


def test_engine_and_trainer_agree(iscope_check: Checker) -> None:
    """The dump that make_dump.py wrote passes every gate."""
    iscope_check("dump")
