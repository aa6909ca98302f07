"""prime-rl's traces: ``traces/stream/NNNNN.jsonl`` (episodes, the inference side) and ``traces/annotations/trainer/``.

Layout of prime-rl's file monitor and of verifiers' episodes: a trace is a graph of nodes, a branch the path from its
root to a leaf, leaves in order. ``mask`` marks a node's sampled tokens and ``logprobs`` has one value for each of them.
An annotation names a trace and has, for each branch, one value per token of the path, null off the loss mask. Both are
rounded to 4 decimals unless the run asked otherwise. A node that several branches share trains in the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from iscope.dump.importers.formats import Rows
from iscope.dump.importers.pieces import Record, number

_ROUNDED = (
    "prime-rl rounds the logprobs of its traces to 4 decimals (float_decimals): log-ratios are off by up to 1e-4 a "
    "token, and k3 below about 5e-9 cannot be told."
)
# Nodes and tokens over all branches of an episode: more is no conversation, but a graph made to take for ever.
_MOST = 8_000_000


def recognises(record: Mapping[str, Any]) -> bool:
    """Return whether a record is an episode with token-level nodes, or an annotation."""
    if isinstance(record.get("branches"), list) and "trace_id" in record:
        return True
    traces = record.get("traces")
    return isinstance(traces, list) and all(isinstance(trace, Mapping) and "nodes" in trace for trace in traces)


def rollouts(records: Iterator[tuple[str, dict[str, Any]]], path: str, say: Callable[[str], None]) -> Rows:
    """Yield each branch of each trace: with the engine's logprobs of an episode, or the trainer's of an annotation."""
    say(_ROUNDED)
    for place, values in records:
        record = Record(path, place, values)
        yield from _annotated(record) if "trace_id" in values else _episode(record)


def _annotated(record: Record) -> Rows:
    for branch in _maps(record, record.get("branches"), "branches"):
        logprobs = Record(record.path, record.place, branch).tokens("trainer_logprobs")
        if logprobs is not None:
            yield (
                record.place,
                {
                    "rollout_id": f"{record.get('trace_id')}/{number(branch.get('index'))}",
                    "trainer_logprobs": logprobs,
                },
            )


def _episode(record: Record) -> Rows:
    run, env, group = (_map(record.get(name)) for name in ("run", "env", "group"))
    work = _map(run.get("work"))
    labels = {
        "step": number(work.get("step")),
        "policy_version": number(_map(work.get("policy")).get("start")),
        "env": env.get("name") or env.get("id"),
        "group_id": group.get("id"),
    }
    for trace in _maps(record, record.get("traces"), "traces"):
        nodes = _maps(record, trace.get("nodes"), "nodes")
        name = trace.get("id", record.get("id"))
        trained: set[int] = set()
        tokens = 0
        for index, branch in enumerate(_branches(record, nodes)):
            columns = _branch(record, nodes, branch, trained)
            trained |= set(branch)
            tokens += len(columns["token_ids"])
            if tokens > _MOST:
                raise record.wrong(f"its branches hold more than {_MOST:,} tokens together.")
            if any(columns["loss_mask"]):
                yield record.place, labels | {"rollout_id": f"{name}/{index}"} | columns


def _branch(record: Record, nodes: list[Mapping[str, Any]], branch: list[int], trained: set[int]) -> dict[str, Any]:
    """The columns of one path, nodes that trained in a branch before left out of the loss."""
    ids: list[Any] = []
    mask: list[bool] = []
    logprobs: list[Any] = []
    for index in branch:
        node = Record(record.path, f"{record.place}, node {index}", nodes[index])
        own, sampled = node.tokens("token_ids") or [], node.tokens("mask") or []
        values = node.tokens("logprobs") or []
        count = sum(1 for flag in sampled if flag)
        if len(own) != len(sampled) or (values and len(values) != count):
            raise node.wrong(f"{len(own)} tokens, {len(sampled)} in 'mask' and {len(values)} logprobs do not fit.")
        following = iter(values)
        logprobs += [next(following, None) if flag else None for flag in sampled]
        mask += [bool(flag) and index not in trained for flag in sampled]
        ids += own
    return {"token_ids": ids, "loss_mask": mask, "inference_logprobs": logprobs}


def _branches(record: Record, nodes: list[Mapping[str, Any]]) -> Iterator[list[int]]:
    """Yield the path from the root to each leaf, leaves in order."""
    parents = [node.get("parent") for node in nodes]
    inner = {parent for parent in parents if isinstance(parent, int)}
    walked = 0
    for leaf in (index for index in range(len(nodes)) if index not in inner):
        path: list[int] = []
        at: Any = leaf
        while isinstance(at, int) and 0 <= at < len(nodes):
            path.append(at)
            at = parents[at]
            if len(path) > len(nodes):
                raise record.wrong("a node is its own ancestor.")
        walked += len(path)
        if walked > _MOST:
            raise record.wrong(f"its branches hold more than {_MOST:,} nodes together.")
        yield path[::-1]


def _maps(record: Record, value: Any, name: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise record.wrong(f"{name!r} must be a list of objects.")
    return value


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
