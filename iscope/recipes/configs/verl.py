"""verl's settings, ``algorithm.rollout_correction`` and ``actor`` of verl 0.9.1, and their older names."""

from __future__ import annotations

from iscope.recipes.configs.model import (
    ABOVE_ZERO,
    SET,
    Clash,
    Condition,
    ConfigRow,
    ConfigTable,
    Setting,
    Unreplayed,
    Values,
)
from iscope.recipes.lists import read_pair, split_pair

_AT = "algorithm.rollout_correction."
_IS, _IS_BOUND, _NORM = f"{_AT}rollout_is", f"{_AT}rollout_is_threshold", f"{_AT}rollout_is_batch_normalize"
_RS, _RS_BOUND = f"{_AT}rollout_rs", f"{_AT}rollout_rs_threshold"
_BYPASS, _LOSS = f"{_AT}bypass_mode", f"{_AT}loss_type"
# verl 0.5 and 0.6.
_CAP = "actor_rollout_ref.actor.tis_imp_ratio_cap"
_OLD_ON, _OLD_LEVEL, _OLD_MODE = "algorithm.rollout_is", "algorithm.rollout_is_level", "algorithm.rollout_is_mode"
_OLD_BOUND = "algorithm.rollout_is_threshold"

_ACTOR = "actor_rollout_ref.actor."
_LOSS_SETTINGS = (
    "clip_ratio",
    "clip_ratio_low",
    "clip_ratio_high",
    "clip_ratio_c",
    "loss_agg_mode",
    "loss_scale_factor",
    "tau_pos",
    "tau_neg",
    "use_kl_loss",
    "kl_loss_coef",
    "kl_loss_type",
)
_CLIPPED: dict[str, Condition] = {_BYPASS: True, _LOSS: ("ppo_clip", False)}
_SCORE: dict[str, Condition] = {_BYPASS: True, _LOSS: ("reinforce", True)}
_TO_IS, _TO_RS = {_IS_BOUND: "is_threshold"}, {_RS_BOUND: "rs_threshold"}


def _correction(name: str) -> str:
    """The same setting in the copy of the section that the policy loss reads."""
    return f"{_ACTOR}policy_loss.rollout_correction.{name.removeprefix(_AT)}"


def _split(values: Values) -> Values:
    bound = read_pair(values[_IS_BOUND])
    low, high = (None, None) if bound is None else split_pair(bound)
    return {"threshold_lower": low, "threshold": high}


def _joined(options: Values) -> Values:
    return {_IS_BOUND: read_pair(f"{options['threshold_lower']}_{options['threshold']}")}


_BYPASS_ROWS = (
    ConfigRow("verl/bypass_ppo_clip", when=_CLIPPED | {_RS: None}, options={_IS_BOUND: ""}),
    ConfigRow("verl/bypass_ppo_clip_rs", when=_CLIPPED | {_RS: SET}, options=_TO_RS),
    ConfigRow("verl/bypass_pg", when=_SCORE, options=_TO_RS | _TO_IS),
    # For writing only: the presets, which the rows above read.
    *(
        ConfigRow(f"verl/bypass_ppo_clip_{name}", when=_CLIPPED | {_IS: None, _RS: statistic}, options=_TO_RS)
        for name, statistic in (("geo_rs", "seq_mean_k1"), ("k3_rs", "seq_mean_k3"))
    ),
    ConfigRow("verl/bypass_pg_is", when=_SCORE | {_IS: "sequence", _RS: None}, options={_IS_BOUND: "threshold"}),
    ConfigRow("verl/bypass_pg_token_icepop", when=_SCORE | {_IS: "token", _RS: None}, read=_split, write=_joined),
    ConfigRow("verl/bypass_pg_geo_rs", when=_SCORE | {_IS: None, _RS: "seq_mean_k1"}, options=_TO_RS),
    *(
        ConfigRow(
            f"verl/bypass_pg_geo_rs_{name}_tis",
            when=_SCORE | {_IS: level, _RS: "seq_mean_k1"},
            options=_TO_IS | _TO_RS,
        )
        for name, level in (("seq", "sequence"), ("token", "token"))
    ),
)
_PRESETS = (
    *(
        ConfigRow(f"verl/decoupled_{name}_is", when={_IS: level, _RS: None}, options={_IS_BOUND: "threshold"})
        for name, level in (("token", "token"), ("seq", "sequence"))
    ),
    ConfigRow("verl/decoupled_token_icepop", when={_IS: "token", _RS: None}, read=_split, write=_joined),
    ConfigRow("verl/decoupled_seq_is_rs", when={_IS: "sequence", _RS: "seq_sum_k1"}, options=_TO_IS | _TO_RS),
    *(
        ConfigRow(f"verl/decoupled_{rs}{suffix}", when={_IS: level, _RS: statistic}, options=_TO_IS | _TO_RS)
        for rs, statistic in (("geo_rs", "seq_mean_k1"), ("k3_rs", "seq_mean_k3"))
        for suffix, level in (("", None), ("_seq_tis", "sequence"), ("_token_tis", "token"))
    ),
)

