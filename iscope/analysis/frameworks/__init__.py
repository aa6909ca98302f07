"""The metrics that frameworks log, under their names and with their reductions."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from iscope.analysis.recipe_rows import recipe_rows
from iscope.analysis.rows import Rows
from iscope.ledger.ledger import Ledger
from iscope.model import Figures

FRAMEWORKS = {
    "trl": "iscope.analysis.frameworks.trl",
    "prime-rl": "iscope.analysis.frameworks.prime_rl",
    "verl": "iscope.analysis.frameworks.verl",
    "nemo-rl": "iscope.analysis.frameworks.nemo_rl",
    "openrlhf": "iscope.analysis.frameworks.openrlhf",
    "open-instruct": "iscope.analysis.frameworks.open_instruct",
    "skyrl": "iscope.analysis.frameworks.skyrl",
    "slime": "iscope.analysis.frameworks.slime",
    "miles": "iscope.analysis.frameworks.miles",
    "areal": "iscope.analysis.frameworks.areal",
    "ms-swift": "iscope.analysis.frameworks.ms_swift",
}


def framework_metrics(ledger: Ledger, index: int, trained: Rows) -> Figures:
    """Metrics that the framework of a plan's recipe would have logged; empty where it has none, or not this recipe.

    Args:
        ledger: the ledger.
        index: the recipe's place in the plan.
        trained: the ledger's ``trained_rows``.
    """
    recipe = ledger.plan.recipes[index]
    module = FRAMEWORKS.get(recipe.framework)
    if module is None or (recipe.row.framework is not None and not recipe.row.base):
        return {}
    # What overflows in a framework's formula is absent from the report; it is nothing to warn about.
    with np.errstate(all="ignore"):
        metrics: Figures = import_module(module).metrics(recipe_rows(ledger, trained, index))
    return metrics
