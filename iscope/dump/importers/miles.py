"""miles' ``train_data/{id}_{rank}.pt``: the columns of the samples that one data-parallel rank trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from iscope.dump.importers.formats import Rows
from iscope.dump.importers.pieces import SAME_PROMPT, Record, number
from iscope.dump.importers.slime_train import sample_columns

_COLUMNS = (
    "tokens",
    "response_lengths",
    "loss_masks",
    "rewards",
    "truncated",
    "sample_index",
    "rollout_log_probs",
    "log_probs",
    "ref_log_probs",
    "advantages",
)


def recognises(content: Mapping[str, Any]) -> bool:
    """Return whether a torch file is miles' training data."""
    return isinstance(content.get("rollout_data"), Mapping) and "rollout_id" in content


def rollouts(content: Mapping[str, Any], path: str, say: Callable[[str], None]) -> Rows:
    """Yield the response of each sample.

    Raises:
        DataError: when the rank holds slices of sequences only, or no trainer logprobs.
    """
    head = Record(path, "the file", content)
    if (number(content.get("cp_size")) or 1) > 1:
        raise head.wrong("context-parallel ranks hold slices of each sequence; dump with a context-parallel size of 1.")
    data = dict(content["rollout_data"])
    data["sample_index"] = data.get("sample_indices")
    if data.get("log_probs") is None:
        raise head.wrong("there are no 'log_probs': only the last pipeline stage has the trainer's logprobs.")
    rows = len(Record(path, "the file", data).needed("log_probs"))
    lists = {name: data[name] for name in _COLUMNS if isinstance(data.get(name), list)}
    for name, values in lists.items():
        if len(values) != rows:
            raise head.wrong(f"{name!r} has {len(values)} samples, but 'log_probs' {rows}.")
    say(SAME_PROMPT.format(framework="miles"))
    for index in range(rows):
        record = Record(path, f"sample {index}", {name: values[index] for name, values in lists.items()})
        yield record.place, sample_columns(record, content.get("rollout_id"), index)
