"""Record the rollouts of a TRL run: three lines, and every step is a file of a dump."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, Self

from iscope.dump.rollout_writer import RolloutWriter
from iscope.errors import UsageError

_GENERATE, _REWARD = "_generate_and_score_completions", "_calculate_rewards"
_SETTINGS = ("temperature", "top_p", "top_k", "min_p")


def record(trainer: Any, folder: str | os.PathLike[str], *, settings: Mapping[str, Any] | None = None) -> Recorder:
    """Write every generation batch of a ``GRPOTrainer`` to a dump, from now until training ends.

    Taken from what TRL 1.16's ``_generate_and_score_completions`` returns, before it shuffles the rows: the engine's
    and the trainer's logprobs in nats, reference logprobs, masks, token ids, advantages, rewards, groups and versions.
    Needs ``use_vllm`` with ``vllm_importance_sampling_correction`` for both policies' logprobs. Evaluation batches are
    left alone.

    Args:
        trainer: the trainer, before ``train()``.
        folder: where the files go, one per process and step.
        settings: how tokens are sampled, where it differs from the trainer's own arguments.

    Returns:
        The recorder; its ``close`` writes what is held, which the end of training does too.

    Raises:
        UsageError: when the trainer is none of GRPO.
    """
    if not callable(getattr(trainer, _GENERATE, None)):
        raise UsageError(f"record: {type(trainer).__name__} has no {_GENERATE}; pass TRL's GRPOTrainer.")
    return Recorder(trainer, folder, settings or {})


class Recorder:
    """What stands between a trainer's batches and a dump."""

    def __init__(self, trainer: Any, folder: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
        """Put itself around the trainer's methods; see ``record``."""
        self._trainer, self._batches, self._rewards = trainer, 0, None
        self._rank = int(trainer.accelerator.process_index)
        self._writer = RolloutWriter(folder, rank=self._rank, settings=_settings(trainer) | dict(settings))
        self._generate = getattr(trainer, _GENERATE)
        setattr(trainer, _GENERATE, self._recorded)
        if callable(getattr(trainer, _REWARD, None)):
            self._calculate = getattr(trainer, _REWARD)
            setattr(trainer, _REWARD, self._rewarded)
        trainer.add_callback(_AtEnd(self))

    def close(self) -> None:
        """Write what is held; batches after this are not recorded."""
        self._writer.close()

    def __enter__(self) -> Self:
        """Return the recorder."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _recorded(self, inputs: Any, *args: Any, **options: Any) -> Any:
        output = self._generate(inputs, *args, **options)
        if self._trainer.model.training and not self._writer.closed:
            self._write(output)
        return output

    def _rewarded(self, *args: Any, **options: Any) -> Any:
        """Keep the rewards [all rows, functions]: TRL gathers them over processes and does not return them."""
        self._rewards = self._calculate(*args, **options)
        return self._rewards

    def _write(self, output: Mapping[str, Any]) -> None:
        trainer, old, sampled = self._trainer, output.get("old_per_token_logps"), output.get("sampling_per_token_logps")
        if old is None or sampled is None:
            missing = "trainer" if old is None else "engine"
            warnings.warn(
                f"iscope: TRL computed no {missing} logprobs, so they are not recorded; train with use_vllm=True and "
                "vllm_importance_sampling_correction=True.",
                stacklevel=2,
            )
            if old is None and sampled is None:
                return
        mask = output["completion_mask"]
        step, rows = int(trainer.state.global_step), len(mask)
        first = self._rank * rows
        loaded = getattr(trainer, "_last_loaded_step", None)
        self._writer.add(
            step=step,
            trainer_logprobs=old,
            inference_logprobs=sampled,
            ref_logprobs=output.get("ref_per_token_logps"),
            loss_mask=mask if output.get("tool_mask") is None else mask * output["tool_mask"],
            advantage=output["advantages"],
            token_ids=output["completion_ids"],
            present=mask,
            rollout_id=[f"{step}/{self._batches}/{first + row}" for row in range(rows)],
            group_id=[f"{step}/{self._batches}/{(first + row) // trainer.num_generations}" for row in range(rows)],
            reward=self._own_rewards(first, rows),
            policy_version=step if loaded is None or loaded < 0 else int(loaded),
            trainer_version=step,
        )
        self._batches += 1

    def _own_rewards(self, first: int, rows: int) -> Any:
        """This process's rewards [rows], the functions' weighted sum; None where TRL gave none."""
        if self._rewards is None or len(self._rewards) < first + rows:
            return None
        weights = self._trainer.reward_weights.to(self._rewards.device)
        return (self._rewards * weights).nansum(dim=1)[first : first + rows]


class _AtEnd:
    """A callback of transformers' Trainer, told by its names alone: closes the recorder when training ends."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return self._ended if name == "on_train_end" else _nothing

    def _ended(self, *_: Any, **__: Any) -> None:
        self._recorder.close()


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing at the other events of a Trainer."""


def _settings(trainer: Any) -> dict[str, Any]:
    found = {name: getattr(trainer, name, None) for name in _SETTINGS}
    if getattr(trainer, "use_vllm", False) and getattr(trainer, "vllm_mode", None) == "colocate":
        found["logprobs_mode"] = "processed_logprobs"
    return {name: value for name, value in found.items() if value is not None}
