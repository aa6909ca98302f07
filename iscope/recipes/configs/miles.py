"""miles' settings at commit 31f1ca961: those of slime, with its own functions by name."""

from __future__ import annotations

from iscope.recipes.configs.model import ConfigTable, Unreplayed
from iscope.recipes.configs.slime import CLASHES, INCLUDE, SECTIONS, UNREPLAYED, rows, settings, spellings

_BUILT_IN = "miles.backends.training_utils.loss_hub.corrections"
_MIS = ("compute_mis_weights_with_cp", "compute_mis_weights_fsdp")
_EXAMPLES = ("examples.infra_features.train_infer_mismatch_helper.mis", "examples.train_infer_mismatch_helper.mis")

TABLE = ConfigTable(
    framework="miles",
    version="miles 31f1ca961",
    syntax="flags",
    settings=settings(("grpo", "ppo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "gspo")),
    rows=tuple(
        rows(
            "miles",
            spellings(_BUILT_IN, "icepop_function"),
            spellings(_BUILT_IN, "vanilla_tis_function"),
            tuple(name for module in _EXAMPLES for name in spellings(module, *_MIS)),
        )
    ),
    sections=SECTIONS,
    clashes=CLASHES,
    unreplayed=(
        *UNREPLAYED,
        Unreplayed(
            "skip_actor_forward_only",
            False,
            "the current logprobs stand in for the old ones there: give them as the trainer's, and no current ones",
        ),
    ),
    dashes=True,
    switches=True,
    include=INCLUDE,
)
