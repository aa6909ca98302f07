"""prime-rl's token exports: ``token_exports/step_N/rank_R.jsonl``, one packed sample a line.

Layout of prime-rl's ``token_export.py``, schema version 1: every list covers the whole sample, the prompt included,
with the loss mask false there; what is not finite is null. ``trainer_logprobs`` come from the forward pass of the same
step, ``inference_logprobs`` from vLLM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from iscope.dump.importers.formats import Rows
from iscope.dump.importers.pieces import SAME_PROMPT, Record, first_true, number, same

_OWN = ("inference_logprobs", "trainer_logprobs", "loss_mask")
# The ratios that prime-rl computed are taken along: findings hold them against the logprobs.
_TOKENS = (*_OWN, "token_ids", "importance_ratio", "log_importance_ratio")
_MARKS = ("micro_step", "export_sequence_idx", "position_ids", "schema_version")


def recognises(record: Mapping[str, Any]) -> bool:
    """Return whether a record is a sample of a token export."""
    return all(name in record for name in _OWN) and any(name in record for name in _MARKS)


def rollouts(records: Iterator[tuple[str, dict[str, Any]]], path: str, say: Callable[[str], None]) -> Rows:
    """Yield each sample, prompt included."""
    for index, (place, values) in enumerate(records):
        record = Record(path, place, values)
        version = values.get("schema_version", 1)
        if version is not None and number(version) != 1:
            raise record.wrong(
                f"schema_version is {str(version)[:40]!r}, and only 1 is known; convert it to canonical columns."
            )
        for name in _OWN:
            record.needed(name)
        columns = {name: record.tokens(name) for name in _TOKENS}
        advantage = record.tokens("advantages")
        if advantage is not None and all(value is None for value in advantage):
            advantage = None  # a sample of another loss than that of RL
        record.same_lengths(columns | {"advantages": advantage})
        if index == 0:
            say(SAME_PROMPT.format(framework="prime-rl"))
        yield place, columns | {"advantage": advantage} | _labels(record)


def _labels(record: Record) -> dict[str, Any]:
    # In a run of several, its own step names the file and numbers the samples.
    step, rank, run = record.get("export_step"), record.get("rank"), record.get("run_id")
    step = record.get("step") if step is None else step
    index = record.get("export_sequence_idx")
    prompt = (record.tokens("token_ids") or ())[: first_true(record.needed("loss_mask"))]
    known = None not in (step, index)
    run_name = "" if run is None else f"{run}/"
    return {
        "rollout_id": f"{run_name}step{step}/rank{rank or 0}/{index}" if known else None,
        "group_id": same(prompt, step, run),
        "step": step,
        "trainer_version": step,  # the trainer logprobs are those of the step that consumes the sample
        "env": record.get("env_name"),
        "rank": rank,
        "reward": record.get("reward"),
    }
