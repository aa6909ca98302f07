"""What a framework's configuration says about its recipe, as one table that serves reading and writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal

from iscope.recipes.options import Value


class Mark(Enum):
    """Values that are no values.

    ``OF_OPTION`` as a default: that of the recipe's option. As conditions ``SET``: anything but none and false;
    ``ABOVE_ZERO``: a number above 0; ``GIVEN``: any value, where the file itself gives it.
    """

    OF_OPTION = "of option"
    SET = "set"
    ABOVE_ZERO = "above zero"
    GIVEN = "given"


OF_OPTION: Final = Mark.OF_OPTION
SET: Final = Mark.SET
ABOVE_ZERO: Final = Mark.ABOVE_ZERO
GIVEN: Final = Mark.GIVEN

# A condition on a setting: this value, one of these values, or what a mark says.
Condition = Value | tuple[Value, ...] | Mark
Values = Mapping[str, Value]


@dataclass(frozen=True)
class Setting:
    """One setting of a configuration.

    Values are plain: true and false, none, numbers, words. How a file spells them (``null``, ``None``, ``1e-3``,
    ``"2.0"``, ``True``) is not the table's concern.

    Attributes:
        path: its dotted path, words joined by underscores; where it is written to.
        option: the recipe option that it fills, by the framework's full name; empty where it only tells recipes apart.
        default: what the framework takes where it is absent.
        choices: the values accepted; empty accepts what the option accepts.
        aliases: other paths, of other versions or other files. One that is none counts as absent.
        words: values that the configuration and iscope write differently, as (configuration's, iscope's).
        several: with ``flags``, whether its values, which commas join here, are words of their own.
        old: whether only earlier versions have it, so that it is read, and written only away from its default.
    """

    path: str
    option: str = ""
    default: Value | Mark = OF_OPTION
    choices: tuple[Value, ...] = ()
    aliases: tuple[str, ...] = ()
    words: tuple[tuple[Value, Value], ...] = ()
    several: bool = False
    old: bool = False


@dataclass(frozen=True)
class ConfigRow:
    """Which settings make which recipe.

    Attributes:
        recipe: the recipe's name.
        when: conditions on settings, by path; all must hold. Of a condition with several values the first is written.
        options: settings that fill another option in this recipe, as path to the option's full name or short form.
        fixed: options of the recipe that follow from ``when``, by full name or short form.
        read: further options of the recipe, by full name or short form, told by several settings or by a part of one.
        write: the reverse: further settings, by path, told by the recipe's options by short form.
        told_by: the settings that ``read`` looks at.
        needs: settings that have no default, so that the framework stops where the file does not give them.
    """

    recipe: str
    when: Mapping[str, Condition] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    fixed: Values = field(default_factory=dict)
    read: Callable[[Values], Values] | None = None
    write: Callable[[Values], Values] | None = None
    told_by: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Clash:
    """Settings that contradict each other.

    Attributes:
        when: conditions on settings, by path.
        given: settings that must then stay at their default, by path.
        why: what the framework makes of it, and the remedy, without a full stop.
    """

    when: Mapping[str, Condition]
    given: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Unreplayed:
    """A setting that changes the loss, and that iscope does not replay.

    Attributes:
        path: its dotted path.
        default: the value at which it changes nothing.
        why: why it is not replayed, without a full stop.
        absent: what the framework takes where it is absent, if that is not ``default``.
    """

    path: str
    default: Value
    why: str
    absent: Value | Mark = OF_OPTION


@dataclass(frozen=True)
class Include:
    """Settings that name other files of settings: as the framework finds them, or beside the file that names them.

    Attributes:
        paths: their dotted paths; the first is written.
        last: whether what they say comes last, so that they must be there. Else they are what the file builds on, and
            where one is absent the framework's defaults stand in.
        settings: settings that are written to such a file, as YAML, by path.
    """

    paths: tuple[str, ...]
    last: bool
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConfigTable:
    """A framework's configuration.

    Attributes:
        framework: the prefix of its recipes.
        version: whose defaults and names these are: ``TRL 1.16.0, GRPOConfig``.
        syntax: how its lines are written: ``yaml``, ``toml``, ``hydra`` (path=value) or ``flags`` (--name value).
        settings: every setting that matters.
        rows: which settings make which recipe; the first whose conditions hold is taken. Rows that an earlier one
            always precedes are for writing only.
        sections: beginnings of paths under which every setting is known, so that an unknown one is an error.
        roots: beginnings that may precede every path, such as ``trainer.``; the first is written.
        clashes: settings that contradict each other.
        unreplayed: settings that iscope does not replay.
        dashes: with ``flags``, whether words are joined by ``-`` rather than ``_``.
        switches: with ``flags``, whether true is the flag alone, and false is leaving it out.
        others: settings below ``sections`` that matter neither to the correction nor to the loss, by path.
        include: the settings that name further files; None where there are none.
        left: options of recipes, by short name, that are not written, and what the framework takes instead.
    """

    framework: str
    version: str
    syntax: Literal["yaml", "toml", "hydra", "flags"]
    settings: tuple[Setting, ...]
    rows: tuple[ConfigRow, ...]
    sections: tuple[str, ...] = ()
    roots: tuple[str, ...] = ("",)
    clashes: tuple[Clash, ...] = ()
    unreplayed: tuple[Unreplayed, ...] = ()
    dashes: bool = False
    switches: bool = False
    others: tuple[str, ...] = ()
    include: Include | None = None
    left: tuple[tuple[str, str], ...] = ()


def holds(condition: Condition, value: Value, *, given: bool) -> bool:
    """Return whether a setting meets a condition; true is not 1.

    Args:
        condition: from a table.
        value: the setting's value, or its default.
        given: whether the file itself gives it.
    """
    if isinstance(condition, Mark):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return {
            SET: value is not None and value is not False,
            ABOVE_ZERO: number and float(value or 0) > 0,
            GIVEN: given,
        }[condition]
    accepted = condition if isinstance(condition, tuple) else (condition,)
    return any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in accepted)
