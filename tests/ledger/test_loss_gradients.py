"""The ledger's gradient of a recipe is that of its loss on the tokens themselves, whatever the loss type."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from iscope.analysis.recipe_rows import recipe_rows
from iscope.analysis.rows import scored_rows
from iscope.recipes.grammar import parse
from iscope.replay.correction import correct
from iscope.replay.losses import base_coefficient, loss_terms
from iscope.replay.view import token_view
from tests.golden_cases import ledger_of
from tests.test_losses import LOSS_TYPES, batch_of, random_rollouts

MODES = ("none", "token_mask:clip_min=0.6,clip_max=1.6", "token_truncate:clip_max=1.3", "sequence_mask:clip_max=2.5")
EXTRAS = ("", ",off_policy_mask_threshold=0.05", ",epsilon_high=0.5,delta=1.2")


def texts(loss_type, level):
    loss = f"loss_type={loss_type},importance_sampling_level={level}"
    modes = [mode for mode in MODES if not (loss_type == "vespo" and mode.startswith("sequence"))]
    return [f"trl/{mode}{',' if ':' in mode else ':'}{loss}{extra}" for mode in modes for extra in EXTRAS]


@pytest.mark.parametrize("current", [True, False])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_gradients(loss_type, level, current):
    rollouts = random_rollouts(7, (5, 0, 1, 9, 30, 7, 40), (1.5, -1.0, -0.7, 0.0, 2.0, -0.3, -2.0), spread=0.2)
    batch = batch_of(rollouts, current)
    recipes = [parse(text) for text in texts(loss_type, level)]
    ledger = ledger_of(batch, recipes)
    rows = scored_rows(ledger)
    order = [batch.columns["rollout_id"].to_list().index(name) for name in rows.frame["rollout_id"]]
    view = token_view(batch, None)
    for index, recipe in enumerate(recipes):
        found = recipe_rows(ledger, rows, index)
        terms = loss_terms(view, recipe, correct(view, recipe))
        base = base_coefficient(view, recipe.loss)
        for logs, coefficient in ((found.log_gradient, terms.coefficient), (found.log_base_gradient, base)):
            total = np.exp(np.logaddexp(logs("positive"), logs("negative")))
            expected = view.segments.sum(coefficient.abs() * view.uncertainty)[torch.tensor(order)].numpy()
            assert expected.max() > 0
            np.testing.assert_allclose(total, expected, rtol=1e-9, atol=1e-12 * expected.max(), err_msg=recipe.spec)
