"""slime's ``--save-debug-rollout-data`` and miles' ``rollout_data/``: the engine's samples, the inference side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from iscope.dump.importers.formats import Rows
from iscope.dump.importers.loaded import array_of
from iscope.dump.importers.pieces import Record, number


def recognises(content: Mapping[str, Any]) -> bool:
    """Return whether a torch file is slime's or miles' rollout data."""
    return isinstance(content.get("samples"), list) and "rollout_id" in content and "format_version" not in content


def rollouts(content: Mapping[str, Any], path: str, say: Callable[[str], None]) -> Rows:
    """Yield the response of each sample; one that is to be removed has no loss token."""
    say("Rollout data hold the engine's logprobs alone: they are the inference side.")
    step = number(content.get("rollout_id"))
    for index, values in enumerate(content["samples"]):
        place = f"sample {index}"
        if not isinstance(values, Mapping):
            raise Record(path, place, {}).wrong("it is no dictionary.")
        yield place, _columns(Record(path, place, values), step, index)


def _columns(record: Record, step: float | None, index: int) -> dict[str, Any]:
    length = record.count("response_length")
    arrays = {
        name: None if record.get(name) is None else array_of(record.get(name), record.path, name)
        for name in ("rollout_log_probs", "loss_mask", "tokens")
    }
    logprobs, mask, tokens = arrays.values()
    if length is None:
        length = 0 if logprobs is None else len(logprobs)
    for name, value in (("rollout_log_probs", logprobs), ("loss_mask", mask)):
        if value is not None and value.shape != (length,):
            raise record.wrong(f"{name!r} is {list(value.shape)}, but the response has {length} tokens.")
    trained = [1] * length if mask is None else mask
    own = number(record.get("index"))
    return {
        "inference_logprobs": logprobs,
        "loss_mask": [0] * length if record.get("remove_sample") is True else trained,
        "token_ids": None if tokens is None or tokens.ndim != 1 else tokens[max(len(tokens) - length, 0) :],
        "rollout_id": f"{step}/{index if own is None else own}",
        "group_id": _group(step, number(record.get("group_index"))),
        "step": step,
        "reward": number(record.get("reward")),
        "policy_version": _version(record.get("weight_versions")),
        "finish_reason": record.get("status"),
    }


def _group(step: float | None, group: float | None) -> str | None:
    return None if group is None else f"{step}/{group}"


def _version(versions: Any) -> int | str | None:
    """The version that began the rollout: the one that most of a short rollout comes from, the oldest of a long one."""
    first = versions[0] if isinstance(versions, list) and versions else versions
    if isinstance(first, str):
        return int(first) if first.isascii() and first.isdecimal() and len(first) < 18 else first[:64]
    value = number(first)
    return int(value) if value is not None else None
