"""SkyRL's policy losses, their reductions and options, ``trainer.algorithm`` at commit a9564572."""

from __future__ import annotations

from dataclasses import replace

from iscope.recipes.model import (
    Aggregation,
    BySign,
    Constraint,
    Denominator,
    Filter,
    LogClamp,
    Loss,
    LossLogs,
    Option,
    Pair,
    Quantity,
    Ref,
    Signs,
    by_option,
)

# Every ratio but those of sapo and gspo is of a log-ratio within these limits, and has no gradient beyond them.
RATIO_LIMITS = LogClamp(low=-20.0, high=20.0, float32=True)
_ROLLOUT = Pair.CURRENT_INFERENCE

_REDUCTIONS = {
    "token_mean": Aggregation.TOKEN_MEAN,
    "sequence_mean": Aggregation.SEQ_MEAN_TOKEN_MEAN,
    "seq_mean_token_sum_norm": Aggregation.SEQ_MEAN_TOKEN_SUM_NORM,
    "prompt_mean": Aggregation.GROUP_MEAN_TOKEN_MEAN,
}
_REGULAR = Loss(
    "clipped_surrogate",
    low=Ref("eps_clip_low", scale=-1.0, offset=1.0),
    high=Ref("eps_clip_high", offset=1.0),
    clamp=RATIO_LIMITS,
    aggregation=by_option("loss_reduction", *_REDUCTIONS.items()),
    denominator=Denominator(norm_length=Ref("max_seq_len")),
)
_CISPO = replace(
    _REGULAR,
    type="cispo",
    low=Ref("cispo_eps_clip_low", scale=-1.0, offset=1.0),
    high=Ref("cispo_eps_clip_high", offset=1.0),
    logs=LossLogs(ratio=True),
    pair=by_option("cispo_anchor", ("old", Pair.CURRENT_TRAINER), ("rollout", _ROLLOUT)),
)
_ROLLOUT_IS = replace(
    _CISPO,
    logs=LossLogs(),
    low=None,
    high=None,
    pair=_ROLLOUT,
    gate=Filter("rollout_is", low=_REGULAR.low, high=_REGULAR.high, pair=_ROLLOUT, closed=False, clamp=RATIO_LIMITS),
)
_DPPO = replace(
    _REGULAR,
    low=None,
    high=None,
    pair=_ROLLOUT,
    gate=Filter(
        "dppo",
        by_option(
            "dppo_type",
            ("binary_tv", Quantity.PROBABILITY_DIFFERENCE),
            ("binary_kl", Quantity.SIGNED_BINARY_KL),
        ),
        low=Ref("delta_low", scale=-1.0),
        high=Ref("delta_high"),
        pair=_ROLLOUT,
        space="plain",
        low_signs=Signs.NEGATIVE,
        high_signs=Signs.POSITIVE,
    ),
)

LOSSES = (
    ("regular", _REGULAR),
    ("dual_clip", replace(_REGULAR, dual=Ref("clip_ratio_c"))),
    (
        "sapo",
        replace(
            _REGULAR,
            type="sapo",
            low=None,
            high=None,
            clamp=None,
            temperature=BySign(Ref("tau_pos"), Ref("tau_neg")),
        ),
    ),
    ("gspo", replace(_REGULAR, level="sequence", straight_through=True, clamp=LogClamp(high=10.0, of="sum"))),
    ("cispo", _CISPO),
    ("rollout_is", _ROLLOUT_IS),
    ("dppo", _DPPO),
    (
        "importance_sampling",
        replace(_REGULAR, low=None, high=None, clamp=None),
    ),
    ("cross_entropy", Loss("score", signal="one", aggregation=Aggregation.TOKEN_SUM)),
)
# The losses that SkyRL computes without its off-policy correction.
UNCORRECTED = ("importance_sampling", "cross_entropy")


def _number(name: str, default: float, doc: str) -> Option:
    return Option(name, name, "float", default, doc)


LOSS_OPTIONS = (
    Option(
        name="policy_loss_type",
        short="loss_type",
        kind="choice",
        default="regular",
        doc="The loss on r = current/trainer. regular: PPO's clipped surrogate. dual_clip: with A < 0 at most "
        "-A clip_ratio_c too. sapo: a sigmoid gate on r. gspo: r of the whole rollout. "
        "cispo: r, cut, as a constant weight. rollout_is: current/inference as a constant weight, 0 outside the open "
        "interval of eps_clip. dppo: current/inference, 0 where the probability moved too far in the direction of A. "
        "importance_sampling: r, uncut, summed without any correction. cross_entropy: that of supervised training, the "
        "sum of -log pi without advantage or reduction.",
        choices=tuple(name for name, _ in LOSSES),
    ),
    Option(
        name="loss_reduction",
        short="loss_reduction",
        kind="choice",
        default="token_mean",
        doc="What the sum is divided by: the loss tokens of the batch, or the rollouts times the loss tokens of each "
        "(sequence_mean), or times max_seq_len (seq_mean_token_sum_norm), or the prompts times the loss tokens of all "
        "rollouts of each (prompt_mean, by group_id).",
        choices=tuple(_REDUCTIONS),
    ),
    _number("eps_clip_low", 0.2, "Clipping of r: below 1 - eps_clip_low a token with A < 0 has no gradient."),
    _number("eps_clip_high", 0.2, "Clipping of r: above 1 + eps_clip_high a token with A > 0 has no gradient."),
    _number("clip_ratio_c", 3.0, "With dual_clip, the loss of a token with A < 0 is at most -A clip_ratio_c."),
    _number("tau_pos", 1.0, "With sapo, the temperature of the gate where A > 0."),
    _number("tau_neg", 1.05, "With sapo, the temperature of the gate where A <= 0."),
    _number("cispo_eps_clip_low", 1.0, "With cispo, r is cut at 1 - cispo_eps_clip_low from below."),
    _number("cispo_eps_clip_high", 4.0, "With cispo, r is cut at 1 + cispo_eps_clip_high from above."),
    Option(
        name="cispo_anchor",
        short="cispo_anchor",
        kind="choice",
        default="old",
        doc="With cispo, the denominator of r: old is the trainer's recomputation, rollout the inference engine; SkyRL "
        "refuses rollout together with a tis_ratio_type.",
        choices=("old", "rollout"),
    ),
    Option(
        name="dppo_type",
        short="dppo_type",
        kind="choice",
        default="binary_tv",
        doc="With dppo, what is bounded: the move of the token's probability, or the KL divergence of its occurrence.",
        choices=("binary_tv", "binary_kl"),
    ),
    _number("delta_low", 0.2, "With dppo, the divergence up to which a token with A < 0 trains as it falls."),
    _number("delta_high", 0.2, "With dppo, the divergence up to which a token with A > 0 trains as it rises."),
    Option(
        name="max_seq_len",
        short="max_seq_len",
        kind="int",
        default=None,
        doc="With seq_mean_token_sum_norm, the tokens that each rollout's sum is divided by, whatever its length.",
        nullable=True,
    ),
)

CONSTRAINTS = (
    Constraint("positive", ("tau_pos",)),
    Constraint("positive", ("tau_neg",)),
    Constraint("positive", ("max_seq_len",)),
    Constraint("any", ("max_seq_len",), when=("loss_reduction", "seq_mean_token_sum_norm")),
)
