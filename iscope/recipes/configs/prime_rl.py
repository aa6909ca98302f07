"""prime-rl's settings, the ``loss`` of its trainer, at the dates that its recipes carry."""

from __future__ import annotations

from iscope.recipes.configs.model import GIVEN, Clash, ConfigRow, ConfigTable, Setting, Unreplayed
from iscope.recipes.options import Value

# In the file of a whole run; a trainer's own file has the section at its top.
_AT, _TRAINER = "trainer.loss.", "loss."
_TYPE, _RATIO = f"{_AT}type", f"{_AT}ratio_type"
_NUMBERS = (
    "eps",
    "max_importance_ratio",
    "ratio_low",
    "ratio_high",
    "seq_clip",
    "token_clip",
    "geo_mask_low",
    "geo_mask_high",
    "token_mask_low",
    "token_mask_high",
    "sequence_mask_low",
    "sequence_mask_high",
    "mask_ratio_low",
    "mask_ratio_high",
    "sequence_mask_ratio_low",
    "dppo_mask_low",
    "dppo_mask_high",
    "ipo_mask_low",
    "ipo_mask_high",
    "ipo_threshold",
    "kpop_threshold",
    "clip_ratio",
    "tau",
    "sequence_regularizer",
    "kl_tau",
    "adv_tau",
)
# Before the types had names: told by the settings that only one of the dates has.
_UNNAMED = (None, "default")


def _dated(recipe: str, types: tuple[str | None, ...], *told_by: str) -> tuple[ConfigRow, ...]:
    """One row for each setting that tells the date; the first of them that is given decides."""
    return tuple(ConfigRow(recipe, when={_TYPE: types, _AT + name: GIVEN}) for name in told_by)


_OLD_BANDS = tuple(f"{which}_mask_{side}" for which in ("token", "geo", "sequence") for side in ("low", "high"))

_UNREPLAYED: tuple[tuple[str, Value, str], ...] = (
    ("score_centering", False, "it sums over the whole vocabulary, which no dump holds"),
    ("teacher_tau", 0, "no dump has the teacher's logprobs"),
    ("student_tau", 0, "prime-rl's recipes do not have it"),
    ("kl_mask_type", "all", "the KL term is replayed on all tokens"),
)

TABLE = ConfigTable(
    framework="prime-rl",
    version="prime-rl, autumn 2026",
    syntax="toml",
    settings=(
        Setting(
            _TYPE,
            "",
            None,
            (
                None,
                "default",
                "ipo",
                "icepop",
                "ppo",
                "cispo",
                "seq_tis",
                "seq_mis",
                "geo_mask",
                "mis_po",
                "kpop",
                "kimi_k15",
                "grpo",
                "gspo",
                "custom",
                "sft",
            ),
            (f"{_TRAINER}type",),
        ),
        Setting(_RATIO, "", "token", ("token", "sequence"), (f"{_TRAINER}ratio_type",)),
        *(Setting(_AT + name, name, aliases=(_TRAINER + name,)) for name in _NUMBERS),
        # True in prime-rl; what it filters is never shipped, so that a dump seldom has it.
        Setting(
            "orchestrator.train.filter_zero_advantages",
            "filter_zero_advantages",
            False,
            (True, False),
            ("train.filter_zero_advantages",),
        ),
    ),
    rows=(
        ConfigRow("prime-rl/ipo@2026-08", when={_TYPE: ("ipo", None), f"{_AT}ipo_threshold": GIVEN}),
        ConfigRow(
            "prime-rl/ipo@2026-08",
            when={_TYPE: ("ipo", None), f"{_AT}eps": GIVEN, f"{_AT}kl_tau": GIVEN},
            options={f"{_AT}eps": "ipo_threshold", f"{_AT}ipo_threshold": ""},
        ),
        *_dated("prime-rl/default@2026-08", ("default", None), "dppo_mask_low", "dppo_mask_high"),
        *_dated("prime-rl/default@2026-03", ("default", None), "ipo_mask_low", "ipo_mask_high"),
        *_dated("prime-rl/token@2025-11", _UNNAMED, "mask_ratio_low", "mask_ratio_high", "sequence_mask_ratio_low"),
        *(
            ConfigRow("prime-rl/token@2025-12", when={_TYPE: _UNNAMED, _RATIO: "token", _AT + name: GIVEN})
            for name in (*_OLD_BANDS, "ratio_type")
        ),
        ConfigRow("prime-rl/default@2026-08", when={_TYPE: "default"}),
        ConfigRow("prime-rl/ipo", when={_TYPE: ("ipo", None)}),
        *(
            ConfigRow(f"prime-rl/{name}", when={_TYPE: name})
            for name in ("icepop", "ppo", "cispo", "seq_tis", "seq_mis", "geo_mask", "mis_po")
        ),
        *(ConfigRow(f"prime-rl/{name}@2026-08", when={_TYPE: name}) for name in ("kpop", "kimi_k15")),
        ConfigRow("prime-rl/grpo@2025-08", when={_TYPE: "grpo", _RATIO: "token"}),
    ),
    sections=(_AT, _TRAINER),
    clashes=(
        Clash({_TYPE: ("ipo", None), f"{_AT}eps": GIVEN}, (f"{_AT}ipo_threshold",), "eps is its newer name: keep one"),
    ),
    unreplayed=tuple(
        Unreplayed(section + name, default, why) for section in (_AT, _TRAINER) for name, default, why in _UNREPLAYED
    ),
)
