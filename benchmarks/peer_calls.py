"""Replay padded batches of a dump with the frameworks' own code, in a process of its own.

python -m benchmarks.peer_calls --peer verl --dump FILE --tokens 200_000 --repeats 3

Prints one line of JSON. Nothing of iscope is imported, so that it runs in any environment that has the framework,
pyarrow and torch. A batch is 64 rollouts, padded on the right with zeros, as both frameworks pad them. Of TRL only the
statements for the weights run, without the metrics that it logs; verl's helper gives its metrics too.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import math
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch.nn.utils.rnn import pad_sequence

BATCH = 64
COLUMNS = ("trainer_logprobs", "inference_logprobs", "loss_mask")
TRL_MODES = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")
TRL_CLIP_MAX = 3.0
TRL_METHOD = "_generate_and_score_completions"
TRL_RATIO = "vllm_importance_sampling_ratio"

Ragged = tuple[list[torch.Tensor], ...]
Padded = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Replay = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]


@dataclass(frozen=True)
class Peer:
    """A framework's code, ready to be called.

    Attributes:
        version: name and version of the package.
        what: what is called.
        settings: names of the settings that are replayed one after the other.
        replay: calls it for each setting on a batch: trainer and inference logprobs in nats, float32 [64, longest], and
            the loss mask, of the kind that the framework holds.
        mask: dtype of the loss mask there.
    """

    version: str
    what: str
    settings: list[str]
    replay: Replay
    mask: torch.dtype


def verl() -> Peer:
    """Return verl's helper with each preset of its decoupled correction."""
    from verl.trainer.config.algorithm import RolloutCorrectionConfig
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_rejection_mask as helper

    names = [name for name in dir(RolloutCorrectionConfig) if name.startswith("decoupled_")]
    taken = [name for name in inspect.signature(helper).parameters if name.startswith("rollout_") and "log" not in name]
    presets = [getattr(RolloutCorrectionConfig, name)() for name in names]
    options = [{name: getattr(preset, name) for name in taken} for preset in presets]

    def replay(trainer: torch.Tensor, inference: torch.Tensor, mask: torch.Tensor) -> None:
        for each in options:
            helper(trainer, inference, mask, **each)

    return Peer(f"verl {metadata.version('verl')}", f"{helper.__name__}()", names, replay, torch.int64)


def trl() -> Peer:
    """Return TRL's four modes: its own statements, or the same expression where they are not found."""
    from trl import GRPOTrainer

    settings = [
        SimpleNamespace(
            use_vllm=True,
            vllm_importance_sampling_correction=True,
            vllm_importance_sampling_mode=mode,
            vllm_importance_sampling_clip_min=None,
            vllm_importance_sampling_clip_max=TRL_CLIP_MAX,
        )
        for mode in TRL_MODES
    ]
    own = statements(GRPOTrainer, settings[0])
    called = own or expression

    def replay(trainer: torch.Tensor, inference: torch.Tensor, mask: torch.Tensor) -> None:
        for each in settings:
            called(each, mask, None, trainer, inference)

    what = f"the statements of GRPOTrainer.{TRL_METHOD}" if own else "TRL's expression, not its code"
    return Peer(f"trl {metadata.version('trl')}", what, list(TRL_MODES), replay, torch.int64)


Weights = Callable[[Any, torch.Tensor, torch.Tensor | None, torch.Tensor, torch.Tensor], torch.Tensor]
ARGUMENTS = ("self", "completion_mask", "tool_mask", "old_per_token_logps", "sampling_per_token_logps")


def statements(trainer: type, settings: SimpleNamespace) -> Weights | None:
    """Take the weights' statements out of TRL's installed source, where they stand in the middle of a long method.

    Returns:
        A function of ``ARGUMENTS`` that runs them and returns the weights; None where this version has them otherwise.
    """
    method = getattr(trainer, TRL_METHOD, None)
    if method is None:
        return None
    tree = ast.parse(textwrap.dedent(inspect.getsource(method)))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.If) and any(map(_is_ratio, node.body))]
    if not found or not set(found) <= set(ast.walk(found[0])):
        return None
    head = f"def weights({', '.join(ARGUMENTS)}):\n"
    code = head + textwrap.indent(f"{ast.unparse(found[0])}\nreturn {TRL_RATIO}\n", "    ")
    scope: dict[str, Any] = dict(inspect.getmodule(trainer).__dict__)
    exec(compile(code, inspect.getfile(trainer), "exec"), scope)
    weights: Weights = scope["weights"]
    one = torch.ones(1, 1)
    try:
        weights(settings, one.long(), None, one, one)
    except (NameError, AttributeError):
        return None
    return weights


