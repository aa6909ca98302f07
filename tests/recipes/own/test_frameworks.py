"""A whole framework of the user's: registered, replayed with its own loss options, and refused where not sound."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import iscope
from iscope.errors import UsageError
from iscope.recipes import find, framework, parse
from iscope.recipes.model import Framework, Loss, Option, Recipe, Ref
from iscope.recipes.own import registered
from tests.contract_cases import batch_of, ragged
from tests.own_cases import plugin_module

TABLE: Framework = plugin_module("table").FRAMEWORK
BATCH = batch_of(ragged())


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered, "frameworks", {})
    monkeypatch.setattr(registered, "recipes", {})
    iscope.register(TABLE)


def test_its_recipes_take_its_loss_options() -> None:
    bound = parse("acme-rl/band:reach=1.5,clip_eps=0.1")
    assert (bound.loss.low, bound.loss.high) == (0.9, 1.1)
    assert framework("acme-rl").recipes[1].options[0].default == 2.0
    assert find("acme-rl/none")[0].title == "Acme RL"
    report = iscope.analyze(BATCH, recipes=[bound, "acme-rl/none"])
    assert [entry.spec for entry in report.recipes] == ["acme-rl/band:reach=1.5,clip_eps=0.1", "acme-rl/none"]
    assert report.recipes[0].framework == {}


def test_another_recipe_may_take_its_losses() -> None:
    iscope.register(Recipe("mine/on-acme", "", "", "", framework="acme-rl"))
    assert parse("mine/on-acme:clip_eps=0.3").loss.high == 1.3


def test_what_it_does_not_replay_is_said() -> None:
    with pytest.raises(UsageError, match=r"^Acme RL's mystery is not replayed: its source is not published\.$"):
        parse("acme-rl/mystery")
    with pytest.raises(UsageError, match=r"^There is no recipe 'acme-rl/bend'\. Did you mean 'acme-rl/band'\?$"):
        parse("acme-rl/bend")


_HOW = Option("how", "how", "choice", "a", "How.", choices=("a", "b"))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            replace(TABLE, name="trl"),
            "framework 'trl' name: 'trl' is one of iscope's own frameworks; choose another name.",
        ),
        (replace(TABLE, name="a/b"), "framework 'a/b' name: it must be a word of letters, digits,"),
        (replace(TABLE, name="other"), "recipe 'acme-rl/none' name: it must begin with 'other/'."),
        (replace(TABLE, losses=(("", Loss("sapo")),)), "recipe 'acme-rl/none' loss: type sapo needs temperature."),
        (
            replace(TABLE, losses=(("", Loss("sapoo")),)),
            "framework 'acme-rl' losses[0].type: it must be one of 'surrogate', ",
        ),
        (replace(TABLE, losses=(("", Loss(low=Ref("nothing"))),)), "recipe 'acme-rl/none': there is no 'nothing'"),
        (
            replace(TABLE, loss_options=(replace(_HOW, name="loss_type", short="loss_type"),), losses=(("a", Loss()),)),
            "recipe 'acme-rl/none': there is no 'b'",
        ),
    ],
    ids=range(7),
)
def test_a_framework_that_is_not_sound(table: Framework, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        iscope.register(table)
