"""Whether a report can be held against a baseline at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from iscope.errors import UsageError
from iscope.gates.baseline import Baseline
from iscope.gates.combine import difference

# The sampler's mean -log q may differ by so much, relative to the baseline's.
LOG_Q_APART = 0.10
_SETTINGS = ("temperature", "top_p", "top_k", "min_p", "logprobs_mode")


@dataclass(frozen=True)
class Terms:
    """What has to be the same for a baseline to be used.

    Attributes:
        prompts: whether the prompts have to be.
        minus_log_q: how far apart the sampler's mean -log q may be, relative to the baseline's; further apart is
            refused unless the intervals of both allow that they are the same.
    """

    prompts: bool = True
    minus_log_q: float = LOG_Q_APART


def differing(now: Baseline, then: Baseline, terms: Terms) -> list[str]:
    """Return what makes a baseline none for what was measured now, one phrase each."""
    return [
        *_definition(now, then),
        *_settings(now, then),
        *(_prompts(now, then) if terms.prompts else ()),
        *_log_q(now, then, terms.minus_log_q),
    ]


def refuse_other(now: Baseline, then: Baseline, terms: Terms) -> None:
    """Refuse a baseline of something else.

    Raises:
        UsageError: names everything that differs.
    """
    found = differing(now, then, terms)
    if found:
        raise UsageError(
            f"{then.name}: this baseline is of something else: {'; '.join(found)}. Compare with one of the same kind, "
            "or replace it: --update-baseline shows what changes."
        )


def unknown(now: Baseline, then: Baseline, terms: Terms) -> list[str]:
    """Return what could not be compared, one sentence each."""
    said = []
    if terms.prompts and _prompt_keys(now, then) is None:
        said.append(
            "whether the baseline is of the same prompts cannot be told: there is no column of prompts, and "
            "no group_id, in both dumps."
        )
    if not any(name in now.sampling and name in then.sampling for name in _SETTINGS):
        said.append(
            "whether the baseline was sampled at the same temperature cannot be told: none is recorded in both dumps."
        )
    if _apart(now, then) > terms.minus_log_q and _noise(now, then):
        said.append(f"{_far(now, then, terms.minus_log_q)}, which is within the noise of so few groups.")
    return said


def _definition(now: Baseline, then: Baseline) -> Iterator[str]:
    for name, value in now.arithmetic.items():
        if name in then.arithmetic and then.arithmetic[name] != value:
            yield f"another definition ({name} {then.arithmetic[name]} there, {value} here)"
    for spec, options in now.options.items():
        old = then.options.get(spec, options)
        changed = [name for name in options if old.get(name) != options[name]]
        if changed:
            ends = ", ".join(f"{name} {_word(old.get(name))} there, {_word(options[name])} here" for name in changed)
            yield f"another definition ({spec}: {ends})"


def _settings(now: Baseline, then: Baseline) -> Iterator[str]:
    for name in _SETTINGS:
        here, there = now.sampling.get(name), then.sampling.get(name)
        if here is not None and there is not None and here != there:
            yield f"another {name} ({_listed(there)} there, {_listed(here)} here)"


def _prompts(now: Baseline, then: Baseline) -> Iterator[str]:
    keys = _prompt_keys(now, then)
    if keys is None or keys[0]["digest"] == keys[1]["digest"]:
        return
    here, there, by = keys
    counts = f"{there['count']:,} there, {here['count']:,} here"
    if by == "prompts":
        yield f"other prompts ({counts})"
    else:
        yield (
            f'other prompts, by their group_id ({counts}; where ids are new in every run, set prompts = "any" in '
            "[baseline] of the gates' file)"
        )


def _prompt_keys(now: Baseline, then: Baseline) -> tuple[dict[str, Any], dict[str, Any], str] | None:
    if now.prompts and then.prompts:
        return now.prompts, then.prompts, "prompts"
    here, there = now.sampling.get("groups"), then.sampling.get("groups")
    return (here, there, "groups") if here and there else None


def _log_q(now: Baseline, then: Baseline, most: float) -> Iterator[str]:
    apart = _apart(now, then)
    if apart > most and not _noise(now, then):
        yield _far(now, then, most)


def _apart(now: Baseline, then: Baseline) -> float:
    here, there = now.minus_log_q.value, then.minus_log_q.value
    return abs(here / there - 1) if here is not None and there else 0.0


def _noise(now: Baseline, then: Baseline) -> bool:
    """Whether the intervals of both allow that they are the same; without them the values decide."""
    found = difference(now.minus_log_q, then.minus_log_q)
    return found.low is not None and found.high is not None and found.low <= 0 <= found.high


def _far(now: Baseline, then: Baseline, most: float) -> str:
    ends = f"{then.minus_log_q.value:.3g} there, {now.minus_log_q.value:.3g} nats per token here"
    return f"the sampler's mean -log q is {100 * _apart(now, then):.0f}% apart, more than {100 * most:g}% ({ends})"


def _listed(values: Any) -> str:
    return ", ".join(map(str, values)) if isinstance(values, list) else str(values)


def _word(value: Any) -> str:
    return "none" if value is None else str(value)
