"""Corrections that papers propose: masks of tokens and rollouts by divergence, drift or their mean ratio."""

from __future__ import annotations

from iscope.recipes.model import (
    Constraint,
    Filter,
    Level,
    Loss,
    Option,
    Pair,
    Quantity,
    Recipe,
    Reduction,
    Ref,
    Signs,
    WeightRule,
    by_option,
)

_TOKEN_RATIO = "rho_t = exp(trainer_t - inference_t)"
_PROBABILITIES = "p = exp(current_t), q = exp(inference_t)"
_DENOMINATOR = "Rejected tokens stay in the loss's denominator."
_ONE_RATIO = (
    "One ratio, current over inference, carries mismatch and staleness; loss_type plays no part. Without current "
    "logprobs the trainer's stand in."
)
_ROLLOUT = Pair.CURRENT_INFERENCE


def _number(name: str, default: float, doc: str) -> Option:
    return Option(name, name, "float", default, doc)


_DELTAS = (
    _number("delta_low", 0.2, "Largest divergence of a token with A < 0 that trains as it falls, inclusive."),
    _number("delta_high", 0.2, "Largest divergence of a token with A > 0 that trains as it rises, inclusive."),
)
_CAP = Option("cap", "cap", "float", None, "Upper truncation of r_t as weight; none is no bound.", nullable=True)


def _dppo(name: str, quantity: Quantity, summary: str, divergence: str, note: str) -> Recipe:
    return Recipe(
        name=name,
        summary=summary,
        formula=f"r_t = exp(current_t - inference_t); {_PROBABILITIES}\n{divergence}\n"
        "w_t = 0 if A > 0, p > q and D > delta_high, or A < 0, p < q and D > delta_low; else min(r_t, cap)\n"
        "loss = -w_t A",
        source="Qi et al., Rethinking the Trust Region in LLM Reinforcement Learning, arXiv 2602.04879 (DPPO); "
        "0.2 as in SkyRL, TRL's was 0.15; cap 20 as TRL's was, none as in SkyRL",
        options=(*_DELTAS, _CAP),
        weight=WeightRule(Level.TOKEN, _ROLLOUT, high=Ref("cap")),
        filters=(
            Filter(
                name,
                quantity,
                low=Ref("delta_low", scale=-1.0),
                high=Ref("delta_high"),
                pair=_ROLLOUT,
                space="plain",
                low_signs=Signs.NEGATIVE,
                high_signs=Signs.POSITIVE,
            ),
        ),
        loss=Loss("surrogate"),
        constraints=(Constraint("positive", ("cap",)),),
        notes=(note, "A token with A = 0 is always kept; elsewhere it takes the test of A < 0.", _ONE_RATIO),
    )


