"""The formats that iscope imports: a table of strings, resolved on use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pyarrow as pa

from iscope.errors import UsageError, did_you_mean

Rows = Iterator[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Format:
    """A way in which frameworks write rollouts.

    Attributes:
        name: what ``--from`` calls it.
        module: the module below ``iscope.dump.importers`` with its ``recognises`` and ``rollouts``.
        container: ``json`` (lines), ``torch`` (torch.save), ``pickle`` or ``parquet``.
        file: a regular expression that the names of its files match, for folders; and the word for it in errors.
        about: what it is, for help and errors.
        exact: whether its logprobs are float64 as written; else they are float32 in the trainer.
    """

    name: str
    module: str
    container: str
    file: str
    about: str
    exact: bool = False

    @property
    def floats(self) -> pa.DataType:
        """The Arrow type of its logprobs."""
        return pa.float64() if self.exact else pa.float32()

    def recognises(self, content: Mapping[str, Any]) -> bool:
        """Return whether the first record, or the whole of a torch file or pickle, is of this format."""
        return bool(self._member("recognises")(content))

    def rollouts(self, content: Any, path: str, say: Callable[[str], None]) -> Rows:
        """Yield each rollout's place in the file and its columns.

        Args:
            content: the records of a JSON file, or the content of a torch file or pickle.
            path: the file.
            say: takes a sentence about what had to be assumed.

        Raises:
            DataError: when the content is not what the format says.
        """
        rows: Rows = self._member("rollouts")(content, path, say)
        return rows

    def names(self, path: str) -> bool:
        """Return whether a file is named as this format names its files."""
        return re.search(self.file, path) is not None

    def _member(self, name: str) -> Any:
        return getattr(import_module(f"iscope.dump.importers.{self.module}"), name)


_JSONL = r"\.(jsonl|ndjson|json)(\.zst|\.gz)?$"

FORMATS: dict[str, tuple[Format, ...]] = {
    "prime-rl": (
        Format("prime-rl", "prime_rl", "json", r"rank_\d+\.jsonl(\.zst|\.gz)?$", "token_exports/step_N/rank_R.jsonl"),
        Format(
            "prime-rl", "prime_rl_traces", "json", r"/\d+\.jsonl(\.zst|\.gz)?$", "traces/stream, traces/annotations"
        ),
    ),
    "nemo-rl": (Format("nemo-rl", "nemo_rl", "json", r"train_data_step\d+\.jsonl$", "train_data_stepN.jsonl"),),
    "vllm": (Format("vllm", "responses", "json", _JSONL, "responses with logprobs of vLLM or an OpenAI-style server"),),
    "long": (Format("long", "long_form", "json", _JSONL, "one row per token", exact=True),),
    "jsonl": (Format("jsonl", "plain", "json", _JSONL, "JSON lines of the canonical columns", exact=True),),
    "slime": (
        Format("slime", "slime_train", "torch", r"\.pt$", "--save-debug-train-data"),
        Format("slime", "slime_rollout", "torch", r"\.pt$", "--save-debug-rollout-data"),
    ),
    "miles": (
        Format("miles", "miles", "torch", r"\.pt$", "train_data/ID_RANK.pt"),
        Format("miles", "slime_rollout", "torch", r"\.pt$", "rollout_data/ID.pt"),
        Format("miles", "miles_columns", "parquet", r"rollout_\d+\.parquet$", "dashboard_columns/rollout_ID.parquet"),
    ),
    "verl": (Format("verl", "verl", "torch", r"\.(pt|pth)$", "a batch as a torch-saved dict of tensors"),),
    "trl": (Format("trl", "trl", "torch", r"\.(pt|pth)$", "what _generate_and_score_completions returned"),),
    "skyrl": (Format("skyrl", "skyrl", "pickle", r"training_input\.pkl$", "global_step_N_training_input.pkl"),),
}


def formats_named(name: str | None) -> list[Format]:
    """Return the formats that ``--from`` names, all of them without it; ``parquet`` names none.

    Raises:
        UsageError: when there is none of that name.
    """
    if name is None:
        return [item for group in FORMATS.values() for item in group]
    if name == "parquet":
        return []
    if name not in FORMATS:
        known = ["parquet", *FORMATS]
        raise UsageError(f"--from {name!r}: no such format.{did_you_mean(name, known)} There are: {', '.join(known)}.")
    return list(FORMATS[name])
