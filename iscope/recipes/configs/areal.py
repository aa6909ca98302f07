"""AReaL's settings, ``actor`` of its YAML at 1.0.4, and the names that ``rejection_sampling`` replaced."""

from __future__ import annotations

from iscope.recipes.configs.model import (
    GIVEN,
    SET,
    Clash,
    Condition,
    ConfigRow,
    ConfigTable,
    Include,
    Setting,
    Unreplayed,
)

_AT = "actor."
_DECOUPLED, _RECOMPUTE, _SAPO = (
    f"{_AT}{name}" for name in ("use_decoupled_loss", "recompute_logprob", "use_sapo_loss")
)
_RS, _M2 = f"{_AT}rejection_sampling", f"{_AT}m2_threshold"
_FIELDS = ("upper", "lower", "level", "action", "metric", "agg")
# Until 1.0.4 the ratio was tested by a mode and its cap.
_CAP, _OLD_MODE = f"{_AT}behave_imp_weight_cap", f"{_AT}behave_imp_weight_mode"
_OLD_MODES = {
    f"{level}_{old}": {"level": level, "action": action}
    for level in ("token", "sequence")
    for old, action in (("mask", "mask"), ("truncate", "clamp"))
}
_ON: dict[str, Condition] = {_DECOUPLED: True}
_OFF: dict[str, Condition] = {_DECOUPLED: False}

TABLE = ConfigTable(
    framework="areal",
    version="AReaL 1.0.4",
    syntax="yaml",
    settings=(
        *(Setting(path, "", False, (True, False)) for path in (_DECOUPLED, _RECOMPUTE, _SAPO)),
        # None here is the section as a whole, left out.
        Setting(_RS, "", None, (None,)),
        *(Setting(f"{_RS}.{name}", f"rejection_sampling_{name}") for name in _FIELDS),
        Setting(_CAP, "", None, aliases=(f"{_AT}behav_imp_weight_cap",), old=True),
        Setting(_OLD_MODE, "", "token_mask", ("disabled", *_OLD_MODES), old=True),
        Setting(_M2, "m2_threshold", None),
        *(Setting(_AT + name, name) for name in ("eps_clip", "eps_clip_higher", "c_clip", "importance_sampling_level")),
        *(Setting(_AT + name, name) for name in ("sapo_tau_pos", "sapo_tau_neg")),
    ),
    rows=(
        ConfigRow("areal/sapo", when={_SAPO: True, _RECOMPUTE: False}),
        ConfigRow("areal/coupled", when={_SAPO: False, **_OFF, _RECOMPUTE: False}),
        # The recomputed logprobs take the place of the engine's: no ratio is left between them.
        ConfigRow("areal/none", when={_SAPO: False, **_OFF, _RECOMPUTE: True}),
        *(
            ConfigRow("areal/rejection_sampling", when={**_ON, f"{_RS}.{name}": GIVEN}, told_by=(_RECOMPUTE,))
            for name in _FIELDS
        ),
        *(
            ConfigRow(
                "areal/rejection_sampling",
                when={**_ON, _CAP: SET, _OLD_MODE: mode},
                options={_CAP: "rejection_sampling_upper", f"{_RS}.upper": ""},
                fixed=fixed,
                told_by=(_RECOMPUTE,),
            )
            for mode, fixed in _OLD_MODES.items()
        ),
        ConfigRow("areal/m2po", when={**_ON, _M2: SET}, told_by=(_RECOMPUTE,)),
        ConfigRow("areal/none", when=_ON, told_by=(_RECOMPUTE,)),
    ),
    sections=(f"{_RS}.", f"{_AT}behave_imp_weight_", f"{_AT}behav_imp_weight_"),
    clashes=(
        Clash({_SAPO: True}, (_DECOUPLED,), "AReaL refuses both: set use_decoupled_loss to false"),
        Clash(
            {_CAP: SET},
            tuple(f"{_RS}.{name}" for name in _FIELDS),
            "rejection_sampling took the place of that cap: keep one",
        ),
    ),
    unreplayed=(
        Unreplayed(
            f"{_AT}prox_logp_method", "recompute", "whatever makes the trainer logprob, it is the one in the dump"
        ),
    ),
    include=Include(("config",), last=False),
)