TABLE = ConfigTable(
    framework="verl",
    version="verl 0.9.1",
    syntax="hydra",
    settings=(
        Setting(_IS, "rollout_is", None, (None, "token", "sequence"), (_correction(_IS),)),
        Setting(_IS_BOUND, "rollout_is_threshold", 2.0, aliases=(_correction(_IS_BOUND),)),
        Setting(_NORM, "rollout_is_batch_normalize", False, (True, False), (_correction(_NORM),)),
        Setting(_RS, "rollout_rs", None, aliases=(_correction(_RS),)),
        Setting(_RS_BOUND, "rollout_rs_threshold", None, aliases=(_correction(_RS_BOUND),)),
        Setting(_BYPASS, "", False, (True, False), (_correction(_BYPASS),)),
        # use_policy_gradient, of January 2026, is its earlier name.
        Setting(
            _LOSS,
            "",
            "ppo_clip",
            ("ppo_clip", "reinforce", True, False),
            (_correction(_LOSS), f"{_AT}use_policy_gradient"),
        ),
        Setting(_CAP, old=True, default=None),
        Setting(_OLD_ON, old=True, default=False, choices=(True, False)),
        Setting(_OLD_LEVEL, old=True, default="token", choices=("token", "sequence", "geometric")),
        Setting(_OLD_MODE, old=True, default="truncate", choices=("truncate", "mask", "clip")),
        Setting(_OLD_BOUND, old=True, default=None),
        Setting(
            f"{_ACTOR}policy_loss.loss_mode",
            "loss_mode",
            # With bypass_mode the loss is the correction's own.
            words=(("vanilla", "vanilla"), ("bypass_mode", "vanilla")),
            aliases=(f"{_ACTOR}loss_mode",),
        ),
        *(Setting(_ACTOR + name, name) for name in _LOSS_SETTINGS),
        Setting(f"{_ACTOR}policy_loss.dro_beta", "dro_beta", aliases=(f"{_ACTOR}dro_beta",)),
        Setting("trainer.use_v1", "use_v1"),
    ),
    rows=(
        ConfigRow(
            "verl/rollout_is",
            when={_CAP: ABOVE_ZERO},
            options={_CAP: "threshold", **dict.fromkeys((_IS_BOUND, _IS), "")},
            fixed={"level": "token"},
        ),
        *(
            ConfigRow(
                "verl/rollout_is",
                when={_OLD_ON: True, _OLD_MODE: "truncate", _OLD_LEVEL: level, _OLD_BOUND: ABOVE_ZERO},
                options={_OLD_BOUND: "threshold", **dict.fromkeys((_IS_BOUND, _IS), "")},
                fixed={"level": level},
            )
            for level in ("token", "sequence")
        ),
        *(
            ConfigRow(row.recipe, {_OLD_ON: False, **row.when}, row.options, row.fixed, row.read, row.write)
            for row in (
                *_BYPASS_ROWS,
                ConfigRow("verl/none", when={_IS: None, _RS: None}),
                ConfigRow("verl/rollout_is", when={_IS: SET, _RS: None}),
                ConfigRow("verl/rollout_rs", when={_IS: None, _RS: SET}),
                ConfigRow("verl/rollout_correction", when={_IS: SET, _RS: SET}),
                *_PRESETS,
            )
        ),
    ),
    sections=(_AT, "algorithm.rollout_is", "algorithm.rollout_rs", f"{_ACTOR}policy_loss.", f"{_ACTOR}clip_ratio"),
    clashes=(
        Clash({_IS: None}, (_NORM,), "without rollout_is there is no weight to normalise: set rollout_is"),
        Clash({_RS: None}, (_RS_BOUND,), "without rollout_rs there is nothing to reject: set rollout_rs"),
    ),
    unreplayed=(
        Unreplayed(
            "defaults", None, "the files that it composes are not read, and what they set stands at the defaults"
        ),
        Unreplayed(f"{_ACTOR}entropy_coeff", 0, "it needs the entropy of each token's distribution"),
        Unreplayed(f"{_AT}rollout_token_veto_threshold", None, "verl 0.9.1 has no veto any more"),
        Unreplayed(
            f"{_AT}rollout_rs_threshold_lower", None, "verl 0.9.1 takes the lower bound in rollout_rs_threshold"
        ),
        Unreplayed("algorithm.rollout_is_threshold_lower", None, "truncation has no lower bound"),
        Unreplayed("algorithm.rollout_is_veto_threshold", None, "verl 0.9.1 has no veto any more"),
    ),
    left=(("global_batch_size", "ppo_mini_batch_size times rollout.n"),),
    others=(
        f"{_AT}_target_",
        f"{_AT}debug_rollout_actor_probs",
        f"{_ACTOR}policy_loss._target_",
        f"{_ACTOR}policy_loss.rollout_correction",
        f"{_ACTOR}policy_loss.rollout_correction._target_",
        f"{_ACTOR}policy_loss.clip_cov_ratio",
        f"{_ACTOR}policy_loss.clip_cov_lb",
        f"{_ACTOR}policy_loss.clip_cov_ub",
        f"{_ACTOR}policy_loss.kl_cov_ratio",
        f"{_ACTOR}policy_loss.ppo_kl_coef",
    ),
)
