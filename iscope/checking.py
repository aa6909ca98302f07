"""check(): figures of a dump or of a saved report, held against gates."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from iscope.analysis.levels import Levels
from iscope.errors import DataError, UsageError
from iscope.gates.asked import breakdowns_of, recipes_of, with_specs
from iscope.gates.baseline import Baseline, read_baseline
from iscope.gates.config import Config
from iscope.gates.defaults import check_framework
from iscope.gates.hold import hold
from iscope.gates.model import Gate
from iscope.gates.read import check_gate, read_gate
from iscope.gates.toml import find_config, read_config
from iscope.gates.written import check_target, write_baselines
from iscope.model import SCHEMA_NAME, Report
from iscope.model.check import CheckResult
from iscope.model.saved import read_report
from iscope.place import Place
from iscope.recipes.own.toml import read_all

if TYPE_CHECKING:
    from iscope.dump import Source
    from iscope.recipes.model import Recipe

_HEAD = 512
Path = str | os.PathLike[str]
Gates = Config | Path | Sequence[Gate | Mapping[str, Any]]


class Options(TypedDict, total=False):
    """The arguments that ``check`` hands on to ``analyze``."""

    trainer: Any
    vllm: Any
    current: Any
    ref: Any
    on: str
    recipes: Sequence[Any] | None
    recipes_file: Path | Sequence[Path]
    like: str | Sequence[str]
    by: Sequence[str]
    where: str | None
    columns: Mapping[str, str] | None
    from_format: str | None
    precision: Literal["float32", "float64"]
    unscored: Literal["exclude", "neutral"]
    strict: bool
    batch: str | int
    progress: Callable[[int, int], None] | None


_PLAIN: tuple[Any, ...] = (None, (), [], False, "rollout_id", "float32", "exclude", "all")
_OPENING = ("columns", "where", "from_format", "strict")


def check(
    *dump: Source | Report,
    gates: Gates | None = None,
    baseline: Path | None = None,
    write_baseline: Path | None = None,
    update_baseline: bool = False,
    framework: str = "",
    healthy_k3: float | None = None,
    **options: Unpack[Options],
) -> CheckResult:
    """Hold the figures of a dump, or of a report, against gates.

    Args:
        *dump: as of ``analyze``; or a report, or the file of one that was saved as JSON, which is read without torch.
        gates: a file of gates, ``default`` for the default ones alone, or gates as ``Gate`` or as mappings of its keys;
            None takes ``iscope.toml``, else ``[tool.iscope]`` of ``pyproject.toml``, of the working directory, else the
            default gates.
        baseline: a file with the figures of a healthy dump; None takes the one that the file of gates names.
        write_baseline: a file to write this dump's figures to, unless a gate fails; it is replaced if it exists.
        update_baseline: whether to replace the baseline by this dump's figures, unless a gate fails; the result's
            ``changes`` say how they differ.
        framework: the framework whose own limits are default ceilings; by default that of the file of gates, else that
            of ``like``.
        healthy_k3: k3 up to which this stack is healthy, nats per token; None is what the file of gates says.
        **options: the other arguments of ``analyze``: sides, ``recipes``, ``like``, ``by``, ``where``, ``columns``, ...
            Recipes and breakdowns that gates name are added; with ``recipes`` None only those are replayed.

    Returns:
        The verdicts; true where no gate failed.

    Raises:
        UsageError: a file of gates or a baseline that cannot be used, and whatever ``analyze`` refuses.
        DataError: a dump that cannot be used.
    """
    config = read_gates(gates)
    config = replace(
        config,
        framework=check_framework(framework) if framework else config.framework or _of_like(options.get("like", ())),
        healthy_k3=config.healthy_k3 if healthy_k3 is None else healthy_k3,
    )
    levels = Levels.of(config.healthy_k3)
    named = config.baseline if baseline is None else os.fspath(baseline)
    must = baseline is not None or write_baseline is None
    then = _then(named, must=must, update=update_baseline)
    targets = [os.fspath(file) for file in (write_baseline, named if update_baseline else None) if file is not None]
    for target in targets:
        check_target(target)
    own = _own_recipes(options.get("recipes_file", ()))
    if not _is_report(dump):
        config = replace(config, gates=with_specs(config.gates, own))
    report, prompts = _measured(dump, config, options, own, wants_prompts=then is not None or bool(targets))
    becomes = update_baseline or (write_baseline is not None and then is None)
    held = hold(report, config, then, prompts=prompts, levels=levels, becomes=becomes)
    rests = {"gates": config.name or None, "baseline": named}
    result = replace(held.result, provenance=held.result.provenance | rests)
    if not result.passed:
        said = [f"{target} was not written: a gate failed, and a baseline is of a healthy dump." for target in targets]
    else:
        write_baselines(held.baseline, targets)
        said = [f"{target} holds this dump's figures now." for target in targets]
    return replace(result, notes=[*result.notes, *said])


def read_gates(gates: Gates | None) -> Config:
    """Return the gates that an argument of ``check`` means.

    Raises:
        UsageError: when they cannot be read, or there are none.
    """
    if gates is None:
        return find_config()
    if isinstance(gates, Config):
        return gates
    if isinstance(gates, str | os.PathLike):
        return Config() if gates == "default" else read_config(gates)
    home = Place("gates")
    read = [
        check_gate(one, home.at(index)) if isinstance(one, Gate) else read_gate(one, home.at(index))
        for index, one in enumerate(gates)
    ]
    if not read:
        raise UsageError("gates: the list is empty, so that nothing could ever fail; None takes the default gates.")
    return Config(tuple(read), defaults=False)


def saved_report(dump: Sequence[Any]) -> str | None:
    """Return the file of the saved report that a dump is; None where it is none."""
    if len(dump) != 1 or not isinstance(dump[0], str | os.PathLike) or not os.fspath(dump[0]).endswith(".json"):
        return None
    try:
        with open(dump[0], encoding="utf-8", errors="replace") as file:
            head = file.read(_HEAD)
    except OSError:
        return None
    return os.fspath(dump[0]) if json.dumps(SCHEMA_NAME) in head else None


def _is_report(dump: Sequence[Any]) -> bool:
    return saved_report(dump) is not None or any(isinstance(source, Report) for source in dump)


def _own_recipes(files: Path | Sequence[Path]) -> dict[str, Recipe]:
    return read_all([files] if isinstance(files, str | os.PathLike) else files)


def _measured(
    dump: Sequence[Any], config: Config, options: Options, own: Mapping[str, Recipe], *, wants_prompts: bool
) -> tuple[Report, dict[str, Any] | None]:
    """The report of a dump, and number and digest of its prompts where they are wanted and known."""
    if not _is_report(dump):
        return _analyzed(dump, config, options, own, wants_prompts=wants_prompts)
    meant = [name for name, value in options.items() if name != "progress" and not _is_plain(value)]
    if meant:
        raise UsageError(f"{meant[0]}: a report is as it was made; give {meant[0]} when the dump is analyzed.")
    if len(dump) != 1:
        raise UsageError("a report is checked alone: name one report, or dumps.")
    return (dump[0] if isinstance(dump[0], Report) else read_report(dump[0])), None


def _is_plain(value: Any) -> bool:
    """Whether an argument of ``analyze`` is as if it had not been given."""
    return isinstance(value, str | bool | list | tuple | None) and value in _PLAIN


def _analyzed(
    dump: Sequence[Any], config: Config, options: Options, own: Mapping[str, Recipe], *, wants_prompts: bool
) -> tuple[Report, dict[str, Any] | None]:
    from iscope.analysis.breakdown import columns_of
    from iscope.api import analyze, sides_of
    from iscope.dump import open_dump
    from iscope.dump.prompts import prompts_of

    recipes = recipes_of(config.gates, options.get("recipes"), own)
    given = {side: options.get(side, ()) for side in ("trainer", "vllm", "current", "ref")}
    sides = sides_of(**given, on=str(options.get("on", "rollout_id")))
    opening: dict[str, Any] = {name: value for name, value in options.items() if name in _OPENING}

    def there(key: str) -> bool:
        try:
            open_dump(dump, sides=sides, carry=columns_of((key,)), **opening)
        except DataError:
            return False
        return True

    asked = [*options.get("by", ())]
    by = [*asked, *(key for key in breakdowns_of(config.gates) if key not in asked and there(key))]
    chosen = {**options, "recipes": recipes, "by": by, "healthy_k3": config.healthy_k3}
    report = analyze(*dump, **chosen)  # type: ignore[arg-type]
    found = prompts_of(open_dump(dump, sides=sides, **opening)) if wants_prompts else None
    return report, None if found is None else {"count": found[0], "digest": found[1]}


def _then(named: str | None, *, must: bool, update: bool) -> Baseline | None:
    """The baseline to hold against; None where there is none yet."""
    if named is None:
        if update:
            raise UsageError(
                "there is no baseline to update: name it with --baseline FILE, or write a first one with "
                "--write-baseline FILE."
            )
        return None
    return read_baseline(named) if must or FilePath(named).exists() else None


def _of_like(like: str | Sequence[str]) -> str:
    """The framework of the one configuration that was given."""
    names = {text.partition(":")[0] for text in ((like,) if isinstance(like, str) else like)}
    return names.pop() if len(names) == 1 else ""
