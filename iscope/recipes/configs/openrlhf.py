"""OpenRLHF's settings at 0.11.2, and the older names of its correction: flags of its command line."""

from __future__ import annotations

from iscope.errors import UsageError
from iscope.recipes.configs.model import Clash, Condition, ConfigRow, ConfigTable, Setting, Unreplayed, Values
from iscope.recipes.configs.values import plain, spelled

_AT = "algo.advantage.is_correction_"
_LEVEL, _MODE, _GATING, _BOUNDS = f"{_AT}level", f"{_AT}mode", f"{_AT}gating", f"{_AT}threshold"
# Until 0.11, and before 0.10 without the prefixes.
_ENABLE, _KIND, _ICEPOP = f"{_AT}enable", f"{_AT}type", "use_icepop"
_LOSS, _CLIP, _CLIPS = "actor.policy_loss_type", "actor.eps_clip", "actor.eps_clip_low_high"
_BAND = "0.5,5.0"


def _numbers(values: Values, path: str) -> list[float]:
    """The one or two numbers that a flag takes."""
    found = [plain(part) for part in spelled(values[path]).split(",")]
    numbers = [float(part) for part in found if isinstance(part, int | float) and not isinstance(part, bool)]
    if len(numbers) != len(found) or not 1 <= len(numbers) <= 2:
        raise UsageError(f"{path} takes one number or two, not {spelled(values[path])}.")
    return numbers


def _clips(values: Values) -> Values:
    low, high = (_numbers(values, _CLIP) * 2)[:2] if values[_CLIPS] is None else (_numbers(values, _CLIPS) * 2)[:2]
    return {"clip_eps_low": low, "clip_eps_high": high}


def _band(values: Values) -> Values:
    low, high = [0.0, *_numbers(values, _BOUNDS)][-2:]
    return {"low": low, "high": high, **_clips(values)}


def _upper(values: Values) -> Values:
    low, high = [0.0, *_numbers(values, _BOUNDS)][-2:]
    if low > 0:
        raise UsageError(
            f"with {_GATING} {values[_GATING]} OpenRLHF takes one upper bound, not {_BOUNDS} {low} {high}: set it to a "
            "single number."
        )
    return {"delta": high, **_clips(values)}


def _write_clips(options: Values) -> Values:
    low, high = options["clip_eps_low"], options["clip_eps_high"]
    return {} if (low, high) == (0.2, 0.2) else {_CLIPS: f"{spelled(low)},{spelled(high)}"}


def _write_band(options: Values) -> Values:
    return {_BOUNDS: f"{spelled(options['low'])},{spelled(options['high'])}", **_write_clips(options)}


def _write_upper(options: Values) -> Values:
    return {_BOUNDS: options["delta"], **_write_clips(options)}


def _plain(recipe: str, when: dict[str, Condition]) -> ConfigRow:
    # A recipe that is GSPO itself does not read the option that chooses it.
    options = {_LOSS: ""} if recipe == "gspo" else {}
    return ConfigRow(f"openrlhf/{recipe}", when, options, read=_clips, write=_write_clips, told_by=(_CLIP, _CLIPS))


def _banded(recipe: str, when: dict[str, Condition]) -> ConfigRow:
    return ConfigRow(f"openrlhf/{recipe}", when, read=_band, write=_write_band, told_by=(_BOUNDS, _CLIP, _CLIPS))


def _gated(level: str, gating: str) -> ConfigRow:
    return ConfigRow(
        f"openrlhf/{level}_{gating}",
        when={_LEVEL: level, _MODE: "mask", _GATING: gating},
        read=_upper,
        write=_write_upper,
        told_by=(_BOUNDS, _CLIP, _CLIPS),
    )


_OLD: dict[str, Condition] = {_LEVEL: False, _ENABLE: True}

TABLE = ConfigTable(
    framework="openrlhf",
    version="OpenRLHF 0.11.2",
    syntax="flags",
    settings=(
        Setting(_LOSS, "policy_loss_type", aliases=("policy_loss_type",)),
        # "off" is false, as everywhere.
        Setting(_LEVEL, "", False, (False, "token", "seq")),
        Setting(_MODE, "", "mask", ("mask", "clip")),
        Setting(_GATING, "", "ratio", ("ratio", "binary_kl", "tv")),
        Setting(_ENABLE, "", False, (True, False), ("enable_vllm_is_correction",), old=True),
        Setting(_KIND, "", "tis", ("tis", "icepop", "seq-mask-tis"), ("vllm_is_correction_type",), old=True),
        Setting(_ICEPOP, "", False, (True, False), old=True),
        Setting(_BOUNDS, "", _BAND, aliases=("vllm_is_truncated_threshold",), several=True),
        Setting(_CLIP, "", 0.2, aliases=("eps_clip",)),
        Setting(_CLIPS, "", None, aliases=("eps_clip_low_high",), several=True),
        Setting("actor.dual_clip", "dual_clip", aliases=("dual_clip",)),
        Setting(
            "actor.loss_agg_mode",
            "token_level_loss",
            "token-mean",
            words=(("token-mean", True), ("seq-mean-token-mean", False)),
        ),
    ),
    rows=(
        _plain("gspo", {_LOSS: "gspo", _LEVEL: ("token", "seq")}),
        _plain("gspo", {_LOSS: "gspo", **_OLD}),
        _plain("none", {_LEVEL: False, _ENABLE: False}),
        _banded("tis", {_LEVEL: "token", _MODE: "clip", _GATING: "ratio"}),
        _banded("icepop", {_LEVEL: "token", _MODE: "mask", _GATING: "ratio"}),
        _banded("seq-mask-tis", {_LEVEL: "seq", _MODE: "mask", _GATING: "ratio"}),
        *(_gated(level, gating) for level in ("token", "seq") for gating in ("binary_kl", "tv")),
        _banded("icepop", {**_OLD, _ICEPOP: True}),
        *(_banded(kind, {**_OLD, _ICEPOP: False, _KIND: kind}) for kind in ("tis", "icepop", "seq-mask-tis")),
    ),
    sections=(_AT,),
    clashes=(
        Clash({_ENABLE: True}, (_LEVEL,), "is_correction_enable is of earlier versions: drop it"),
        Clash(
            {_LEVEL: False, _ENABLE: False},
            (_MODE, _GATING, _BOUNDS, _KIND, _ICEPOP),
            f"nothing is corrected then: set {_LEVEL}, or take it out",
        ),
        Clash({_LEVEL: "seq"}, (_MODE,), "OpenRLHF cuts the ratios of tokens only: take mask"),
        Clash({_MODE: "clip"}, (_GATING,), "OpenRLHF cuts by the ratio only: take mask"),
    ),
    unreplayed=(
        Unreplayed("algo.kl.use_loss", False, "the KL term is added outside the loss that is replayed"),
        Unreplayed("use_kl_loss", False, "the KL term is added outside the loss that is replayed"),
        Unreplayed("actor.entropy_coef", 0, "it needs the entropy of each token's distribution"),
    ),
    switches=True,
)
