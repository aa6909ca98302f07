"""verl's batches: a torch-saved dict of padded tensors, as ``dict(batch.batch)`` is, or with that under ``batch``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from iscope.dump.importers.formats import Rows
from iscope.dump.importers.padded import matrix, sliced
from iscope.dump.importers.pieces import number, number_in
from iscope.errors import DataError

_TOKENS = {
    "trainer_logprobs": "old_log_probs",
    "inference_logprobs": "rollout_log_probs",
    "ref_logprobs": "ref_log_prob",
    "advantage": "advantages",
    "token_ids": "responses",
}
_LISTS = {"group_id": "uid", "env": "data_source"}


def recognises(content: Mapping[str, Any]) -> bool:
    """Return whether a torch file is a batch of verl."""
    return "response_mask" in _batch(content) and "rollout_log_probs" in _batch(content)


def rollouts(content: Mapping[str, Any], path: str, say: Callable[[str], None]) -> Rows:  # noqa: ARG001 - one signature for all formats
    """Yield each response without its padding; ``uid`` and other lists may stand beside the tensors."""
    batch = _batch(content)
    mask = matrix(batch, "response_mask", path)
    if mask is None:
        raise DataError(f"{path}: there is no 'response_mask'.")
    rows, width = mask.shape
    columns: dict[str, Any] = {name: matrix(batch, own, path, rows) for name, own in _TOKENS.items()}
    columns["loss_mask"] = mask
    attention = matrix(batch, "attention_mask", path, rows)
    present = mask if attention is None or attention.shape[1] < width else attention[:, attention.shape[1] - width :]
    scores = matrix(batch, "token_level_scores", path, rows)
    step = number(content.get("global_steps", content.get("global_step")))
    step = number_in(path, r"(?:step_?|/)(\d+)[^/]*$") if step is None else step
    beside = _beside(content, rows)
    for row, values in sliced(columns, np.maximum(present != 0, mask != 0), path):
        reward = None if scores is None else float(scores[row].sum())
        name = f"{path}#{row}" if step is None else f"{step}/{row}"
        yield (
            f"row {row}",
            {"rollout_id": name, "step": step, "reward": reward}
            | values
            | {name: column[row] for name, column in beside.items()},
        )


def _batch(content: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = content.get("batch")
    return inner if isinstance(inner, Mapping) else content


def _beside(content: Mapping[str, Any], rows: int) -> dict[str, list[Any]]:
    found = {}
    for place in (content, content.get("non_tensor_batch"), _batch(content)):
        for name, own in _LISTS.items():
            values = place.get(own) if isinstance(place, Mapping) else None
            if isinstance(values, list) and len(values) == rows:
                found[name] = values
    return found
