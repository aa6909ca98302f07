"""Reports that have every part a page can show: those of real dumps, and one whose every string is given."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from iscope import analyze
from iscope.model import Figure, Figures, Report
from tests.render.reports import hostile, recipe, step

SAMPLE = Path(__file__).resolve().parent.parent / "data" / "sample"
DUMPS = {
    "async": ("train_async/trainer_fp32.parquet", "train_async/vllm.parquet"),
    "fresh": ("base/trainer_fp32_lag0.parquet", "base/vllm.parquet"),
    "int8": ("engine_int8/trainer_bf16.parquet", "engine_int8/vllm.parquet"),
}
HOSTILE = (
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=2</script><!--",
    "[/bold][red]x[/red] **b** `c` | d",
    "\"'><img src=x onerror=window.pwned=3>",
    "</style></title><svg onload=window.pwned=4>",
    "{{ 7*7 }}{% raw %}${7}",
    "\u05e9\u05dc\u05d5\u05dd \u202eevil\u202c \u0645\u0631\u062d\u0628\u0627",
    "a\u2028b\u2029c\x00\x1b[31m\r\nd",
    "x" * 10_000,
    "<b>" * 3_000,
    "[x](javascript:alert(1)) ![y](http://example.com/z) <http://example.com>",
    "\udcff\ud800",
)


@cache
def real(name: str) -> Report:
    """The report of a real dump."""
    trainer, vllm = DUMPS[name]
    return analyze(trainer=SAMPLE / trainer, vllm=SAMPLE / vllm)


def full(text: str) -> Report:
    """A report with every part, and ``text`` wherever a string of the user's can stand."""
    lengths: list[Any] = [
        {"low": 1, "high": 15, "rollouts": 40, "observed": Figure(0.9), "predicted": Figure(0.95)},
        {"low": 16, "high": 31, "rollouts": 56, "observed": Figure(0.8), "predicted": Figure(0.85)},
    ]
    bound: Figures = {"low": None, "high": Figure(3.0)}
    recipes = [
        replace(
            recipe(
                f"{name}:clip_min={low},clip_max={high}",
                named=named,
                effective_batch_size={"value": Figure(52.1, 34.0, 81.0), "basis": "gradient", "base": Figure(152.0)},
                gradient_left={"all": Figure(0.44), "positive": Figure(0.61), "negative": Figure(0.36)},
                groups_with_both_signs={"kept": 30, "total": 42},
                product_left=Figure(0.7),
                keep_at_length=[
                    {"filter": text, "level": "sequence", "signs": text, "bound": bound, "lengths": lengths}
                ],
            ),
            name=name,
            options={"clip_min": low, "clip_max": high, text: text},
            like=text if named else "",
        )
        for name, named in ((text, True), ("trl/token_mask", False))
        for low in (0.5, 0.7)
        for high in (2.0, 3.0)
    ]
    specs = [one.spec for one in recipes]
    left: Figures = {
        "effective_batch_size": recipes[0].figures["effective_batch_size"],
        "gradient_left": {"all": Figure(0.4)},
    }
    by_recipe: list[Any] = [{"spec": spec, **left} for spec in specs]
    rows = [step(n, recipes=by_recipe) for n in range(12)]
    lags = [step(n, recipes=by_recipe) for n in (0, 1, text)]
    return replace(
        hostile(text),
        recipes=recipes,
        breakdowns={"step": rows, "lag": lags, "env": [step(text), step(None), step("")], text: [step(1)]},
        parts=_parts(text, specs),
    )


def _parts(text: str, specs: list[str]) -> Figures:
    spread: Figures = {"unit": "tokens", "start": -0.5, "width": 0.25, "counts": [1, 9, 8, 2], "below": 1, "above": 0}
    bound: Figures = {
        "spec": specs[0],
        "rule": text,
        "pair": "trainer/inference",
        "low": -0.2,
        "high": None,
        "signs": text,
    }
    levels = ("token", "sequence", "geometric")
    strip: Figures = {"positions": [3, 4], "log_ratios": [-2.0, 0.3], "at": 0, "before": 3, "after": 9}
    strip |= {"token_ids": [50256, None], "texts": [text, None]}
    bare: Figures = {**strip, "token_ids": {"why": text}, "texts": []}
    ends: Figures = {
        "log_ratio_sum": Figure(-9.5),
        "log_ratio_mean": Figure(-0.7),
        "abs_max": Figure(2.0),
        "scored": 14,
    }
    place: Figures = {"low": 0, "high": 0, "tokens": 96, "k3": Figure(0.1), "abs_mean": Figure(0.2)}
    bounds: list[Any] = [{**bound, "level": level} for level in levels]
    figures: list[Any] = [
        {
            "path": f"mismatch.{text}",
            "here": Figure(1.0),
            "there": Figure(2.0),
            "difference": Figure(-1.0),
            "interval": text,
        }
    ]
    return {
        "onset": {"moved": [{"what": "k3", "step": 7}, {"what": text, "step": text}]},
        "advice": {
            "title": text,
            "sentences": [text],
            "config": [text, "clip_max: 2"],
            "notes": [text],
            "spec": specs[0],
        },
        "settings": {"tried": 9, "swept": 8, "met": 8, "skipped": {text: 1}, "require": [text], "rank_by": text},
        "staleness": [
            {"value": text, "k3_parts": {"engine": Figure(0.1), "lag": Figure.absent(text), "total": Figure(0.2)}}
        ],
        "front": [{"spec": specs[0]}],
        "against": {
            "pairing": {"kind": text, "rollouts": 3, "why": text},
            "verdict": {"word": text, "message": text},
            "changed": [text],
            "figures": figures,
        },
        "distributions": {
            "ratio": {"trainer/inference": {level: spread for level in levels}},
            "bounds": bounds,
            "position": [place, {**place, "low": 1, "high": 2}],
        },
        "worst": {
            "rollouts": [
                {"rollout_id": text, **ends, "step": text, "group_id": text, "strip": strip},
                {"rollout_id": "b", **ends, "strip": bare, "completion": {"text": text, "characters": 20_000}},
                {"rollout_id": "c", **ends, "strip": {"why": text}, "completion": {"why": text}},
            ],
            "tokens": [{"rollout_id": text, "position": 3, "log_ratio": Figure(-2.0), "token_id": 7, "text": text}],
            "tokens_looked_at": 900,
        },
    }