def _is_ratio(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == TRL_RATIO for target in node.targets
    )


def expression(
    settings: Any,
    completion_mask: torch.Tensor,
    tool_mask: torch.Tensor | None,
    old_per_token_logps: torch.Tensor,
    sampling_per_token_logps: torch.Tensor,
) -> torch.Tensor:
    """Return the weights of a mode, float32 [rollouts, longest] or [rollouts, 1], as TRL documents them."""
    mask = completion_mask if tool_mask is None else completion_mask * tool_mask
    log_ratio = ((old_per_token_logps - sampling_per_token_logps) * mask).nan_to_num(nan=0.0)
    level, action = settings.vllm_importance_sampling_mode.split("_")
    ratio = (log_ratio.sum(-1, keepdim=True) if level == "sequence" else log_ratio).exp()
    low, high = settings.vllm_importance_sampling_clip_min, settings.vllm_importance_sampling_clip_max
    if action == "truncate":
        return ratio.clamp(low, high)
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    return ratio.masked_fill((ratio < low) | (ratio > high), 0.0)


PEERS = {"verl": verl, "trl": trl}


def decoded(dump: Path, tokens: int) -> Iterator[Ragged]:
    """Yield batches of 64 rollouts, each column a list of tensors of one rollout, until ``tokens`` tokens were read."""
    with pq.ParquetFile(dump) as file:
        for batch in file.iter_batches(batch_size=BATCH, columns=list(COLUMNS), use_threads=False):
            yield tuple(_rows(batch.column(name)) for name in COLUMNS)
            tokens -= len(batch.column(COLUMNS[0]).flatten())
            if tokens <= 0:
                return


def _rows(column: pa.ListArray) -> list[torch.Tensor]:
    flat = torch.from_numpy(column.flatten().to_numpy(zero_copy_only=False).copy())
    return list(flat.split(column.value_lengths().to_pylist()))


def padded(batch: Ragged, mask: torch.dtype) -> Padded:
    """Return a batch as rectangles [64, longest], zero where there is no token."""
    trainer, inference, loss_mask = (pad_sequence(list(rows), batch_first=True) for rows in batch)
    return trainer, inference, loss_mask.to(mask)


def seconds(work: Callable[[], object]) -> float:
    """Return the wall seconds of some work."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def choose_threads(peer: Peer, batch: Padded) -> int:
    """Set and return the number of torch's threads that replays a batch sooner: one, or as many as there are.

    On a machine with other work on it the threads of each small operation wait for one another, and one is far quicker.
    """
    quickest = {}
    for threads in sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(threads)
        quickest[threads] = min(seconds(lambda: peer.replay(*batch)) for _ in range(3))
    chosen = min(quickest, key=quickest.__getitem__)
    torch.set_num_threads(chosen)
    return chosen


def measure(peer: Peer, dump: Path, tokens: int, repeats: int) -> dict[str, Any]:
    """Time the replay of what is padded, of what is in memory as lists, and of what is in the file.

    Returns:
        what was measured, and wall seconds of each run by stage; ``cpu`` is the processor time of the last stage.
    """
    ragged = list(decoded(dump, tokens))
    rectangles = [padded(batch, peer.mask) for batch in ragged]

    def run(batches: Iterator[Padded]) -> None:
        for batch in batches:
            peer.replay(*batch)

    threads = choose_threads(peer, rectangles[0])
    found: dict[str, list[float]] = {"replay": [], "padding": [], "decode": [], "cpu": []}
    for _ in range(repeats):
        found["replay"].append(seconds(lambda: run(iter(rectangles))))
        found["padding"].append(seconds(lambda: run(padded(batch, peer.mask) for batch in ragged)))
        cpu = time.process_time()
        found["decode"].append(seconds(lambda: run(padded(batch, peer.mask) for batch in decoded(dump, tokens))))
        found["cpu"].append(time.process_time() - cpu)
    return {
        "version": peer.version,
        "what": peer.what,
        "settings": peer.settings,
        "threads": threads,
        "tokens": sum(len(row) for batch in ragged for row in batch[0]),
        "cells": sum(batch[0].numel() for batch in rectangles),
        "seconds": found,
    }


def main() -> None:
    """Parse the command line and print what was measured, or the reason why the framework cannot be called."""
    parser = argparse.ArgumentParser(description="Time a framework's own code on padded batches of a dump.")
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--dump", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    try:
        peer = PEERS[options.peer]()
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    print(json.dumps(measure(peer, options.dump, options.tokens, options.repeats)))


if __name__ == "__main__":
    main()
