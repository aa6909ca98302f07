"""Thresholds and baselines -> verdicts.

``judge`` holds a report against gates, ``default_gates`` are those that apply where nobody wrote any, and ``hold`` does
both for a configuration (``read_config``, ``find_config``) and a baseline.
"""

from __future__ import annotations

from iscope.gates.baseline import Baseline, baseline_of, read_baseline
from iscope.gates.config import Config
from iscope.gates.defaults import default_gates
from iscope.gates.hold import Held, hold
from iscope.gates.judge import judge
from iscope.gates.model import Gate
from iscope.gates.toml import find_config, read_config

__all__ = [
    "Baseline",
    "Config",
    "Gate",
    "Held",
    "baseline_of",
    "default_gates",
    "find_config",
    "hold",
    "judge",
    "read_baseline",
    "read_config",
]
