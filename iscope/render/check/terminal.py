"""The page of ``iscope check``: the verdict, a table of the gates, and why those that did not pass did not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from iscope.model.check import PASS, CheckResult, GateVerdict
from iscope.render.check import words
from iscope.render.strings import clean, prose
from iscope.render.terminal.page import pad, to_str, wrap

_NARROWEST = 30
_GAP = 2
_LEGEND = (
    "  judged: the figure, or its ratio to the baseline (x) or change from it (+-), with its 95% interval where it has "
    "one: by bootstrap over groups, ratios and changes put together from both"
)
_PASSED = 40  # gates that pass are counted rather than listed beyond this


def render(
    result: CheckResult, *, width: int = 100, verbose: bool = False, quiet: bool = False, color: bool = False
) -> str:
    """Return a result as text.

    Args:
        result: what to show.
        width: columns of the terminal.
        verbose: the explanation of every gate, and every gate that passed.
        quiet: the verdict only.
        color: with ANSI colours; they only repeat what words say.
    """
    width = max(width, _NARROWEST)
    verdict = Text(f"CHECK {result.word}: {result.message}")
    verdict.stylize("bold", 0, len(f"CHECK {result.word}"))
    if quiet:
        return to_str(wrap(verdict, width, 2), color=color)
    lines = wrap(f"iscope check · {' · '.join(words.rests_on(result))}", width, 2) + wrap(verdict, width, 2)
    dump = f"DUMP {clean(result.dump.word)}: {prose(result.dump.message)}"
    lines += [line for text in [dump, *_said(result)] for line in wrap(text, width, 2)]
    listed = _listed(result, verbose=verbose)
    lines += _table(listed, width)
    left = len(result.gates) - len(listed)
    if left:
        lines += wrap(f"  {left} more passed; --verbose and JSON have all", width, 2)
    lines += wrap(_LEGEND, width, 2)
    for gate in result.gates if verbose else (*result.failures, *result.warnings):
        lines += wrap(f"{gate.word} {words.because(gate)}", width, 2)
    return to_str(lines, color=color)


def _said(result: CheckResult) -> Iterator[str]:
    yield from (f"NOTE {prose(note)}" for note in result.notes)
    yield from (f"CHANGE {change}" for change in words.changes(result))


def _listed(result: CheckResult, *, verbose: bool) -> list[GateVerdict]:
    if verbose:
        return result.gates
    others = [gate for gate in result.gates if gate.word != PASS]
    return [*others, *[gate for gate in result.gates if gate.word == PASS][:_PASSED]]


def _table(gates: Sequence[GateVerdict], width: int) -> list[Text]:
    """One line per gate where the page has room for it, else the limit below its figure."""
    rows = [("GATE", "judged [95%]", "limit")]
    rows += [(f"{gate.word} {clean(gate.figure)}", words.judged(gate), gate.rule) for gate in gates]
    widths = [max(cell_len(row[place]) for row in rows) for place in range(3)]
    if sum(widths) + 2 * _GAP <= width:
        gap = " " * _GAP
        lines = [Text(gap.join([pad(a, widths[0], right=False), pad(b, widths[1]), c])) for a, b, c in rows]
        lines[0].stylize("bold")
        return lines
    return [line for row in rows for line in [*wrap(row[0], width, 5), *wrap(f"     {row[1]}  {row[2]}", width, 7)]]
