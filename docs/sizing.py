"""The table of sizes in docs/scale.md, computed from what was measured on one machine.

Run ``python -m docs.sizing`` from the root of the repository after a change to the numbers below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).with_name("scale.md")
_BEGIN, _END = "<!-- sizing, by docs/sizing.py -->\n", "<!-- end of sizing -->\n"
_TOKENS = (10**8, 10**9, 10**10)
_MACHINES = (1, 4, 16, 64)


@dataclass(frozen=True)
class Measured:
    """What a machine did, and what its dump was like.

    Attributes:
        pass_ns: wall time of the token pass, ns a token (the slope over the size of the dump).
        dump_bytes: bytes of the Parquet files, a token.
        rollout_tokens: tokens of a rollout.
        ledger_bytes: bytes of a rollout's row of the ledger, before compression.
    """

    pass_ns: float
    dump_bytes: float
    rollout_tokens: float
    ledger_bytes: float


# benchmarks/RESULTS.md: the default recipes, 2 cores of an AMD EPYC, a warm local file. The ledger's row is counted.
QUIET_MACHINE = Measured(pass_ns=20.7, dump_bytes=264e6 / 30e6, rollout_tokens=30e6 / 35216, ledger_bytes=893)


def pass_seconds(tokens: float, machines: int, measured: Measured, bandwidth: float) -> float:
    """Return how long the machines read and measure, seconds: whichever of both takes longer.

    Args:
        tokens: of the dump.
        machines: how many share it.
        measured: what one of them does.
        bandwidth: bytes a second at which each reads.
    """
    each = max(measured.pass_ns * 1e-9, measured.dump_bytes / bandwidth)
    return tokens / machines * each


def ledger_bytes(tokens: float, measured: Measured) -> float:
    """Return the bytes of the rows of the whole ledger, before compression."""
    return tokens / measured.rollout_tokens * measured.ledger_bytes


def rows(measured: Measured, bandwidth: float) -> Iterator[str]:
    """Yield the lines of the table."""
    machines = [f"{number} machine{'s' * (number > 1)}" for number in _MACHINES]
    yield f"| tokens | dump | {' | '.join(machines)} | rows of the ledger |"
    yield "|---" * (len(_MACHINES) + 3) + "|"
    for tokens in _TOKENS:
        times = [_time(pass_seconds(tokens, machines, measured, bandwidth)) for machines in _MACHINES]
        size, ledger = _size(tokens * measured.dump_bytes), _size(ledger_bytes(tokens, measured))
        yield f"| 10^{len(str(tokens)) - 1} | {size} | {' | '.join(times)} | {ledger} |"


def page(text: str) -> str:
    """Return the text of the page with the tables of now."""
    head, rest = text.split(_BEGIN)
    tail = rest.split(_END)[1]
    parts = []
    for named, bandwidth in (("1 Gbit/s, 125 MB/s", 125e6), ("10 Gbit/s, 1.25 GB/s", 1.25e9)):
        parts.append("\n".join([f"Each machine reads at {named}:", "", *rows(QUIET_MACHINE, bandwidth), ""]))
    return head + _BEGIN + "\n" + "\n".join(parts) + "\n" + _END + tail


def _time(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _size(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
