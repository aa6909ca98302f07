"""SkyRL's ``global_step_{N}_training_input.pkl``: the training batch, right-aligned.

Layout of SkyRL's ``training_batch.py``: ``response_mask`` marks the last positions of [B, A] arrays; left of them
``action_log_probs`` hold logprobs of the prompt. The last ``pad_size`` rows repeat the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from iscope.dump.importers.formats import Rows
from iscope.dump.importers.padded import matrix, sliced
from iscope.dump.importers.pieces import number, number_in
from iscope.errors import DataError

_TOKENS = {
    "trainer_logprobs": "action_log_probs",
    "inference_logprobs": "rollout_logprobs",
    "ref_logprobs": "base_action_log_probs",
    "advantage": "advantages",
    "loss_mask": "loss_mask",
}


def recognises(content: Mapping[str, Any]) -> bool:
    """Return whether a pickle is a training batch of SkyRL."""
    return content.get("skyrl training batch") is True


def rollouts(content: Mapping[str, Any], path: str, say: Callable[[str], None]) -> Rows:
    """Yield the response of each row, the copies that pad the batch left out.

    Raises:
        DataError: when there is no response mask, or shapes disagree.
    """
    present = matrix(content, "response_mask", path)
    if present is None:
        raise DataError(f"{path}: its training batch has no 'response_mask'.")
    rows, width = present.shape
    columns: dict[str, Any] = {name: matrix(content, own, path, rows) for name, own in _TOKENS.items()}
    sequences = matrix(content, "sequences", path, rows)
    if sequences is not None and sequences.shape[1] >= width:
        columns["token_ids"] = sequences[:, sequences.shape[1] - width :]
    metadata = content.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    if columns["trainer_logprobs"] is None:
        say(f"{path}: SkyRL skipped the forward pass of the old policy: there are no trainer logprobs.")
    step = number_in(path, r"global_step_(\d+)")
    padding = int(max(number(metadata.get("pad_size")) or 0, 0))
    groups = _groups(metadata.get("policy_prompt_boundaries"), rows)
    for row, values in sliced(columns, present, path):
        if row >= rows - padding:
            return
        group = None if groups is None or groups[row] < 0 else f"{step}/{groups[row]}"
        yield f"row {row}", {"rollout_id": f"{step}/{row}", "group_id": group, "step": step} | values


def _groups(boundaries: Any, rows: int) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """Return int64 [N], which prompt each row belongs to, -1 where none is told; None without boundaries."""
    if not isinstance(boundaries, list) or not boundaries:
        return None
    groups = np.full(rows, -1, np.int64)
    for index, pair in enumerate(boundaries):
        if isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(edge, int) for edge in pair):
            groups[slice(*pair)] = index
    return groups
