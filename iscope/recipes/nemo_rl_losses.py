"""NeMo-RL's loss and its options, ``ClippedPGLossConfig`` of NeMo-RL (git 7ea279ab)."""

from __future__ import annotations

from iscope.recipes.losses import Aggregation, Denominator, Loss, LossLogs, Penalty, PositiveNLL
from iscope.recipes.model import Constraint, Option
from iscope.recipes.rules import Pair, Ref, by_option

SEQUENCE_LEVEL = "sequence_level_importance_ratios"
ON_POLICY = "force_on_policy_ratio"

# With force_on_policy_ratio the current policy stands in for the recomputed one everywhere in the loss.
PAIR: Pair = by_option(ON_POLICY, (False, Pair.TRAINER_INFERENCE), (True, Pair.CURRENT_INFERENCE))

_RATIO_TYPE = by_option("use_cispo", (True, "cispo"), (False, "clipped_surrogate"))
_KL = Penalty(
    kind=by_option("reference_policy_kl_type", ("k1", "k1"), ("k2", "k2"), ("k3", "k3")),
    pair=Pair.CURRENT_REF,
    coefficient=Ref("reference_policy_kl_penalty"),
    weight=by_option("use_on_policy_kl_approximation", (True, Pair.CURRENT_INFERENCE), (False, "one")),
    input_clamp=Ref("kl_input_clamp_value"),
    output_clamp=Ref("kl_output_clamp_value"),
)
_EPSILON = 1e-8
_PG = Loss(
    type=by_option(
        ON_POLICY,
        (True, "surrogate"),
        (False, by_option("disable_ppo_ratio", (True, "score"), (False, _RATIO_TYPE))),
    ),
    low=Ref("ratio_clip_min", scale=-1.0, offset=1.0),
    high=Ref("ratio_clip_max", offset=1.0),
    dual=Ref("ratio_clip_c"),
    level=by_option(SEQUENCE_LEVEL, (True, "sequence"), (False, "token")),
    penalty=_KL,
    positive_nll=PositiveNLL(Ref("positive_example_nll_weight")),
    aggregation=by_option("token_level_loss", (True, Aggregation.TOKEN_MEAN), (False, Aggregation.SEQ_MEAN_TOKEN_MEAN)),
    denominator=Denominator(counts="undropped", epsilon=_EPSILON, count_epsilon=_EPSILON),
    logs=LossLogs(ratio=True),
)

LOSSES = (("", _PG),)


def _flag(name: str, default: bool, doc: str) -> Option:
    return Option(name, name, "bool", default, doc)


def _number(name: str, default: float | None, doc: str) -> Option:
    return Option(name, name, "float", default, doc, nullable=default is None)


LOSS_OPTIONS = (
    _flag(
        "token_level_loss",
        True,
        "The sum is divided by the batch's loss tokens; false takes the mean over rollouts of their means.",
    ),
    _flag(
        SEQUENCE_LEVEL,
        False,
        "GSPO: the ratio of the loss is exp of the rollout's mean log-ratio, and the weight the product of its ratios.",
    ),
    _number("ratio_clip_min", 0.2, "Below 1 - ratio_clip_min a token with A < 0 has no gradient."),
    _number("ratio_clip_max", 0.2, "Above 1 + ratio_clip_max a token with A > 0 has no gradient."),
    _number("ratio_clip_c", None, "Dual clipping: with A < 0 no gradient above ratio_clip_c; none is no bound."),
    _flag(
        "use_cispo", False, "The clipped ratio as a constant weight of the score, in place of PPO's clipped surrogate."
    ),
    _flag("disable_ppo_ratio", False, "REINFORCE: the loss is -A log pi, without a ratio of its own."),
    _flag(
        ON_POLICY,
        False,
        "The ratio of the loss is 1, with its gradient, and the current policy stands in for the trainer's in the "
        "correction.",
    ),
    _number(
        "reference_policy_kl_penalty",
        0.0,
        "Factor of the KL term to the reference, which no importance weight touches. NeMo-RL's default is 0.01, but "
        "its dumps hold no reference logprobs; 0 also with use_kl_in_reward.",
    ),
    Option(
        name="reference_policy_kl_type",
        short="reference_policy_kl_type",
        kind="choice",
        default="k3",
        doc="Estimator of the KL term, of gen_kl_error and of policy_kl_error.",
        choices=("k1", "k2", "k3"),
    ),
    Option(
        name="kl_input_clamp_value",
        short="kl_input_clamp_value",
        kind="float",
        default=20.0,
        doc="Largest abs(reference - current) in the KL term, nats; none is no bound.",
        nullable=True,
    ),
    Option(
        name="kl_output_clamp_value",
        short="kl_output_clamp_value",
        kind="float",
        default=10.0,
        doc="Largest KL estimate of a token; none is no bound.",
        nullable=True,
    ),
    _flag(
        "use_on_policy_kl_approximation",
        False,
        "Multiply the KL term by the ratio of current over inference, with the gradient through both.",
    ),
    _number(
        "positive_example_nll_weight",
        0.0,
        "Factor of a further term, which no importance weight touches: the mean of -log pi over the loss tokens of the "
        "rollouts with reward > 0. It takes the dump's reward; the gradient figures are of the policy term alone.",
    ),
    _number(
        "seq_logprob_error_threshold",
        None,
        "A rollout whose mean of exp(abs(trainer - inference)) exceeds it is taken out of the batch (an option of "
        "grpo, not of its loss); none is off.",
    ),
)

CONSTRAINTS = (
    Constraint("exclusive", (SEQUENCE_LEVEL, "token_level_loss")),
    Constraint("exclusive", ("use_cispo", "disable_ppo_ratio")),
    Constraint("exclusive", ("use_cispo", ON_POLICY)),
    Constraint("exclusive", ("use_cispo", SEQUENCE_LEVEL)),
    Constraint("exclusive", ("use_cispo", "ratio_clip_c")),
    Constraint("needs", ("use_cispo", "token_level_loss")),
    Constraint("above_one", ("ratio_clip_c",)),
    Constraint("not_negative", ("positive_example_nll_weight",)),
)
