"""The uncorrected gradient of a loss whose tokens depend on each other, beside a recipe that uses the screen."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from iscope.analysis.recipe_rows import recipe_rows
from iscope.analysis.rows import scored_rows
from iscope.recipes.grammar import parse
from iscope.replay.losses import base_coefficient
from iscope.replay.view import token_view
from tests.golden_cases import golden_batch, ledger_of

COLUMNS = ("trainer_logprobs", "inference_logprobs", "current_logprobs", "ref_logprobs")


@pytest.mark.parametrize("beside", [[], ["icepop:0.9,1.1"]], ids=["alone", "beside"])
@pytest.mark.parametrize(
    "spec",
    [
        "verl/none:loss_type=geo_mean",
        "verl/none:loss_type=gspo",
        "trl/none:importance_sampling_level=sequence",
        "ms-swift/none:loss_type=fipo,fipo_decay_rate=4",
        "ms-swift/none:loss_type=fipo,importance_sampling_level=sequence",
    ],
)
def test_it_is_that_of_the_whole_rollout(golden, spec, beside):
    batch = golden_batch(golden, "", COLUMNS)
    recipes = [parse(text) for text in (spec, *beside)]
    ledger = ledger_of(batch, recipes)
    rows = scored_rows(ledger)
    order = torch.tensor([batch.columns["rollout_id"].to_list().index(name) for name in rows.frame["rollout_id"]])
    view, found = token_view(batch, batch.loss_mask), recipe_rows(ledger, rows, 0)
    size = base_coefficient(view, recipes[0].loss).abs() * view.uncertainty
    total = np.exp(np.logaddexp(found.log_base_gradient("positive"), found.log_base_gradient("negative")))
    expected = view.segments.sum(size)[order].numpy()
    np.testing.assert_allclose(total, expected, rtol=1e-12, atol=1e-12 * expected.max())
