"""A Python function as a recipe: its keyword arguments are the options, what it returns are weight and keep."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar

from iscope.errors import UsageError
from iscope.recipes.model import Filter, Function, Level, Loss, Option, Pair, Recipe, Reduction, Ref, WeightRule
from iscope.recipes.own.check import checked

Call = TypeVar("Call", bound=Callable[..., Any])

_ATTRIBUTE = "__iscope_recipe__"
_KINDS: dict[Any, Literal["bool", "int", "float"]] = {bool: "bool", int: "int", float: "float"}


def recipe(
    name: str,
    *,
    framework: str = "",
    level: Literal["token", "sequence", "geometric"] = "token",
    pair: Pair | str = Pair.TRAINER_INFERENCE,
    loss: Loss | None = None,
    needs: Sequence[Literal["advantage", "current_logprobs", "ref_logprobs"]] = (),
    formula: str = "",
    source: str = "",
) -> Callable[[Call], Call]:
    """Make a recipe of a function of the view of tokens.

    The function is called with a ``TokenView`` (``iscope.replay.view``) of whole rollouts and with its options as
    keyword arguments, and returns the weight, or the weight and the keep-decision (bool). At level ``token`` both are
    of tokens [P], else of rollouts [N]. What it returns for a rollout must depend on that rollout alone. Weights are
    not negative; a NaN is an error. Its options are its arguments with defaults that are numbers, truth values or,
    annotated as ``Literal``, words; annotated ``float | None`` they can be none.

    Args:
        name: the recipe's name, such as ``mine/soft_mask``.
        framework: whose loss options and loss types it takes; empty for the generic ones.
        level: whether the weight is of a token, or one for the rollout.
        pair: the policies whose mismatch KL is reported over what is kept and masked.
        loss: the loss; None takes the one that the framework's ``loss_type`` names.
        needs: optional columns that the function reads.
        formula: what it computes, for the catalogue.
        source: where it comes from; empty is the function itself.

    Returns:
        A decorator that returns the function itself: give it to ``analyze(recipes=[...])``, or to ``register``.

    Raises:
        UsageError: when the function has arguments that are no options, or the recipe is not sound.
    """

    def decorate(function: Call) -> Call:
        own = Filter(
            "keep",
            reduction=Reduction.TOKEN if level == "token" else Reduction.SUM,
            low=0.5,
            pair=Pair(pair),
            function=_function(function, "keep", needs),
        )
        row = Recipe(
            name=name,
            summary=_summary(function),
            formula=formula,
            source=source or Function(function).reference,
            options=tuple(_option(function, argument) for argument in _arguments(function)),
            weight=WeightRule(Level(level), Pair(pair), function=_function(function, "weight", needs)),
            filters=(own,),
            loss=loss,
            framework=framework,
        )
        setattr(function, _ATTRIBUTE, checked(row))
        return function

    return decorate


def recipe_of(function: Callable[..., Any]) -> Recipe:
    """Return the recipe of a function; one that is not decorated is ``own/NAME`` of its name, per token.

    Raises:
        UsageError: when it is no function that can be a recipe.
    """
    if not callable(function):
        said = type(function).__name__
        raise UsageError(f"A recipe is text, a Recipe, a BoundRecipe or a function, not of type {said}.")
    if not hasattr(function, _ATTRIBUTE):
        plain = "".join(letter if letter.isalnum() else "_" for letter in getattr(function, "__name__", "function"))
        recipe(f"own/{plain}")(function)
    found: Recipe = getattr(function, _ATTRIBUTE)
    return found


def _function(function: Callable[..., Any], part: Literal["weight", "keep"], needs: Sequence[Any]) -> Function:
    return Function(function, tuple((name, Ref(name)) for name in _arguments(function)), part, tuple(needs))


def _arguments(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The arguments after the view, by name."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise UsageError(f"{Function(function).reference} cannot be a recipe: {error}.") from error
    if not parameters or any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in parameters):
        raise UsageError(
            f"{Function(function).reference} cannot be a recipe: it must take the view and its options by name, "
            "without * or **."
        )
    for each in parameters[1:]:
        if each.default is each.empty:
            raise UsageError(
                f"{Function(function).reference} cannot be a recipe: its argument {each.name} has no default."
            )
    return {each.name: each for each in parameters[1:]}


def _option(function: Callable[..., Any], name: str) -> Option:
    default = _arguments(function)[name].default
    hint = _hints(function).get(name, type(default))
    members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, UnionType) else (hint,)
    kinds = [member for member in members if member is not NoneType]
    nullable, doc = NoneType in members, f"Argument {name} of {Function(function).reference}."
    if len(kinds) == 1 and typing.get_origin(kinds[0]) is Literal:
        return Option(name, name, "choice", default, doc, choices=typing.get_args(kinds[0]), nullable=nullable)
    if len(kinds) != 1 or kinds[0] not in _KINDS:
        raise UsageError(
            f"{Function(function).reference} cannot be a recipe: its argument {name} must be a number, true or false, "
            "or one of some words (annotated float, int, bool or Literal)."
        )
    return Option(name, name, _KINDS[kinds[0]], default, doc, nullable=nullable)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError):  # names that only a type checker knows: the defaults tell the kinds
        return {}


def _summary(function: Callable[..., Any]) -> str:
    lines = (inspect.getdoc(function) or "").strip().splitlines()
    return lines[0] if lines else ""
