"""Every row of every table: written as a configuration, read again, it is the same recipe."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iscope.errors import UsageError
from iscope.recipes import bind, framework, parse
from iscope.recipes.configs import TABLES, config_table
from iscope.recipes.configs.emit import emit
from iscope.recipes.configs.like import like

EXTENSIONS = {"yaml": "yaml", "toml": "toml", "hydra": "sh", "flags": "sh"}
# What no setting of the framework makes: the base that the others are compared with, and losses it picks by itself.
NOT_WRITTEN = {
    "prime-rl/none": "the base of its losses, not an option",
    "prime-rl/ref_kl": "its algorithm picks it",
    "prime-rl/ref_kl@2026-08": "its algorithm picks it",
}
# Options that a row takes, but that the framework refuses beside it, or cannot be told to be none.
NOT_BESIDE = {
    **{f"{name}/{row}": {"use_rollout_logprobs"} for name in ("slime", "miles") for row in ("tis", "icepop", "mis")},
    **{row.name: {"fipo_safety_threshold"} for row in framework("ms-swift").recipes},
}
# Options that a framework takes from elsewhere, or that its own check refuses in some rows.
NOT_DRAWN = {"global_batch_size", "use_rollout_logprobs"}
ROWS = [row.name for name in TABLES for row in framework(name).recipes]


def read_back(recipe, folder, name=None):
    """The recipe that the lines of this one make."""
    name = name or recipe.framework
    written = emit(recipe, name)
    if not written.lines:  # the framework's defaults make it, and there is no empty configuration to read
        return written.recipe
    file = folder / f"config.{EXTENSIONS[config_table(name).syntax]}"
    lines, mark = list(written.lines), f"# {name}.yaml:"
    if mark in lines:  # what follows belongs into a second file, which the first names
        (folder / f"{name}.yaml").write_text("\n".join(lines[lines.index(mark) :]) + "\n")
        lines = lines[: lines.index(mark)]
    file.write_text("\n".join(lines) + "\n")
    return like(f"{name}:{file}").recipe


def effect(recipe):
    weight = recipe.weight
    return (weight if str(weight.level) != "none" else weight.pair), recipe.filters, recipe.loss


def at_defaults(row):
    try:
        return parse(row)
    except UsageError:  # a row may need an option that has no default
        return None


@pytest.mark.parametrize("row", ROWS)
def test_defaults(row, tmp_path):
    recipe = at_defaults(row)
    if recipe is None or row in NOT_WRITTEN:
        pytest.skip(NOT_WRITTEN.get(row, "it has no defaults"))
    assert effect(read_back(recipe, tmp_path)) == effect(recipe)


@pytest.mark.parametrize("row", sorted(NOT_WRITTEN))
def test_rows_that_no_setting_makes(row):
    with pytest.raises(UsageError, match="cannot be written as settings"):
        emit(parse(row), row.partition("/")[0])


def of_kind(option):
    """Values of an option, its default among them."""
    number = st.floats(0.01, 50, allow_nan=False).map(lambda value: float(f"{value:.4g}"))
    pair = st.tuples(number, number).map(lambda two: "_".join(map(repr, sorted(two))))
    kinds = {
        "float": number,
        "int": st.integers(1, 4096),
        "bool": st.booleans(),
        "choice": st.sampled_from(option.choices or ("",)),
        "pair": number | pair,
        "pairs": number | pair,
        "names": st.sampled_from(option.choices or ("",)),
    }
    values = st.just(option.default) | kinds[option.kind]
    return values | st.none() if option.nullable else values


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_options(name, data, tmp_path_factory):
    owner = framework(name)
    template = data.draw(st.sampled_from([row for row in owner.recipes if row.name not in NOT_WRITTEN]))
    options = {option.short: data.draw(of_kind(option)) for option in template.options if option.short not in NOT_DRAWN}
    losses = [option for option in owner.loss_options if option.short not in NOT_DRAWN]
    some = data.draw(st.lists(st.sampled_from(losses), max_size=3)) if losses else []
    options |= {option.short: data.draw(of_kind(option)) for option in some}
    try:
        recipe = bind(template, owner, options)
    except UsageError:
        return  # the framework's own conditions refuse the combination
    assert effect(read_back(recipe, tmp_path_factory.mktemp("config"))) == effect(recipe)


@pytest.mark.parametrize("name", TABLES)
def test_every_choice(name, tmp_path):
    """All words of all options together with the others' defaults, for each row."""
    seen = 0
    for row in framework(name).recipes:
        if row.name in NOT_WRITTEN:
            continue
        words = [option for option in row.options if option.kind in ("bool", "choice")]
        values = [(True, False) if option.kind == "bool" else option.choices for option in words]
        for chosen in product(*values):
            try:
                recipe = bind(row, framework(name), dict(zip([o.short for o in words], chosen, strict=True)))
            except UsageError:
                continue
            assert effect(read_back(recipe, tmp_path)) == effect(recipe), recipe.spec
            seen += 1
    assert seen
