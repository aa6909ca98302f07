"""The loss types of the papers, which every generic recipe can carry."""

from __future__ import annotations

from iscope.recipes.model import Aggregation, BySign, Constraint, Loss, Option, Pair, Penalty, Ref

_ROLLOUTS = Aggregation.SEQ_MEAN_TOKEN_MEAN

LOSSES = (
    ("ppo", Loss("clipped_surrogate", low=Ref("epsilon", scale=-1.0, offset=1.0), high=Ref("epsilon", offset=1.0))),
    (
        "gspo",
        Loss(
            "clipped_surrogate",
            low=Ref("gspo_low", scale=-1.0, offset=1.0),
            high=Ref("gspo_high", offset=1.0),
            level="sequence",
            aggregation=_ROLLOUTS,
        ),
    ),
    (
        "gmpo",
        Loss("geo_mean", low=Ref("gmpo_epsilon"), high=Ref("gmpo_epsilon"), aggregation=Aggregation.SEQ_MEAN_TOKEN_SUM),
    ),
    ("cispo", Loss("cispo", high=Ref("cispo_high"))),
    ("sapo", Loss("sapo", temperature=BySign(Ref("tau_pos"), Ref("tau_neg")), aggregation=_ROLLOUTS)),
    (
        "vespo",
        Loss("vespo", power=BySign(Ref("k_pos"), Ref("k_neg")), rate=BySign(Ref("lambda_pos"), Ref("lambda_neg"))),
    ),
    ("dro", Loss("score", penalty=Penalty("squared", Pair.CURRENT_TRAINER, Ref("dro_beta", scale=0.5), weighted=True))),
)


def _number(name: str, default: float, doc: str) -> Option:
    return Option(name, name, "float", default, doc)


LOSS_OPTIONS = (
    Option(
        name="loss_type",
        short="loss_type",
        kind="choice",
        default="ppo",
        doc="The loss on r = current/trainer. ppo: the clipped surrogate (arXiv 1707.06347). gspo: r of the whole "
        "rollout, exp of its mean log-ratio, clipped (arXiv 2507.18071). gmpo: one loss per rollout on the geometric "
        "mean of its r (arXiv 2507.20673). cispo: r, cut, as a constant weight (arXiv 2506.13585). sapo: a sigmoid "
        "gate on r (arXiv 2511.20347). vespo: a gamma-shaped weight of the whole rollout, as in TRL 1.16.0. dro: no "
        "ratio, a quadratic term that holds current to trainer (arXiv 2405.19107). gspo, gmpo and sapo are means over "
        "rollouts, the others over tokens. gmpo and vespo multiply the weights of a rollout's tokens; 0 counts as "
        "1e-10 and as 1e-8 there.",
        choices=tuple(name for name, _ in LOSSES),
    ),
    _number("epsilon", 0.2, "With ppo, r is clipped to 1 - epsilon and 1 + epsilon."),
    _number("gspo_low", 3e-4, "With gspo, a rollout with A < 0 has no gradient below 1 - gspo_low."),
    _number("gspo_high", 4e-4, "With gspo, a rollout with A > 0 has no gradient above 1 + gspo_high."),
    _number("gmpo_epsilon", 0.4, "With gmpo, log r is cut to it on the side that A pushes to."),
    _number("cispo_high", 5.0, "With cispo, the upper bound of r; there is no lower one."),
    _number("tau_pos", 1.0, "With sapo, the temperature of the gate where A > 0."),
    _number("tau_neg", 1.05, "With sapo, the temperature of the gate where A <= 0."),
    _number("k_pos", 2.0, "With vespo, the power of the weight where A >= 0."),
    _number("lambda_pos", 3.0, "With vespo, the decay of the weight where A >= 0."),
    _number("k_neg", 3.0, "With vespo, the power of the weight where A < 0."),
    _number("lambda_neg", 2.0, "With vespo, the decay of the weight where A < 0."),
    Option(
        name="dro_beta",
        short="dro_beta",
        kind="float",
        default=None,
        doc="With dro, which needs it, the factor of the quadratic term, halved.",
        nullable=True,
    ),
)

CONSTRAINTS = (
    *(
        Constraint("positive", (name,))
        for name in ("epsilon", "gspo_low", "gspo_high", "gmpo_epsilon", "cispo_high", "tau_pos", "tau_neg", "dro_beta")
    ),
    Constraint("any", ("dro_beta",), when=("loss_type", "dro")),
)
