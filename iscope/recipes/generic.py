"""Corrections that belong to no single framework, under the names the field gives them."""

from __future__ import annotations

from iscope.recipes.generic_losses import CONSTRAINTS, LOSS_OPTIONS, LOSSES
from iscope.recipes.generic_masks import MASKS
from iscope.recipes.model import Constraint, Filter, Framework, Level, Option, Recipe, Reduction, Ref, WeightRule


def _bound(short: str, default: float, doc: str, *aliases: str) -> Option:
    return Option(short, short, "float", default, doc, aliases=aliases, nullable=True)


_LEVEL = Option(
    name="level",
    short="level",
    kind="choice",
    default=Level.NONE.value,
    doc="Level of the ratio that weights what is kept, not truncated; none is weight 1.",
    choices=tuple(level.value for level in Level),
)

_LOW, _HIGH = Ref("low"), Ref("high")
_BAND = (
    Constraint("less", ("low", "high")),
    Constraint("any", ("low", "high")),
    Constraint("not_negative", ("low", "high"), remedy="bounds are ratios, not their logs"),
)
# These losses multiply the weights of a rollout's tokens, and one weight for all of them would enter as often.
_NO_PRODUCT = tuple(
    Constraint("not", ("loss_type",), loss, when=("level", level.value))
    for loss in ("gmpo", "vespo")
    for level in (Level.SEQUENCE, Level.GEOMETRIC)
)
_TOKEN_RATIO = "rho_t = exp(trainer_t - inference_t)"

_RECIPES = (
    Recipe(
        name="none",
        summary="No correction: weight 1, everything kept.",
        formula="w_t = 1",
        source="The base that every other recipe is compared with.",
    ),
    Recipe(
        name="tis",
        summary="Truncated importance sampling: token ratio as weight, cut from above.",
        formula=f"{_TOKEN_RATIO}\nw_t = min(rho_t, high)",
        source="Yao et al., Your Efficient RL Framework Secretly Brings You Off-Policy RL Training, 2025; "
        "bound 2 as in verl, slime and SkyRL",
        options=(Option("high", "high", "float", 2.0, "Upper truncation of the token ratio.", aliases=("cap",)),),
        weight=WeightRule(Level.TOKEN, high=_HIGH),
        constraints=(Constraint("positive", ("high",), remedy="a bound is a ratio, not its log"),),
        notes=("Rare tokens whose ratio falls towards 0 keep that weight: there is no lower bound.",),
    ),
    Recipe(
        name="icepop",
        summary="Token ratio as weight; tokens outside the band get weight 0.",
        formula=f"{_TOKEN_RATIO}\nw_t = rho_t if low <= rho_t <= high, else 0",
        source="Ant Group's Ling team, Small Leak Can Sink a Great Ship: Boost RL Training on MoE with IcePop, 2025; "
        "band 0.5 to 5 as in verl and NeMo-RL",
        options=(
            _bound("low", 0.5, "Lower bound of the token ratio, alpha in the original; none is no bound.", "alpha"),
            _bound("high", 5.0, "Upper bound of the token ratio, beta in the original; none is no bound.", "beta"),
        ),
        weight=WeightRule(Level.TOKEN),
        filters=(Filter("icepop", low=_LOW, high=_HIGH),),
        constraints=_BAND,
        notes=(
            "The name alone fixes no band: 0.5 to 5, 0.2 to 5 and 0.5 to 2 are all in use.",
            "Rejected tokens stay in the loss's denominator.",
            "The share of rejected tokens is no measure of health: it can fall while the mismatch grows.",
        ),
    ),
    Recipe(
        name="geometric_mask",
        summary="Rollouts whose mean log-ratio leaves the band get weight 0; the others weight 1.",
        formula="G = mean_t (trainer_t - inference_t), over the rollout's loss tokens\n"
        "w_t = 1 if low <= exp(G) <= high, else 0\n"
        "with level=token, sequence or geometric: that level's ratio in place of 1",
        source="Geometric rejection as in verl's preset decoupled_geo_rs (0.999 to 1.001, weight 1); "
        "NeMo-RL's seq-mask-tis is level=token with 0.999 to 1.002",
        options=(
            _bound("low", 0.999, "Lower bound of exp(mean log-ratio); none is no bound."),
            _bound("high", 1.001, "Upper bound of exp(mean log-ratio); none is no bound."),
            _LEVEL,
        ),
        weight=WeightRule(Ref("level")),
        filters=(Filter("geometric_mask", reduction=Reduction.MEAN, low=_LOW, high=_HIGH, acts_on="rollout"),),
        constraints=(*_BAND, *_NO_PRODUCT),
        notes=(
            "The mean does not grow with length, but its noise shrinks with it: short rollouts leave a narrow band "
            "by chance.",
            "It is blind to noise that averages out: half the tokens too high and half too low give exp(G) = 1.",
            "Rejected rollouts stay in the loss's denominator.",
        ),
    ),
)

FRAMEWORK = Framework(
    name="",
    title="Generic",
    version="",
    recipes=(*_RECIPES, *MASKS),
    loss_options=LOSS_OPTIONS,
    losses=LOSSES,
    constraints=CONSTRAINTS,
)
