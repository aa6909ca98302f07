"""Reports written by hand, for every renderer's tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from iscope.errors import UsageError
from iscope.model import Coverage, Figure, Figures, Finding, RecipeReport, Report, Verdict
from iscope.recipes import parse

NO_ADVANTAGE = "the dump has no advantage"
UNITS = {"token": "tokens", "sequence": "rollouts", "geometric": "rollouts"}


def ratio_group(unit: str, scale: float = 1.0) -> Figures:
    values = {"min": 0.0123, "mean": 0.9987, "max": 12.52, "std": 0.31, "p0_1": 0.11, "p1": 0.4567, "p50": 1.0}
    tail = {"p99": 1.8, "p99_9": 3.2}
    figures: Figures = {name: Figure(value * scale) for name, value in (values | tail).items()}
    rest: Figures = {"outside_half_two": Figure(0.0104), "ess": Figure(33512.0), "ess_fraction": Figure(0.918)}
    return {"unit": unit} | figures | rest


def coverage(**changes: Any) -> Coverage:
    clean = Coverage(
        files=2,
        rollouts_read=416,
        rollouts_analyzed=416,
        rollouts_empty=0,
        rollouts_excluded={},
        tokens_read=40000,
        tokens_loss=36511,
        tokens_scored=36511,
        tokens_unscored={"nan": 0, "sentinel": 0},
        tokens_unscored_by_side={"trainer_logprobs": {}, "inference_logprobs": {}},
    )
    return replace(clean, **changes)


def shares(tokens: int, rollouts: int, **more: Any) -> Figures:
    fractions = {"token_fraction": Figure(tokens / 36511), "rollout_fraction": Figure(rollouts / 416)}
    return {"tokens": tokens, "rollouts": rollouts} | fractions | more


def recipe(spec: str, *, named: bool = False, framework: Figures | None = None, **figures: Any) -> RecipeReport:
    ordinary: Figures = {
        "applied": {"min": Figure(0.0), "mean": Figure(0.9741), "max": Figure(2.0)},
        "masked": shares(
            365, 64, by_filter=[{"name": "ratio", "low": 310, "high": 55, "rollouts_low": 41, "rollouts_high": 23}]
        ),
        "truncated": shares(0, 0),
        "modified": shares(365, 64),
        "kept": {"tokens": 36146, "rollouts": 352},
        "ess": {
            "token": Figure(33000.5),
            "token_fraction": Figure(0.904),
            "rollout": Figure(152.25),
            "rollout_fraction": Figure(0.366),
        },
        "unmasked_mismatch_kl": {"token": Figure(0.00412), "rollout_mean": Figure(0.00431)},
        "masked_mismatch_kl": {"token": Figure(0.917), "rollout_mean": Figure(0.882)},
    }
    name = spec.partition(":")[0]
    return RecipeReport(name, spec, _options(spec), "token", "tokens", named, ordinary | figures, framework or {})


def _options(spec: str) -> dict[str, Any]:
    try:
        return dict(parse(spec).options)
    except UsageError:
        return {}


def step(value: Any, **changes: Any) -> Figures:
    row: Figures = {
        "value": value,
        "rollouts": 96,
        "tokens": 8123,
        "k1": Figure(-0.0021),
        "k3": Figure(0.0173, low=0.0151, high=0.0198),
        "abs_max": Figure(12.51),
        "ess_token_fraction": Figure(0.93),
        "ess_sequence_fraction": Figure(0.0004),
        "minus_log_p": Figure(2.21),
        "length": Figure(84.6),
        "reward": Figure(0.31),
        "zero_advantage": Figure(0.25),
    }
    return row | changes


def ordinary(**changes: Any) -> Report:
    report = Report(
        verdict=Verdict(
            "NOT HEALTHY", "the trainer lags the sampler by up to 3 steps; a sequence product cannot fix it."
        ),
        coverage=coverage(),
        assumptions=["on-policy: the dump has no current logprobs, so current = trainer."],
        mismatch={
            "k1": Figure(0.0123),
            "k2": Figure(0.0171),
            "k3": Figure(0.0173, low=0.0151, high=0.0198),
            "k3_rollout_mean": Figure(0.0187),
            "abs_mean": Figure(0.0456),
            "abs_max": Figure(12.5),
            "token_mult_prob_error": Figure(1.0712),
            "chi2_token": Figure(0.12),
            "chi2_sequence": Figure(3.4e12),
            "minus_log_p": Figure(2.21),
            "minus_log_q": Figure(2.2),
            "ratio": {level: ratio_group(unit) for level, unit in UNITS.items()},
        },
        recipes=[
            recipe("none"),
            recipe(
                "trl/sequence_mask:clip_min=none,clip_max=3",
                named=True,
                framework={"sampling/importance_sampling_ratio/mean": Figure(0.9741)},
            ),
            recipe("trl/token_mask:clip_min=0.5,clip_max=2"),
            recipe("icepop:low=0.5,high=5"),
        ],
        breakdowns={"step": [step(n) for n in range(6)]},
        provenance={"files": [{"path": "/data/run7/trainer.parquet"}, {"path": "/data/run7/vllm.parquet"}]},
    )
    return replace(report, **changes)


def extreme() -> Report:
    wide = {level: ratio_group(unit, 1e290) for level, unit in UNITS.items()}
    wide["sequence"] |= {"max": Figure.absent("it overflows float64"), "min": Figure(0.0, log10=-434.6)}
    wide["sequence"]["p99"] = Figure(None, why="it overflows float64", log10=1234.56)
    figures = {
        "k1": Figure(-1.7976931348623157e308, low=-1e308, high=1e300),
        "k3": Figure(1e300, low=1e-300, high=1.5e300),
        "abs_max": Figure(123456789.123),
        "ratio": wide,
    }
    big = recipe("none", ess={"rollout": Figure(1e300), "rollout_fraction": Figure(0.9999)})
    return ordinary(
        mismatch=figures,
        recipes=[big],
        coverage=coverage(tokens_scored=10**15, rollouts_analyzed=10**12, rollouts_read=10**12),
        breakdowns={"step": [step(10**18, k3=Figure(1e300), tokens=10**15)]},
    )


def hollow() -> Report:
    figures: Figures = {"k1": Figure.absent("no scored token"), "k3": Figure.absent("no scored token")}
    recipes = [
        recipe(
            "icepop:low=0.5,high=5",
            ess={"rollout": Figure.absent("no scored token")},
            effective_batch_size=Figure.absent(NO_ADVANTAGE),
        )
    ]
    left_out = coverage(
        rollouts_analyzed=0,
        rollouts_empty=3,
        rollouts_excluded={"token_ids_differ": 32, "unmatched_trainer": 381},
        tokens_scored=0,
        tokens_unscored={"nan": 36510, "sentinel": 1},
        tokens_unscored_by_side={"trainer_logprobs": {"nan": 36510}, "inference_logprobs": {"sentinel": 1}},
    )
    return ordinary(coverage=left_out, mismatch=figures, recipes=recipes, breakdowns={})


def bare() -> Report:
    nothing = RecipeReport("none", "none", {}, "none", "tokens", False, {}, {})
    return Report(Verdict("HEALTHY", "ok."), coverage(), [], {}, [nothing])


def hostile(text: str) -> Report:
    finding = Finding(
        code="IS001",
        severity="warning",
        title=text,
        message=f"rollout {text} is odd",
        action=f"look at {text}",
        tokens=7,
        rollouts=1,
        examples=[{"rollout_id": text, "position": 3}],
        evidence={text: Figure(0.5), "side": text},
    )
    return ordinary(
        verdict=Verdict("NOT HEALTHY", f"it is {text}"),
        assumptions=[text],
        coverage=coverage(rollouts_excluded={text: 3}, notes={text: 2}),
        recipes=[recipe(f"none:{text}", named=True, framework={text: Figure(0.123456)})],
        breakdowns={"env": [step(text), step(None), step("")], text: [step(1)]},
        findings=[finding],
        provenance={"files": [text], "options": {text: text}},
        mismatch={"k3": Figure(0.0173), text: Figure(0.5), "word": text},
    )


def future() -> Report:
    more = recipe(
        "trl/token_mask:clip_min=0.5,clip_max=2",
        named=True,
        effective_batch_size={"value": Figure(52.1, low=34.0, high=81.0), "basis": "gradient", "base": Figure(152.0)},
        gradient_left={
            "all": Figure(0.44),
            "positive": Figure(0.61),
            "negative": Figure(0.36),
            "survivors": Figure(0.5),
        },
        groups_with_both_signs={"kept": 30, "total": 42},
        product_left=Figure(0.703),
        truncated=shares(73, 12, low=3, high=70),
    )
    finding = Finding("IS014", "error", "policy lag", "k3 grows with the lag.")
    return ordinary(recipes=[recipe("none"), more], findings=[finding])
