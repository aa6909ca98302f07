"""The tables: complete, consistent, and light to import."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import iscope.recipes
from iscope.errors import UsageError
from iscope.recipes import ALIASES, DEFAULT_RECIPES, FRAMEWORKS, describe, find, framework, frameworks, names, parse
from iscope.recipes.model import ByOption, Framework, Option, Recipe, Ref
from iscope.recipes.options import accepted_names, check_value

ROOT = Path(iscope.recipes.__file__).parents[2]
ROWS = [(table, row) for table in frameworks() for row in table.recipes]
OPTIONS = [(row, option) for table, row in ROWS for option in (*row.options, *table.loss_options)]


def _references(node: Any) -> set[str]:
    if isinstance(node, Ref):
        return {node.option, *({node.otherwise} if isinstance(node.otherwise, str) else _references(node.otherwise))}
    if isinstance(node, ByOption):
        return {node.option, *_references((*(part for _, part in node.parts), node.otherwise))}
    if isinstance(node, tuple):
        return set().union(*(_references(part) for part in node))
    if is_dataclass(node):
        return set().union(*(_references(getattr(node, part.name)) for part in fields(node)))
    return set()


@pytest.mark.parametrize(("row", "option"), OPTIONS, ids=[f"{row.name}:{option.short}" for row, option in OPTIONS])
def test_every_option_is_described(row: Recipe, option: Option) -> None:
    assert option.doc.endswith(".")
    assert option.name.isidentifier()
    assert option.short.isidentifier()
    assert option.kind in {"float", "int", "bool", "choice", "pair", "names", "pairs"}
    assert (option.kind in {"choice", "names"}) == bool(option.choices)
    assert check_value(row.name, option, option.default) == option.default


@pytest.mark.parametrize(("table", "row"), ROWS, ids=[row.name for _, row in ROWS])
def test_every_recipe_is_described(table: Framework, row: Recipe) -> None:
    assert row.summary.endswith(".")
    assert row.formula
    assert row.source
    assert row.name.startswith(f"{table.name}/" if table.name else row.name.partition("/")[0])
    assert all(note.endswith(".") for note in row.notes)


@pytest.mark.parametrize(("table", "row"), ROWS, ids=[row.name for _, row in ROWS])
def test_no_two_options_share_a_name(table: Framework, row: Recipe) -> None:
    accepted = Counter(name for option in (*row.options, *table.loss_options) for name in accepted_names(option))
    assert [name for name, count in accepted.items() if count > 1] == []


@pytest.mark.parametrize(("table", "row"), ROWS, ids=[row.name for _, row in ROWS])
def test_references_name_options_and_every_own_option_is_used(table: Framework, row: Recipe) -> None:
    own = {option.short for option in row.options}
    used = _references((row.weight, row.filters, row.filter_list, row.loss, row.weight_if_set))
    assert own <= used
    known = own | {option.short for option in table.loss_options}
    assert used <= known
    assert {name for constraint in (*row.constraints, *table.constraints) for name in constraint.options} <= known


@pytest.mark.parametrize(("table", "row"), ROWS, ids=[row.name for _, row in ROWS])
def test_the_formula_and_the_source_name_the_options(table: Framework, row: Recipe) -> None:
    for option in row.options:
        assert option.short in row.formula
        assert table.name == "" or option.name in row.source + row.formula


@pytest.mark.parametrize("name", names())
def test_every_recipe_runs_at_its_defaults(name: str) -> None:
    bound = parse(name)
    assert bound.name == name
    assert not _references((bound.weight, bound.filters))


def test_names_are_unique_and_found() -> None:
    assert len(set(names())) == len(names())
    assert [find(name)[1].name for name in names()] == list(names())


def test_aliases_lead_to_recipes_and_hide_none() -> None:
    assert not set(ALIASES) & set(names())
    assert {find(alias)[1].name for alias in ALIASES} == set(ALIASES.values())


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_framework_has_a_recipe_without_correction(name: str) -> None:
    table = framework(name)
    assert table.name == name
    bound = parse(f"{name}/none" if name else "none")
    assert (bound.weight.level, bound.filters) == ("none", ())


def test_an_unknown_framework_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^There is no framework 'trll'\. Did you mean 'trl'\?$"):
        framework("trll")


def test_the_default_list() -> None:
    assert [parse(spec).spec for spec in DEFAULT_RECIPES] == [
        "none",
        "trl/sequence_mask:clip_min=none,clip_max=3",
        "trl/token_truncate:clip_min=none,clip_max=2",
        "icepop:low=0.5,high=5",
        "trl/token_mask:clip_min=0.5,clip_max=2",
        "prime-rl/ipo:eps=0.3,max_importance_ratio=10000",
        "prime-rl/seq_tis:seq_clip=2",
        "prime-rl/seq_mis:geo_mask_low=0.5,geo_mask_high=2",
        "prime-rl/mis_po:geo_mask_low=0.996,geo_mask_high=1.001,token_mask_low=0.5,token_mask_high=2",
    ]


def test_trl_defaults_are_those_of_its_config() -> None:
    for row in framework("trl").recipes[1:]:
        assert {option.name: option.default for option in row.options} == {
            "vllm_importance_sampling_clip_min": None,
            "vllm_importance_sampling_clip_max": 3.0,
        }
    loss_defaults = {option.name: option.default for option in framework("trl").loss_options}
    assert loss_defaults == {
        "loss_type": "dapo",
        "importance_sampling_level": "token",
        "epsilon": 0.2,
        "epsilon_high": None,
        "delta": None,
        "sapo_temperature_pos": 1.0,
        "sapo_temperature_neg": 1.05,
        "vespo_k_pos": 2.0,
        "vespo_lambda_pos": 3.0,
        "vespo_k_neg": 3.0,
        "vespo_lambda_neg": 2.0,
        "off_policy_mask_threshold": None,
        "beta": 0.0,
        "use_bias_correction_kl": True,
        "max_completion_length": 512,
    }


@pytest.mark.parametrize("table", frameworks(), ids=[table.title for table in frameworks()])
def test_every_loss_option_is_read_by_some_loss(table: Framework) -> None:
    losses = (table.losses, *((row.loss, row.filters, row.weight) for row in table.recipes))
    assert {option.short for option in table.loss_options} - {"loss_type"} <= _references(losses)


@pytest.mark.parametrize("table", frameworks(), ids=[table.title for table in frameworks()])
def test_every_loss_type_runs(table: Framework) -> None:
    for name, _ in table.losses[1:]:
        rules = [rule for rule in table.constraints if rule.when == ("loss_type", name)]
        needed = [rule.options[0] for rule in rules if rule.kind == "any"]
        text = f"{table.name}/none:loss_type={name}" + "".join(f",{option}=1" for option in needed)
        bound = parse(text.removeprefix("/"))
        assert not _references(bound.loss)


def test_constraints_in_words() -> None:
    row = find("trl/token_truncate")[1]
    assert [describe(constraint) for constraint in row.constraints] == [
        "clip_min must be below clip_max",
        "clip_min and clip_max must not be below 0",
        "at least one of clip_min and clip_max must be set",
    ]


@pytest.mark.parametrize("module", ["iscope.recipes", "iscope.cli.recipes"])
def test_parsing_imports_nothing_heavy(module: str) -> None:
    code = (
        f"import sys, {module}; from iscope.recipes import names, parse; [parse(name) for name in names()];"
        "print(sorted({'torch', 'polars', 'numpy', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


FRAMEWORK_PREFIXES = (
    "trl",
    "prime-rl",
    "verl",
    "skyrl",
    "slime",
    "miles",
    "nemo-rl",
    "openrlhf",
    "areal",
    "ms-swift",
    "open-instruct",
)
# The names by which each framework's users know its corrections.
MODES = {
    "trl": ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
    "prime-rl": ("ipo", "icepop", "ppo", "cispo", "seq_tis", "seq_mis", "geo_mask", "mis_po", "ref_kl"),
    "verl": ("rollout_is", "rollout_rs", "rollout_correction", "decoupled_token_is", "bypass_ppo_clip"),
    "skyrl": ("tis", "geometric", "product", "outlier"),
    "slime": ("tis", "icepop", "mis"),
    "miles": ("tis", "icepop", "mis"),
    "nemo-rl": ("tis", "icepop", "seq-mask-tis"),
    "openrlhf": ("tis", "icepop", "seq-mask-tis"),
    "areal": ("rejection_sampling", "m2po"),
    "ms-swift": ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
    "open-instruct": ("rho",),
    "": (
        *("tis", "icepop", "geometric_mask", "mis_po", "off_policy_sequence_mask", "kpop", "dppo_tv", "dppo_kl"),
        *("trust_region_mask", "trm", "minpro"),
    ),
}
LOSS_TYPES = {
    "trl": ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "vespo", "luspo"),
    "verl": ("vanilla", "dppo_tv", "dppo_kl", "gspo", "sapo", "gpg", "geo_mean", "dro", "cispo"),
    "skyrl": ("regular", "dual_clip", "sapo", "gspo", "cispo", "rollout_is", "dppo", "importance_sampling"),
    "ms-swift": ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "fipo", "real"),
    "": ("ppo", "gspo", "gmpo", "cispo", "sapo", "vespo", "dro"),
}


def test_every_framework_has_its_file() -> None:
    assert set(FRAMEWORK_PREFIXES) == set(FRAMEWORKS) - {""}
    for name in FRAMEWORK_PREFIXES:
        module = name.replace("-", "_")
        assert FRAMEWORKS[name] == f"iscope.recipes.{module}"
        assert (ROOT / "iscope" / "recipes" / f"{module}.py").is_file()


@pytest.mark.parametrize("name", MODES)
def test_corrections_are_found_under_the_names_of_the_field(name: str) -> None:
    for mode in MODES[name]:
        assert parse(f"{name}/{mode}".removeprefix("/")).framework == name


@pytest.mark.parametrize("name", LOSS_TYPES)
def test_loss_types_are_found_under_the_names_of_the_field(name: str) -> None:
    assert set(LOSS_TYPES[name]) <= {loss for loss, _ in framework(name).losses}


@pytest.mark.parametrize("table", frameworks(), ids=[table.title for table in frameworks()])
def test_what_is_not_replayed_has_a_reason_and_is_no_recipe(table: Framework) -> None:
    known = {row.name for row in table.recipes} | {loss for loss, _ in table.losses}
    for name, reason in table.not_replayed:
        assert reason
        assert not {name, f"{table.name}/{name}"} & known
