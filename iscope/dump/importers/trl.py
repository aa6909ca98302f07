"""TRL's generation batch: what ``_generate_and_score_completions`` returned, saved with torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from iscope.dump.importers.formats import Rows
from iscope.dump.importers.loaded import array_of
from iscope.dump.importers.padded import matrix, sliced
from iscope.dump.importers.pieces import SAME_PROMPT, number, number_in, same
from iscope.errors import DataError

_TOKENS = {
    "trainer_logprobs": "old_per_token_logps",
    "inference_logprobs": "sampling_per_token_logps",
    "ref_logprobs": "ref_per_token_logps",
    "token_ids": "completion_ids",
}


def recognises(content: Mapping[str, Any]) -> bool:
    """Return whether a torch file is a generation batch of TRL."""
    return "completion_mask" in content and "sampling_per_token_logps" in content


def rollouts(content: Mapping[str, Any], path: str, say: Callable[[str], None]) -> Rows:
    """Yield each completion without its padding."""
    present = matrix(content, "completion_mask", path)
    if present is None:
        raise DataError(f"{path}: there is no 'completion_mask'.")
    rows = len(present)
    say(SAME_PROMPT.format(framework="TRL"))
    columns: dict[str, Any] = {name: matrix(content, own, path, rows) for name, own in _TOKENS.items()}
    tools = matrix(content, "tool_mask", path, rows)
    columns["loss_mask"] = present if tools is None else present * tools
    if content.get("advantages") is not None:
        columns["advantage"] = array_of(content["advantages"], path, "advantages")
    prompts, prompt_mask = (matrix(content, name, path, rows) for name in ("prompt_ids", "prompt_mask"))
    step = number(content.get("step"))
    step = number_in(path, r"step_?(\d+)[^/]*$") if step is None else step
    for row, values in sliced(columns, present, path):
        prompt = (
            None if prompts is None else prompts[row] if prompt_mask is None else prompts[row][prompt_mask[row] != 0]
        )
        labels = {"rollout_id": f"{path}#{row}" if step is None else f"{step}/{row}", "step": step}
        yield f"row {row}", labels | {"group_id": same(prompt, step)} | values
