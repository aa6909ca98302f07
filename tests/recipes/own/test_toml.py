"""Recipes from a TOML file: what they become, and one sentence with file, table and key for what cannot be."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iscope.errors import UsageError
from iscope.recipes import bind, framework, frameworks, parse
from iscope.recipes.model import BoundRecipe, Denominator, LossLogs, Recipe
from iscope.recipes.own.check import checked
from iscope.recipes.own.decode import decode
from iscope.recipes.own.encode import to_json
from iscope.recipes.own.toml import LARGEST, read_all, read_recipes, recipes_of
from iscope.recipes.own.where import Where
from tests.own_cases import FILE

ROWS = [row for table in frameworks() for row in table.recipes]


def read(text: str) -> dict[str, Recipe]:
    return recipes_of(text.encode(), "my.toml", Path("/nowhere"))


def rules(bound: BoundRecipe) -> tuple:
    return bound.weight, bound.filters, bound.loss


def test_a_base_with_options_for_short() -> None:
    own = read('[recipes]\n"mine/quick" = "trl/token_mask:clip_max=5,loss_type=grpo"')
    mine, theirs = parse("mine/quick", own), parse("trl/token_mask:clip_max=5,loss_type=grpo")
    assert rules(mine) == rules(theirs)
    assert mine.options == theirs.options
    assert mine.framework == "trl"
    assert mine.spec == "mine/quick:clip_min=none,clip_max=5"
    assert parse("mine/quick:loss_type=dapo", own).spec == "mine/quick:clip_min=none,clip_max=5,loss_type=dapo"


def test_the_spec_of_an_own_recipe_parses_back() -> None:
    own = read_recipes(FILE)
    for name in own:
        bound = parse(name, own)
        assert parse(bound.spec, own) == bound
    changed = parse("toml/short:loss_type=dapo,clip_max=4", own)
    assert parse(changed.spec, own) == changed
    assert changed.options["loss_type"] == "dapo"


def test_a_base_may_come_later_in_the_file() -> None:
    own = read('[recipes]\n"a/two" = "a/one:clip_max=7"\n"a/one" = "trl/token_mask:clip_min=0.5"')
    assert list(own) == ["a/two", "a/one"]
    assert parse("a/two", own).spec == "a/two:clip_min=0.5,clip_max=7"


def test_options_of_a_base_as_a_table() -> None:
    own = read('[recipes."a/b"]\nbase = "trl/token_mask"\noptions = { clip_max = "none", clip_min = 0.5, beta = 0.1 }')
    bound = parse("a/b", own)
    assert (bound.options["clip_min"], bound.options["clip_max"], bound.options["beta"]) == (0.5, None, 0.1)


def test_a_base_whose_parts_are_replaced_is_another_recipe() -> None:
    own = read('[recipes."a/b"]\nbase = "trl/token_mask"\nloss = { type = "score" }')
    assert parse("a/b", own).loss.type == "score"
    assert own["a/b"].base == ""
    assert read('[recipes."a/b"]\nbase = "trl/token_mask"\nsummary = "Mine."')["a/b"].base == "trl/token_mask"


def test_a_whole_recipe_is_what_the_framework_s_table_says() -> None:
    mine, theirs = parse("toml/token_mask", read_recipes(FILE)), parse("trl/token_mask")
    assert rules(mine) == rules(theirs)
    assert mine.options == theirs.options
    assert mine.row.notes == ("The same as trl/token_mask.",)


def test_a_choice_between_parts() -> None:
    own = read_recipes(FILE)
    truncate, mask = parse("toml/by_option:how=truncate", own), parse("toml/by_option:mask,3", own)
    assert (truncate.weight.high, truncate.filters) == (2.0, ())
    assert (mask.weight.high, [rule.high for rule in mask.filters]) == (None, [3.0])
    assert mask.loss.penalty is not None
    assert mask.loss.aggregation == "seq-mean-token-mean"


def test_a_loss_within_a_loss() -> None:
    aggregation = 'aggregation = "seq-mean-token-sum-norm"'
    text = f"loss = {{ {aggregation}, denominator = {{ norm_length = 64 }}, logs = {{ ratio = true }} }}"
    loss = bind(read(f'[recipes."m/a"]\n{text}')["m/a"], framework(""), {}).loss
    assert (loss.denominator, loss.logs) == (Denominator(norm_length=64), LossLogs(ratio=True))


def test_functions_are_looked_for_beside_the_file() -> None:
    function = read_recipes(FILE)["toml/soft"].weight.function
    assert function is not None
    assert function.call == str(FILE.parent / "functions.py:root")
    bound = parse("toml/soft:power=0.25", read_recipes(FILE))
    assert bound.weight.function is not None
    assert bound.weight.function.arguments == (("power", 0.25),)


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_every_recipe_of_iscope_can_be_said_in_such_tables(row: Recipe) -> None:
    table = framework(row.name.partition("/")[0] if "/" in row.name else "")
    own = replace(row, name=f"mine/{row.name.replace('/', '-')}", framework=table.name)
    back = checked(decode(Recipe, json.loads(json.dumps(to_json(own))), Where("there")))
    assert to_json(back) == to_json(own)
    for values in ({}, *({option.short: choice} for option in own.options for choice in option.choices)):
        with suppress(UsageError):
            expected = bind(own, table, values)
            assert bind(back, table, values) == replace(expected, row=back)


TOO_LARGE = "0x" + "f" * 6000  # Python refuses to spell so many digits out
BAD = [
    ("x = 1", "my.toml: there is no table 'x'; every recipe is a table [recipes.\"NAME\"]."),
    ("[recipe]\n", "every recipe is a table [recipes.\"NAME\"]. Did you mean 'recipes'?"),
    ("", 'my.toml: it has no recipes; every recipe is a table [recipes."NAME"].'),
    ("recipes = 3", "my.toml: it has no recipes;"),
    (
        f'[recipes]\n"m/a" = {TOO_LARGE}',
        "a recipe is a table, or text such as 'trl/token_mask:clip_max=3', not so large a number",
    ),
    (
        f'[recipes."m/a"]\nbase = "trl/token_mask"\noptions = {{ clip_max = {TOO_LARGE} }}',
        'my.toml: [recipes."m/a"] options: m/a: clip_max must be a number or none, not so large a number.',
    ),
    (
        f'[recipes."m/a"]\nbase = "trl/token_mask"\nnotes = [{TOO_LARGE}]',
        'my.toml: [recipes."m/a"] notes[0]: it must be text, not so large a number.',
    ),
    ("recipes = [", "my.toml: it is no TOML file: "),
    ("a = " + "[" * 5000, "my.toml: its tables are nested too deeply."),
    (
        '[recipes."m/a"]\n' + ".".join(["loss"] * 3000) + " = 1",
        "my.toml: [recipes.\"m/a\"] loss: there is no key 'loss'",
    ),
    ('[recipes]\n"m/a" = 3', 'my.toml: [recipes."m/a"]: a recipe is a table, or text such as '),
    (
        '[recipes]\n"m/a" = "trl/token_mass"',
        "[recipes.\"m/a\"] base: There is no recipe 'trl/token_mass'. Did you mean",
    ),
    ('[recipes]\n"m/a" = "m/b"\n"m/b" = "m/a"', "base: it goes round in a circle: m/a -> m/b -> m/a."),
    ('[recipes]\n"m/a" = "m/a:x=1"', "base: it goes round in a circle: m/a -> m/a."),
    ('[recipes]\n"trl/a" = "none"', "recipes of trl are iscope's own; choose another prefix, such as mine/."),
    (
        '[recipes]\n"icepop" = "none"',
        "'icepop' is the name of one of iscope's own; choose another, such as mine/icepop.",
    ),
    ('[recipes]\n"a b" = "none"', "a name is letters, digits, '_', '.', '-' and '@', with one '/' at most"),
    ('[recipes]\n"a/b/c" = "none"', "with one '/' at most"),
    (
        '[recipes]\n"m/a" = "trl/token_mask:clip_max=-3"',
        "base: trl/token_mask: clip_min and clip_max must not be below 0",
    ),
    ('[recipes."m/a"]\nbase = 3', "base: it must be a recipe, such as 'trl/token_mask:clip_max=3', not 3."),
    ('[recipes."m/a"]\nbase = "none"\nframework = "trl"', "framework: it is that of the base; leave it out."),
    ('[recipes."m/a"]\nbase = "trl/token_mask"\noptions = { clip_mx = 3 }', "Did you mean 'clip_max'?"),
    (
        '[recipes."m/a"]\nbase = "trl/token_mask"\noptions = { clip_max = [1] }',
        "clip_max must be a number or none, not a list",
    ),
    ('[recipes."m/a"]\noptions = { clip_max = 3 }', "options: values of options need a base"),
    ('[recipes."m/a"]\nwieght = {}', "there is no key 'wieght'; the keys are base, summary,"),
    ('[recipes."m/a"]\nwieght = {}', "Did you mean 'weight'?"),
    ('[recipes."m/a"]\nframework = "trll"', "framework: it must be a framework, not 'trll'. Did you mean 'trl'?"),
    ('[recipes."m/a"]\nweight = 3', "weight: it must be a table, not 3."),
    ('[recipes."m/a"]\nweight = { level = "tokne" }', "weight.level: it must be one of 'none', 'token', 'sequence', "),
    ('[recipes."m/a"]\nweight = { level = "tokne" }', "not 'tokne'. Did you mean 'token'?"),
    ('[recipes."m/a"]\nweight = { levl = "token" }', "weight: there is no key 'levl'; the keys are level, pair, "),
    ('[recipes."m/a"]\nweight = { level = "token", high = "cap" }', "weight: there is no option 'cap'."),
    ('[recipes."m/a"]\nweight = { level = "token", high = inf }', "weight.high: it must be finite, not inf."),
    (
        '[recipes."m/a"]\nweight = { level = "token", high = true }',
        "weight.high: it must be none or a number or an option's",
    ),
    (
        '[recipes."m/a"]\nweight = { level = "token", normalise = 1 }',
        "weight.normalise: it must be true or false or an opt",
    ),
    (
        '[recipes."m/a"]\nweight = { high = { option = "x", scale = "y" } }',
        "weight.high.scale: it must be a number, not 'y'.",
    ),
    (
        '[recipes."m/a"]\nweight = { high = { by = "x", parts = [] } }',
        "weight.high.parts: it must be a list of {is = .., ",
    ),
    ('[recipes."m/a"]\nfilters = {}', "filters: it must be a list, not a table."),
    ('[recipes."m/a"]\nfilters = [{ low = 1 }]', "filters[0]: it lacks the key 'name'."),
    ('[recipes."m/a"]\nfilters = [{ name = "x", low_sings = "A>0" }]', "Did you mean 'low_signs'?"),
    (
        '[recipes."m/a"]\nfilters = [{ name = "x", high = 1, space = "log", function = "m:f" }]',
        "filters[0]: what a function",
    ),
    (
        '[recipes."m/a"]\nweight = { function = "m:f" }',
        "weight: a function gives a weight at level token, sequence or",
    ),
    (
        '[recipes."m/a"]\nweight = { level = "token", function = "nothing" }',
        "weight.function: it must be module:function or",
    ),
    (
        '[recipes."m/a"]\nweight = { level = "token", function = "m:f" }\nloss = { type = "surrogate" }',
        "it cannot be replayed at its defaults: its weight is a function, whose derivative is not known, but the ",
    ),
    ('[recipes."m/a"]\nloss = { type = "sapo" }', "loss: type sapo needs temperature."),
    ('[recipes."m/a"]\nloss = { type = "function" }', "loss: type function needs function."),
    ('[recipes."m/a"]\nloss = { function = "m:f" }', "loss: a function is the loss only with type = 'function'."),
    ('[recipes."m/a"]\nloss = { aggregation = "seq-mean-token-sum-norm" }', "needs norm_length in its denominator."),
    (
        '[recipes."m/a"]\nloss = { denominator = { count = "all" } }',
        "loss.denominator: there is no key 'count'; the keys are",
    ),
    (
        '[recipes."m/a"]\nweight = { level = "token", high = -1 }\nloss = { type = "geo_mean", low = 1, high = 1 }',
        "with an upper bound below 0 its weights have no logarithm",
    ),
    ('[recipes."m/a"]\noptions = [3]', "options[0]: it must be a table, not 3."),
    (
        '[recipes."m/a"]\noptions = [{ name = "x", kind = "flaot" }]',
        "options[0].kind: it must be one of 'float', 'int', ",
    ),
    ('[recipes."m/a"]\noptions = [{ name = "x", kind = "float", default = 1 }]', "options: 'x' is used nowhere;"),
    (
        '[recipes."m/a"]\noptions = [{ name = "x", kind = "float" }]',
        "options[0].default: x must be a number, not none.",
    ),
    (
        '[recipes."m/a"]\noptions = [{ name = "x y", kind = "float", default = 1 }]',
        "options[0]: 'x y' is no name of an option",
    ),
    (
        '[recipes."m/a"]\noptions = [{ name = "x", kind = "choice", default = "a" }]',
        "an option of kind choice has choices",
    ),
    (
        '[recipes."m/a"]\nweight = { level = "token", high = "x" }\n'
        'options = [{ name = "x", kind = "float", default = 1 }, { name = "x", kind = "float", default = 1 }]',
        "options: 'x' is the name of two options",
    ),
    (
        '[recipes."m/a"]\nweight = { level = "token", high = "x" }\n'
        'options = [{ name = "x", kind = "pair", default = "0.5_2" }]',
        "weight.high: it must be none or a number, not '0.5_2'.",
    ),
    (
        '[recipes."m/a"]\nweight = { level = { option = "x" } }\n'
        'options = [{ name = "x", kind = "choice", choices = ["token", "tok"], default = "token" }]',
        "its parts do not fit its options with x=tok (ValueError: 'tok' is not a valid Level).",
    ),
    (
        '[recipes."m/a"]\nweight = { level = "token", high = { by = "x", parts = [{ is = true, part = 2 }] } }\n'
        'options = [{ name = "x", kind = "bool", default = true }]',
        "there is no false among its options, or among the parts that one of them chooses from.",
    ),
    ('[recipes."m/a"]\nconstraints = [{ kind = "less", options = ["x"] }]', "constraints: 'less' is about 2 options."),
    ('[recipes."m/a"]\nconstraints = [{ kind = "any", options = ["x"] }]', "constraints: there is no option 'x'."),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=range(len(BAD)))
def test_what_cannot_be_is_one_sentence(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as error:
        read(text)
    assert str(error.value).startswith("my.toml: ")
    assert str(error.value).endswith((".", "?"))
    assert "\n" not in str(error.value)


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(UsageError, match=r"^my\.toml: it is no TOML file: not UTF-8 at byte 0\.$"):
        recipes_of(b"\xff", "my.toml", Path("/nowhere"))


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_bytes(b"#" * (LARGEST + 1))
    with pytest.raises(
        UsageError, match=r"large\.toml: it is larger than 1,048,576 bytes, which no file of recipes is\.$"
    ):
        read_recipes(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml: cannot be read: No such file or directory\.$"):
        read_recipes(tmp_path / "none.toml")


def test_two_files_with_one_name(tmp_path: Path) -> None:
    for name in ("one.toml", "two.toml"):
        (tmp_path / name).write_text('[recipes]\n"m/a" = "none"', encoding="utf-8")
    with pytest.raises(UsageError, match=r"two\.toml: the recipe 'm/a' is in .*one\.toml too; rename one of them\.$"):
        read_all([tmp_path / "one.toml", tmp_path / "two.toml"])


KEYS = (
    "weight",
    "filters",
    "loss",
    "options",
    "base",
    "level",
    "high",
    "name",
    "function",
    "by",
    "parts",
    "is",
    "part",
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["token", "none", "x", "m:f", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4))
def test_hostile_tables_give_a_recipe_or_one_sentence(table: dict) -> None:
    whole = {"name": "m/a", "summary": "", "formula": "", "source": "", **table}
    with suppress(UsageError):
        row = checked(decode(Recipe, whole, Where("m")))
        assert parse(row.name, {row.name: row}).row == row
