"""map_shard() and merge(): a dump measured in parts by any scheduler, and one report of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from iscope.analysis.levels import Levels
from iscope.analysis.shown import with_tokens
from iscope.api import Path, make_plan, report_of, without_reference_terms
from iscope.dump import Source, open_dump
from iscope.dump.lookup import Lookup
from iscope.dump.named_tokens import Column
from iscope.dump.record import Record
from iscope.dump.units import shard_of
from iscope.dump.writer import output_path
from iscope.engines.conduct import refuse_nothing
from iscope.engines.gather import Gathering
from iscope.engines.job import Job
from iscope.errors import DataError, UsageError
from iscope.ledger import part as parts
from iscope.ledger import store
from iscope.ledger.part import Asked
from iscope.model import Report
from iscope.recipes.configs.like import likes
from iscope.recipes.own.accept import AnyRecipe


def map_shard(
    *dump: Source,
    shard: tuple[int, int],
    output: Path,
    recipes: Sequence[AnyRecipe] | None = None,
    recipes_file: Path | Sequence[Path] = (),
    like: str | Sequence[str] = (),
    by: Sequence[str] = (),
    where: str | None = None,
    columns: Mapping[str, str] | None = None,
    from_format: str | None = None,
    precision: Literal["float32", "float64"] = "float32",
    unscored: Literal["exclude", "neutral"] = "exclude",
    strict: bool = False,
    batch: str | int = "all",
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Measure one shard of a dump and write what it adds, for ``merge``.

    Every shard is told apart from the footers of the whole dump alone, so that each is given the same files.

    Args:
        *dump: Parquet files, folders or globs whose rows hold both sides, named alike for every shard.
        shard: which shard, from 1, and of how many.
        output: the file to write; it is replaced if it exists.
        recipes: as of ``analyze``, like all other arguments.
        recipes_file: TOML files of own recipes.
        like: frameworks' own configurations.
        by: what ``merge`` will break the figures down by.
        where: SQL expression on columns of rollouts.
        columns: which column of the dump holds what.
        from_format: the framework whose format files have; only Parquet can be measured in parts.
        precision: the precision of the log-ratios and of every keep-decision.
        unscored: leave loss tokens with an unusable logprob out, or give them ratio 1.
        strict: make a bad row an error.
        batch: the scope of every normaliser: ``all`` or ``step``.
        progress: called with the rollouts and tokens of each batch that is done.

    Raises:
        UsageError: a contradiction, a plan or a dump that cannot be measured in parts.
        DataError: a dump that cannot be used.
    """
    index, count = check_shard(shard)
    own, said = likes(like)
    plan = make_plan(
        recipes,
        recipes_file=recipes_file,
        like=own,
        by=by,
        precision=precision,
        unscored=unscored,
        batch=batch,
    )
    source = open_dump(
        dump,
        columns=columns,
        carry=plan.carried,
        precision=precision,
        strict=strict,
        where=where,
        from_format=from_format,
    )
    plan, left = without_reference_terms(plan, source)
    target = output_path(output, (file.path for file in source.files))
    job = Job.of(plan, source)
    # The ratios a dump may bring along are those of its first rollouts: one part is enough to carry them.
    record = Record.of(source) if index == 1 else Record.of_footers(source)
    asked = Asked((index, count), record, tuple(by), (*said, *left), columns or {}, where)
    parts.save(job.measure(shard_of(job.units, index, count), progress, asked=asked), target)


def merge(
    *files: Path,
    by: Sequence[str] | None = None,
    healthy_k3: float | None = None,
    allow_missing: bool = False,
    ledger: Path | None = None,
) -> Report:
    """Put the parts of a dump together: the report is that of ``analyze`` on the whole dump, bit for bit.

    Of the dump no more is read than token ids of the worst rollouts, where its files can be reached.

    Args:
        *files: all parts, in any order.
        by: what to break the figures down by, of the columns that the parts were measured with; None is what was asked
            for then.
        healthy_k3: k3 of trainer over inference up to which the verdict calls this stack healthy, nats per token.
        allow_missing: report on the parts that there are; what is missing stands in the coverage.
        ledger: a file to keep the ledger of the whole in; it is replaced if it exists.

    Raises:
        UsageError: when parts are missing, doubled, or do not belong together.
        DataError: when a file is no part, or no rollout of the dump can be used.
    """
    if not files:
        raise UsageError("There is nothing to merge: name the parts that iscope map wrote.")
    levels, kept = Levels.of(healthy_k3), None if ledger is None else output_path(ledger, map(str, files))
    gathering, shards = Gathering(), list[tuple[int, int]]()
    first: Asked | None = None
    for file in files:
        part = parts.load(file)
        if part.asked is None:
            raise DataError(f"{file}: this is the state of a command that can be resumed, and no part of iscope map.")
        gathering.add(part, str(file))
        shards.append(part.asked.shard)
        first = part.asked if first is None or part.asked.shard < first.shard else first
    assert first is not None
    missing = gathering.missing(_lacking(shards))
    if missing is not None and not allow_missing:
        raise UsageError(
            f"{missing.units:,} of {missing.of_units:,} units of the dump are in no part, those of {missing.why}; name "
            "all parts, or add --allow-missing to report on these."
        )
    measured = gathering.finish()
    record = first.record.of_parts(gathering.tallies, missing)
    refuse_nothing(measured, record)
    if kept is not None:
        store.save(measured, kept)
    report = report_of(measured, record, first.by if by is None else by, first.said, levels)
    return with_tokens(report, measured, _lookup(first))


def _lookup(asked: Asked) -> Lookup:
    """Where the token ids of the dump are, if its files can be reached from here."""
    paths = [file.path for file in asked.record.files]
    try:
        return Lookup.of(open_dump(paths, columns=asked.columns, where=asked.where), asked.columns)
    except DataError:
        return Lookup({"token_ids": Column(why="the files of the dump cannot be read from here")}, text=False)


def check_shard(shard: tuple[int, int]) -> tuple[int, int]:
    """Return the number of a shard and how many there are.

    Raises:
        UsageError: when there is no such shard.
    """
    index, count = shard
    if not 1 <= index <= count:
        raise UsageError(f"the shard is i/n with i from 1 to n, such as 3/8, not {index}/{count}.")
    return index, count


def _lacking(shards: Sequence[tuple[int, int]]) -> str:
    """Which shards there are no parts of."""
    counts = {count for _, count in shards}
    if len(counts) > 1:
        return f"shards that these parts, of {' and of '.join(f'{count:,}' for count in sorted(counts))}, leave out"
    (count,) = counts
    lacking = sorted(set(range(1, count + 1)) - {index for index, _ in shards})
    named = ", ".join(map(str, lacking[:10])) + (f" and {len(lacking) - 10:,} more" if len(lacking) > 10 else "")
    return f"shard{'s' if len(lacking) > 1 else ''} {named} of {count:,}"
