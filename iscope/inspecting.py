"""inspect(): what is in a dump and what it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Literal

from iscope.analysis.inspection import shape_of
from iscope.analysis.levels import Levels
from iscope.api import measure_dump, report_of, sides_of
from iscope.dump import Source, open_dump
from iscope.dump.contents import contents_of
from iscope.engines.device import device_of
from iscope.ledger.plan import Plan
from iscope.model import Inspection


def inspect(
    *dump: Source,
    trainer: Any = (),
    vllm: Any = (),
    current: Any = (),
    ref: Any = (),
    on: str = "rollout_id",
    where: str | None = None,
    columns: Mapping[str, str] | None = None,
    from_format: str | None = None,
    strict: bool = False,
    healthy_k3: float | None = None,
    device: Literal["auto", "cpu", "cuda"] = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Inspection:
    """Say what is in a dump and what it shows, without replaying any correction.

    Args:
        *dump: as of ``analyze``, like all other arguments.
        trainer: in place of ``dump``, the trainer's side.
        vllm: in place of ``dump``, the inference engine's side.
        current: a side with the current policy's logprobs.
        ref: a side with the reference policy's logprobs.
        on: the column that pairs the sides.
        where: SQL expression on columns of rollouts; only those that meet it are looked at.
        columns: which column of the dump holds what, for names that are not recognised.
        from_format: the framework whose format files have (``prime-rl``, ``slime``, ...); None finds out for each.
        strict: make a bad row an error instead of leaving it out.
        healthy_k3: k3 up to which the verdict calls this stack healthy, nats per token.
        device: where the tokens are measured.
        progress: called with the rollouts and tokens of each batch that is done.

    Raises:
        UsageError: a contradiction.
        DataError: a dump that cannot be used.
    """
    levels, place = Levels.of(healthy_k3), device_of(device)
    sides = sides_of(trainer, vllm, current, ref, on)
    source = open_dump(dump, sides=sides, columns=columns, strict=strict, where=where, from_format=from_format)
    measured = measure_dump(Plan(()), source, progress, place)
    report = report_of(measured, source, levels=levels)
    contents = contents_of(source)
    return Inspection(
        verdict=report.verdict,
        layout=contents.layout,
        files=[{"path": f.path, "bytes": f.size, "rows": f.rows, "side": f.side} for f in source.files],
        columns=[asdict(column) for column in contents.columns],
        ignored=contents.ignored,
        coverage=report.coverage,
        shape=shape_of(measured),
        assumptions=report.assumptions,
        findings=report.findings,
    )
