"""SkyRL's settings, ``trainer.algorithm`` at commit a9564572: overrides on its command line, or YAML."""

from __future__ import annotations

from iscope.recipes.configs.model import SET, Clash, ConfigRow, ConfigTable, Setting, Unreplayed

_ALGORITHM = "trainer.algorithm."
_AT = f"{_ALGORITHM}off_policy_correction."
_TIS, _METRIC = f"{_AT}tis_ratio_type", f"{_AT}sequence_mask_metric"
_OUT_LOW, _OUT_HIGH = f"{_AT}outlier_token_is_threshold_low", f"{_AT}outlier_token_is_threshold_high"
_TOKEN_LOW, _TOKEN_HIGH = f"{_AT}token_mask_is_threshold_low", f"{_AT}token_mask_is_threshold_high"
_USE_TIS, _CAP = f"{_ALGORITHM}use_tis", f"{_ALGORITHM}tis_imp_ratio_cap"
_CLIPS = ("token_tis_ratio_clip_high", "sequence_tis_ratio_clip_high")
_BANDS = ("geo_mask_low", "geo_mask_high", "product_mask_low", "product_mask_high")
_ANCHOR, _LOSS_TYPE = f"{_ALGORITHM}cispo.cispo_anchor", f"{_ALGORITHM}policy_loss_type"

_OFF = {
    _USE_TIS: False,
    _TIS: None,
    _METRIC: None,
    _OUT_LOW: None,
    _OUT_HIGH: None,
    _TOKEN_LOW: None,
    _TOKEN_HIGH: None,
}

TABLE = ConfigTable(
    framework="skyrl",
    version="SkyRL a9564572",
    syntax="hydra",
    settings=(
        Setting(_TIS, "tis_ratio_type", None, (None, "token", "sequence")),
        *(Setting(_AT + name, name) for name in _CLIPS),
        Setting(_METRIC, "sequence_mask_metric", None, (None, "geometric", "product")),
        *(Setting(_AT + name, name) for name in _BANDS),
        *(Setting(path, path.removeprefix(_AT), None) for path in (_OUT_LOW, _OUT_HIGH, _TOKEN_LOW, _TOKEN_HIGH)),
        Setting(_USE_TIS, old=True, default=False, choices=(True, False)),
        Setting(_CAP, old=True, default=-1.0),
        Setting(_LOSS_TYPE, "policy_loss_type"),
        *(
            Setting(_ALGORITHM + name, name)
            for name in ("loss_reduction", "eps_clip_low", "eps_clip_high", "clip_ratio_c", "max_seq_len")
        ),
        *(Setting(f"{_ALGORITHM}sapo.{name}", name) for name in ("tau_pos", "tau_neg")),
        *(
            Setting(f"{_ALGORITHM}cispo.{name}", name)
            for name in ("cispo_eps_clip_low", "cispo_eps_clip_high", "cispo_anchor")
        ),
        *(Setting(f"{_ALGORITHM}dppo.{name}", name) for name in ("dppo_type", "delta_low", "delta_high")),
    ),
    rows=(
        ConfigRow("skyrl/none", when=_OFF),
        ConfigRow("skyrl/tis", when={**_OFF, _TIS: SET}),
        # The deprecated names; the cap stays at -1 unless it is set.
        ConfigRow(
            "skyrl/tis",
            when={**_OFF, _USE_TIS: True},
            options={_CAP: "token_clip", _TIS: "", f"{_AT}{_CLIPS[0]}": ""},
            fixed={"ratio_type": "token"},
        ),
        ConfigRow("skyrl/geometric", when={**_OFF, _METRIC: "geometric"}),
        ConfigRow("skyrl/product", when={**_OFF, _METRIC: "product"}),
        ConfigRow(
            "skyrl/outlier", when={path: value for path, value in _OFF.items() if path not in (_OUT_LOW, _OUT_HIGH)}
        ),
        ConfigRow("skyrl/token_mask", when={**_OFF, _TOKEN_LOW: SET, _TOKEN_HIGH: SET}),
        ConfigRow("skyrl/off_policy_correction", when={_USE_TIS: False}),
        ConfigRow(
            "skyrl/off_policy_correction",
            when={_USE_TIS: True},
            options={_CAP: "token_clip", _TIS: "", f"{_AT}{_CLIPS[0]}": ""},
            fixed={"ratio_type": "token"},
        ),
    ),
    sections=(_AT, f"{_ALGORITHM}eps_clip", *(f"{_ALGORITHM}{loss}." for loss in ("sapo", "cispo", "dppo"))),
    clashes=(
        Clash(
            {_ANCHOR: "rollout", _LOSS_TYPE: "cispo"},
            (_TIS,),
            "SkyRL refuses both, since the gap to the engine would count twice: drop one of them",
        ),
        Clash(
            {_USE_TIS: True},
            (_TIS, f"{_AT}{_CLIPS[0]}"),
            "the deprecated use_tis writes over it: drop use_tis",
        ),
        Clash({_USE_TIS: False}, (_CAP,), "without use_tis it has no effect: set use_tis, or take it out"),
    ),
    unreplayed=(
        Unreplayed(f"{_ALGORITHM}use_kl_loss", False, "SkyRL's recipes leave the KL term to the reference out", True),
        Unreplayed(f"{_ALGORITHM}use_entropy_loss", False, "it needs the entropy of each token's distribution"),
    ),
)
