"""NeMo-RL's ``train_data_step{N}.jsonl``: one sample a line, padded, the prompt included.

Layout of NeMo-RL's GRPO loop: the row slicer wraps every value in a list of one element, lists are padded to the
batch, ``input_lengths`` is the true length, index t of both logprob lists belongs to token t, and NaN and Infinity are
written as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from iscope.dump.importers.formats import Rows
from iscope.dump.importers.pieces import SAME_PROMPT, Record, first_true, number, number_in, same

_TOKENS = ("generation_logprobs", "prev_logprobs", "token_loss_mask", "token_ids", "advantages")
_NEEDED = ("generation_logprobs", "prev_logprobs", "token_loss_mask")


def recognises(record: Mapping[str, Any]) -> bool:
    """Return whether a record is a sample of NeMo-RL's training data."""
    return all(name in record for name in _NEEDED) and ("input_lengths" in record or "sample_loss_mask" in record)


def rollouts(records: Iterator[tuple[str, dict[str, Any]]], path: str, say: Callable[[str], None]) -> Rows:
    """Yield each sample without its padding; rows without tokens, which a longer first column leaves, are none."""
    step = number_in(path, r"train_data_step(\d+)")
    left = 0
    for index, (place, values) in enumerate(records):
        record = Record(path, place, {name: _unwrapped(value, name in _TOKENS) for name, value in values.items()})
        if all(not record.tokens(name) for name in _NEEDED) and values.get("generation_logprobs") is not None:
            left += 1
            continue
        if index == 0:
            say(SAME_PROMPT.format(framework="NeMo-RL"))
        yield place, _columns(record, step, index)
    if left:
        say(f"{path}: {left} rows at its end hold no tokens and were passed over.")


def _columns(record: Record, step: int | None, index: int) -> dict[str, Any]:
    for name in _NEEDED:
        record.needed(name)
    padded = {name: record.tokens(name) for name in _TOKENS}
    record.same_lengths(padded)
    length = record.count("input_lengths")
    trimmed = {name: None if value is None else value[:length] for name, value in padded.items()}
    mask = trimmed["token_loss_mask"] or ()
    trained = _is_trained(record.get("sample_loss_mask"))
    number_of = record.get("idx")
    filtered = number(record.get("filtered_rewards"))
    return {
        "trainer_logprobs": trimmed["prev_logprobs"],
        "inference_logprobs": trimmed["generation_logprobs"],
        "loss_mask": mask if trained else [0] * len(mask),
        "advantage": trimmed["advantages"],
        "token_ids": trimmed["token_ids"],
        "rollout_id": f"step{step if step is not None else '?'}/{index if number_of is None else number_of}",
        "group_id": same((trimmed["token_ids"] or ())[: first_true(mask)], step),
        "step": step,
        "reward": filtered if filtered is not None else number(record.get("rewards")),
    }


def _is_trained(sample_loss_mask: Any) -> bool:
    value = number(sample_loss_mask)
    return value is None or value > 0


def _unwrapped(value: Any, per_token: bool) -> Any:
    """Undo the row slicer's list of one element; a token list of one token is nested once more than a value is."""
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 1:
        return value
    return value[0] if not per_token or isinstance(value[0], list) else value
