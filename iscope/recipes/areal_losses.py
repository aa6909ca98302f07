"""AReaL's losses and their options, ``ppo_actor_loss_fn`` and ``sapo_loss_fn`` of AReaL 1.0.4."""

from __future__ import annotations

from iscope.recipes.losses import Aggregation, BySign, Loss, LossLogs
from iscope.recipes.model import Constraint, Option, Pair, Ref

_LEVEL = "importance_sampling_level"
_LOW = Ref("eps_clip", scale=-1.0, offset=1.0)
_HIGH = Ref("eps_clip_higher", offset=1.0, otherwise="eps_clip")

PPO_LOSS = Loss(
    "clipped_surrogate",
    low=_LOW,
    high=_HIGH,
    dual=Ref("c_clip"),
    level=Ref(_LEVEL),
    aggregation=Aggregation.TOKEN_MEAN,
    sees="survivors",
    pools_advantage=True,
    logs=LossLogs(tracked=True),
)
COUPLED_LOSS = Loss(
    "clipped_weight",
    low=_LOW,
    high=_HIGH,
    dual=Ref("c_clip"),
    level=Ref(_LEVEL),
    pair=Pair.CURRENT_INFERENCE,
    aggregation=Aggregation.TOKEN_MEAN,
    pools_advantage=True,
    logs=LossLogs(tracked=True),
)
SAPO_LOSS = Loss(
    "sapo",
    level=Ref(_LEVEL),
    pair=Pair.CURRENT_INFERENCE,
    temperature=BySign(Ref("sapo_tau_pos"), Ref("sapo_tau_neg")),
    aggregation=Aggregation.TOKEN_MEAN,
    pools_advantage=True,
    logs=LossLogs(tracked=True),
)

LOSS_OPTIONS = (
    Option("eps_clip", "eps_clip", "float", 0.2, "Below 1 - eps_clip a token with A < 0 has no gradient."),
    Option(
        name="eps_clip_higher",
        short="eps_clip_higher",
        kind="float",
        default=None,
        doc="Above 1 + eps_clip_higher a token with A > 0 has no gradient; none is eps_clip.",
        nullable=True,
    ),
    Option(
        name="c_clip",
        short="c_clip",
        kind="float",
        default=None,
        doc="Dual clipping: with A < 0 no gradient above c_clip; none is no bound.",
        nullable=True,
    ),
    Option(
        name=_LEVEL,
        short=_LEVEL,
        kind="choice",
        default="token",
        doc="token: a ratio for each token. sequence: exp of the mean log-ratio over what is left of the rollout, with "
        "the mean of its advantages (GSPO).",
        choices=("token", "sequence"),
    ),
)
CONSTRAINTS = (Constraint("above_one", ("c_clip",)),)
