"""miles' ``dashboard_columns/rollout_{id}.parquet``: the inference side; tokens begin with the prompt's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from iscope.dump.importers.formats import Rows
from iscope.dump.importers.pieces import Record, number_in

_OWN = ("sample_index", "response_length", "total_length", "rollout_log_probs")


def recognises(columns: Mapping[str, Any]) -> bool:
    """Return whether a Parquet file has the columns of miles' dashboard."""
    return all(name in columns for name in _OWN)


def rollouts(records: Iterator[tuple[str, dict[str, Any]]], path: str, say: Callable[[str], None]) -> Rows:
    """Yield the response of each sample."""
    step = number_in(path, r"rollout_(\d+)\.parquet$")
    for index, (place, values) in enumerate(records):
        if index == 0:
            say("The columns of miles' dashboard hold the engine's logprobs alone: they are the inference side.")
        record = Record(path, place, values)
        logprobs = record.tokens("rollout_log_probs")
        tokens, mask = record.tokens("tokens"), record.tokens("loss_mask")
        length = record.count("response_length")
        if length is None and logprobs is not None:
            length = len(logprobs)
        if tokens is not None and length is not None:
            tokens = tokens[max(len(tokens) - length, 0) :]
        record.same_lengths({"rollout_log_probs": logprobs, "tokens": tokens, "loss_mask": mask})
        yield (
            place,
            {
                "inference_logprobs": logprobs,
                "token_ids": tokens,
                "loss_mask": mask,
                "rollout_id": f"{step}/{values.get('sample_index')}",
                "step": step,
            },
        )
