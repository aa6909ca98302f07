"""slime's settings at commit 624b824a: its command line, and the YAML that ``--custom-config-path`` lays over it."""

from __future__ import annotations

from iscope.recipes.configs.model import GIVEN, Clash, ConfigRow, ConfigTable, Include, Setting, Unreplayed

_TIS, _METRICS, _FUNCTION = "use_tis", "get_mismatch_metrics", "custom_tis_function_path"
_CONFIG = "custom_config_path"
_CLIP, _CLIP_LOW = "tis_clip", "tis_clip_low"
# What mis.py reads has no place on the command line: it is in the YAML, all of it, or slime stops.
MIS = (
    "use_rs",
    "tis_level",
    "rs_level",
    "tis_mode",
    "tis_lower_bound",
    "tis_upper_bound",
    "rs_lower_bound",
    "rs_upper_bound",
    "rs_veto_threshold",
    "tis_batch_normalize",
)
_ALWAYS = ("tis_lower_bound", "tis_upper_bound", "rs_lower_bound", "rs_upper_bound")
_APPLIED = (*_ALWAYS, "tis_level", "tis_mode", "use_rs", "tis_batch_normalize")
_LOSS = (
    "advantage_estimator",
    "eps_clip",
    "eps_clip_high",
    "eps_clip_c",
    "use_opsm",
    "opsm_delta",
    "use_rollout_logprobs",
    "use_kl_loss",
    "kl_loss_coef",
    "kl_loss_type",
    "use_unbiased_kl",
    "calculate_per_token_loss",
)


def spellings(module: str, *functions: str) -> tuple[str, ...]:
    """Return how a function of a module can be named: by a dotted path, or by the file and the function."""
    return tuple(
        name for function in functions for name in (f"{module}.{function}", f"{module.replace('.', '/')}.py:{function}")
    )


_MIS_AT = spellings("examples.train_infer_mismatch_helper.mis", "compute_mis_weights_with_cp")
_BUILT_IN = "slime.backends.megatron_utils.loss"


def rows(framework: str, icepop: tuple[str, ...], vanilla: tuple[str, ...], mis: tuple[str, ...]) -> list[ConfigRow]:
    """Return the rows of slime or a fork of it.

    Args:
        framework: the prefix of its recipes.
        icepop: the names of its IcePop function.
        vanilla: the names of its default function.
        mis: the names of the function in the example.
    """
    off = {_TIS: False, _METRICS: False}
    # A built-in function changes the loss even where it is called for the sake of the metrics only.
    called = ({_TIS: True}, {_TIS: False, _METRICS: True})
    return [
        ConfigRow(f"{framework}/none", when=off),
        *(ConfigRow(f"{framework}/icepop", when={**how, _FUNCTION: icepop}) for how in called),
        *(
            ConfigRow(
                f"{framework}/mis",
                when={**how, _FUNCTION: mis},
                fixed={"use_tis": how[_TIS]},
                told_by=(_CONFIG,),
                needs=_APPLIED if how[_TIS] else _ALWAYS,
            )
            for how in called
        ),
        # The YAML on its own.
        *(
            ConfigRow(
                f"{framework}/mis", when={_TIS: True, _FUNCTION: None, _CONFIG: None, name: GIVEN}, needs=_APPLIED
            )
            for name in MIS
        ),
        ConfigRow(f"{framework}/tis", when={_TIS: True, _FUNCTION: (None, *vanilla)}),
        ConfigRow(f"{framework}/tis", when={_TIS: False, _METRICS: True, _FUNCTION: vanilla}),
    ]


def settings(estimators: tuple[str, ...]) -> tuple[Setting, ...]:
    """Return the settings of slime or a fork of it, with its advantage estimators."""
    return (
        Setting(_TIS, "use_tis", False, (True, False)),
        Setting(_METRICS, "", False, (True, False)),
        Setting(_FUNCTION, "", None),
        Setting(_CONFIG, "", None),
        Setting(_CLIP_LOW, _CLIP_LOW),
        Setting(_CLIP, _CLIP),
        *(Setting(name, name) for name in MIS),
        Setting("loss_type", "", "policy_loss", ("policy_loss",)),
        Setting("advantage_estimator", "advantage_estimator", choices=estimators),
        *(Setting(name, name) for name in _LOSS if name != "advantage_estimator"),
    )


CLASHES = (
    Clash(
        {_TIS: True},
        ("use_rollout_logprobs",),
        "the engine's logprobs as the old policy's leave nothing to correct, and both are refused: drop one",
    ),
    Clash(
        {_TIS: False, _METRICS: False},
        (_CLIP, _CLIP_LOW),
        "without use_tis nothing is corrected: set it, or take the bound out",
    ),
    Clash(
        {_FUNCTION: None},
        (_METRICS,),
        "the metrics come from that function, and without one it is refused: name it, or take get_mismatch_metrics out",
    ),
)
UNREPLAYED = (
    Unreplayed("entropy_coef", 0, "it needs the entropy of each token's distribution"),
    Unreplayed("custom_pg_loss_reducer_function_path", None, "what it adds up to is code of your own"),
)
SECTIONS = ("tis_", "rs_", "opsm_")
INCLUDE = Include((_CONFIG,), last=True, settings=MIS)

TABLE = ConfigTable(
    framework="slime",
    version="slime 624b824a",
    syntax="flags",
    settings=settings(("grpo", "ppo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "gspo", "cispo")),
    rows=tuple(
        rows(
            "slime",
            spellings(_BUILT_IN, "icepop_function"),
            spellings(_BUILT_IN, "vanilla_tis_function"),
            _MIS_AT,
        )
    ),
    sections=SECTIONS,
    clashes=CLASHES,
    unreplayed=UNREPLAYED,
    dashes=True,
    switches=True,
    include=INCLUDE,
)
