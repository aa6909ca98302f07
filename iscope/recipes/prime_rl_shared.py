"""What the rows of prime-rl share: its one ratio, current over inference, and the words for it."""

from __future__ import annotations

from dataclasses import replace

from iscope.recipes.model import Filter, Loss, Option, Pair, Penalty, Quantity, Recipe, Ref, Signs, by_option

PAIR = Pair.CURRENT_INFERENCE
TAU = Ref("adv_tau")
SCORE = Loss("score", advantage_scale=TAU)
SURROGATE = Loss("surrogate", advantage_scale=TAU)
TOKEN = "r_t = exp(current_t - inference_t), over loss tokens"
SUM = "S = sum_t (current_t - inference_t), over loss tokens"
MEAN = "G = S / loss tokens"
DENOMINATOR = "Rejected tokens stay in N_rl, the loss tokens that the sum is divided by."
ONE_RATIO = "Without current logprobs the trainer's stand in: the ratio then holds the engine's share only."
VALUE = "The loss value is -w A log pi, a score surrogate: it is not comparable with losses of the form -A r."
RARE = "A difference of probabilities never rejects a rare token, however far its ratio is from 1."


def number(name: str, default: float, doc: str) -> Option:
    """Return the option of a number under prime-rl's own name."""
    return Option(name, name, "float", default, doc)


def difference(name: str, high: Ref | float | None, low: Ref | float | None = None) -> Filter:
    """Return a token filter on p - q, the move of the token's probability; closed bounds."""
    return Filter(name, Quantity.PROBABILITY_DIFFERENCE, low=low, high=high, pair=PAIR, space="plain")


_ZERO_ADVANTAGE = Filter(  # d^2 / 2 always exceeds -1: the sign alone decides
    "filter_zero_advantages", Quantity.K2, high=-1.0, high_signs=Signs.ZERO, space="plain", pair=PAIR, drops=True
)
FILTER_ZERO_ADVANTAGES = Option(
    "filter_zero_advantages",
    "filter_zero_advantages",
    "bool",
    False,
    "Leave tokens with A = 0 out of the loss, of N_rl and of the KL term, as the orchestrator does before it ships.",
)


def shipped(row: Recipe) -> Recipe:
    """Return the row with the orchestrator's filter behind its own, where the advantage plays a part."""
    if row.loss is not None and row.loss.signal == "ref":
        return row
    zero = by_option("filter_zero_advantages", (True, _ZERO_ADVANTAGE), (False, None))
    return replace(row, filters=(*row.filters, zero))


KL_TAU = number("kl_tau", 1e-3, "Factor of the squared log-ratio, on rejected tokens too.")
KL = Penalty("squared", PAIR, Ref("kl_tau"))