MASKS = (
    Recipe(
        name="mis_po",
        summary="Weight 1; tokens outside one band and rollouts outside a narrow one get 0.",
        formula=f"{_TOKEN_RATIO}; G = mean_t (trainer_t - inference_t), over the rollout's loss tokens\n"
        "w_t = 1 if geo_low <= exp(G) <= geo_high and token_low <= rho_t <= token_high, else 0",
        source="MIS-PO, Step 3.5 Flash, arXiv 2602.10604; form and bands as in prime-rl's pull request 3384",
        options=(
            _number("geo_low", 0.996, "Lower bound of exp(mean log-ratio), inclusive."),
            _number("geo_high", 1.001, "Upper bound of exp(mean log-ratio), inclusive."),
            _number("token_low", 0.5, "Lower bound of the token ratio, inclusive."),
            _number("token_high", 2.0, "Upper bound of the token ratio, inclusive."),
        ),
        filters=(
            Filter("geo_mask", reduction=Reduction.MEAN, low=Ref("geo_low"), high=Ref("geo_high"), acts_on="rollout"),
            Filter("token_mask", low=Ref("token_low"), high=Ref("token_high")),
        ),
        constraints=(Constraint("less", ("geo_low", "geo_high")), Constraint("less", ("token_low", "token_high"))),
        notes=(
            "The default band of exp(G) is narrower than the noise of short rollouts.",
            "prime-rl/mis_po is the same on one ratio, current over inference, with a score surrogate.",
            _DENOMINATOR,
        ),
    ),
    Recipe(
        name="off_policy_sequence_mask",
        summary="Rollouts with A < 0 that current has moved away from get weight 0; the others weight 1.",
        formula="D = mean_t (inference_t - current_t), over the rollout's loss tokens\n"
        "w_t = 0 if A < 0 and D > delta, else 1",
        source="DeepSeek-V3.2, arXiv 2512.02556, off-policy sequence masking; 0.5 as with TRL",
        options=(_number("delta", 0.5, "Largest D of a kept rollout with A < 0, nats per token, inclusive."),),
        filters=(
            Filter(
                "off_policy_sequence_mask",
                Quantity.K1,
                Reduction.MEAN,
                high=Ref("delta"),
                pair=_ROLLOUT,
                space="plain",
                high_signs=Signs.NEGATIVE,
                acts_on="rollout",
            ),
        ),
        notes=(
            "No bound is agreed on: 0.5 is used with TRL, 0.05 to 0.2 elsewhere.",
            "D holds the engine's mismatch and the policy's own drift together.",
            "Rejected rollouts stay in the loss's denominator.",
        ),
    ),
    Recipe(
        name="kpop",
        summary="Token ratio as weight; tokens whose binary KL exceeds a limit either way get 0.",
        formula=f"{_TOKEN_RATIO}; p = exp(trainer_t), q = exp(inference_t), within 1e-6 of 0 and 1\n"
        "KL(a, b) = a log(a/b) + (1 - a) log((1 - a)/(1 - b))\n"
        "w_t = rho_t if KL(p, q) <= phi and KL(q, p) <= phi, else 0",
        source="KPop, Guo et al. (Ant Group), Taming Training-Inference Mismatch in Reinforcement Learning with "
        "Adaptive Masking Regions, 2026; threshold and clamps as in prime-rl's pull request 3283",
        options=(_number("phi", 0.1, "Largest binary KL that is kept, either way, nats, inclusive."),),
        weight=WeightRule(Level.TOKEN),
        filters=tuple(
            Filter(name, quantity, high=Ref("phi"), space="plain")
            for name, quantity in (("kpop", Quantity.BINARY_KL), ("kpop_reverse", Quantity.BINARY_KL_REVERSE))
        ),
        notes=("The band is wide in ratio for rare tokens and tight for likely ones.", _DENOMINATOR),
    ),
    _dppo(
        "dppo_tv",
        Quantity.PROBABILITY_DIFFERENCE,
        "Ratio as weight; tokens moved too far in probability, the way A pushes, get 0.",
        "D = |p - q|",
        "A difference of probabilities never rejects a rare token, however far its ratio is from 1.",
    ),
    _dppo(
        "dppo_kl",
        Quantity.SIGNED_BINARY_KL,
        "Ratio as weight; tokens whose binary KL is too large, the way A pushes, get 0.",
        "D = q log(q/p) + (1 - q) log((1 - q)/(1 - p)), p and q kept 1e-8 from 0 and 1",
        "The bounds are in nats, not on the scale of a probability difference.",
    ),
    Recipe(
        name="trust_region_mask",
        summary="Rollouts with a token whose estimated KL divergence exceeds the bound get weight 0; the others 1.",
        formula="d_t = current_t - inference_t; k2_t = d_t^2 / 2, k3_t = exp(d_t) - 1 - d_t\n"
        "w_t = 1 if the largest k_t of the rollout's loss tokens <= delta, else 0; k is the estimator",
        source="Li et al., Trust Region Masking for Long-Horizon LLM Reinforcement Learning, arXiv 2512.23075 (TRM), "
        "with its estimates from the sampled token; the bound has no default there, 0.5 with k2 is a ratio of e",
        options=(
            Option(
                name="estimator",
                short="estimator",
                kind="choice",
                default="k2",
                doc="Estimate of a token's divergence: k2 is the same for d and -d, k3 unbiased but far larger for "
                "d above 0.",
                choices=("k2", "k3"),
            ),
            _number("delta", 0.5, "Largest estimate that a token of a kept rollout may have, nats, inclusive."),
        ),
        filters=(
            Filter(
                "trust_region_mask",
                by_option("estimator", ("k2", Quantity.K2), ("k3", Quantity.K3)),
                Reduction.MAX,
                high=Ref("delta"),
                pair=_ROLLOUT,
                space="plain",
                acts_on="rollout",
            ),
        ),
        constraints=(Constraint("positive", ("delta",)),),
        notes=(
            "The paper's criterion is the exact divergence over the whole vocabulary, of which a dump has the sampled "
            "token only: the estimate of one token says little, its maximum over a rollout grows with the length.",
            "Rejected rollouts stay in the loss's denominator.",
        ),
    ),
    Recipe(
        name="minpro",
        summary="Token ratio times the smallest ratio before it as weight, cut to a band.",
        formula="rho_t = exp(current_t - inference_t); m_t = min of rho over the loss tokens before t, 1 for the "
        "first\nw_t = min(max(m_t rho_t, 1 - epsilon_low), 1 + epsilon_high)\nloss = -A w_t log pi, w_t constant",
        source="Lei, Cheng and Tao, A Step Back: Prefix Importance Ratio Stabilizes Policy Optimization, arXiv "
        "2601.22718 (MinPRO); its band could not be read: no lower bound and 4 above 1 are those of SkyRL's cispo",
        options=(
            _number("epsilon_low", 1.0, "The weight is raised to 1 - epsilon_low; 1 is no bound."),
            _number("epsilon_high", 4.0, "The weight is cut to 1 + epsilon_high."),
        ),
        weight=WeightRule(
            Level.TOKEN,
            _ROLLOUT,
            low=Ref("epsilon_low", scale=-1.0, offset=1.0),
            high=Ref("epsilon_high", offset=1.0),
            prefix=True,
        ),
        loss=Loss("score"),
        constraints=(Constraint("not_negative", ("epsilon_low", "epsilon_high")),),
        notes=(
            "The smallest ratio stands in for the product of the whole prefix: one rare token far below 1 holds down "
            "all that follows it.",
            _ONE_RATIO,
        ),
    ),
)
