"""slime's ``--save-debug-train-data``: one torch file a rollout step, written after training on it.

Layout of slime's ``train_data_utils.py``, format version 2: ``samples`` are dictionaries with the whole response's
``log_probs`` (trainer), ``rollout_log_probs`` (engine), ``loss_masks`` before rejection, and ``tokens`` with the
prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from iscope.dump.importers.formats import Rows
from iscope.dump.importers.loaded import array_of
from iscope.dump.importers.pieces import SAME_PROMPT, Record, number, same

_TOKENS = {
    "trainer_logprobs": "log_probs",
    "inference_logprobs": "rollout_log_probs",
    "ref_logprobs": "ref_log_probs",
    "loss_mask": "loss_masks",
    "advantage": "advantages",
}


def recognises(content: Mapping[str, Any]) -> bool:
    """Return whether a torch file is slime's training data."""
    return isinstance(content.get("samples"), list) and ("format_version" in content or "dp_shards" in content)


def rollouts(content: Mapping[str, Any], path: str, say: Callable[[str], None]) -> Rows:
    """Yield the response of each sample."""
    version = content.get("format_version", 2)
    head = Record(path, "the file", content)
    if number(version) != 2:
        raise head.wrong(f"format_version is {str(version)[:40]!r}, and only 2 is known.")
    say(SAME_PROMPT.format(framework="slime"))
    rewards = content.get("raw_reward")
    for index, values in enumerate(content["samples"]):
        place = f"sample {index}"
        if not isinstance(values, Mapping):
            raise head.wrong(f"{place} is no dictionary.")
        yield place, sample_columns(Record(path, place, values), content.get("rollout_id"), index, rewards)


def sample_columns(record: Record, step: Any, index: int, rewards: Any = None) -> dict[str, Any]:
    """Return the columns of one sample of slime or miles.

    Args:
        record: the sample.
        step: the rollout step.
        index: its number in the file, for want of its own.
        rewards: the whole batch's rewards before normalisation, by rollout position.
    """
    columns = {
        name: None if record.get(own) is None else array_of(record.get(own), record.path, own)
        for name, own in _TOKENS.items()
    }
    tokens = None if record.get("tokens") is None else array_of(record.get("tokens"), record.path, "tokens")
    length = record.count("response_lengths")
    if length is None:
        length = next((len(value) for value in columns.values() if value is not None and value.ndim == 1), 0)
    for name, value in columns.items():
        if value is not None and value.shape != (length,):
            raise record.wrong(f"{_TOKENS[name]!r} is {list(value.shape)}, but the response has {length} tokens.")
    own = number(record.get("sample_index"))
    ids = None if tokens is None or tokens.ndim != 1 or len(tokens) < length else tokens
    return columns | {
        "token_ids": None if ids is None else ids[len(ids) - length :],
        "rollout_id": f"{number(step)}/{index if own is None else own}",
        "group_id": None if ids is None else same(ids[: len(ids) - length], number(step)),
        "step": number(step),
        "reward": _reward(record, rewards),
        "finish_reason": _finish(record.get("truncated")),
    }


def _reward(record: Record, rewards: Any) -> float | int | None:
    position = number(record.get("rollout_position"))
    if isinstance(rewards, list) and isinstance(position, int) and 0 <= position < len(rewards):
        return number(rewards[position])
    local = number(record.get("local_raw_reward"))
    return local if local is not None else number(record.get("rewards"))


def _finish(truncated: Any) -> str | None:
    value = number(truncated)
    value = truncated if isinstance(truncated, bool) else value
    return None if value is None else "length" if value else "stop"
