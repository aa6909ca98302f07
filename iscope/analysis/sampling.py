"""How the rollouts were sampled, and which groups they are of: what has to be the same for two dumps to be compared."""

from __future__ import annotations

import hashlib
import math

import polars as pl

from iscope.analysis.findings.tokens import Tokens
from iscope.ledger.ledger import Ledger
from iscope.model import Figures

# What changes the distribution that tokens are sampled from, or which logprobs are logged.
SETTINGS = ("temperature", "top_p", "top_k", "min_p", "logprobs_mode")
_MOST = 16  # distinct values of a setting that are listed


def sampling(ledger: Ledger, tokens: Tokens) -> Figures | None:
    """Return the recorded values of each setting, and number and digest of the groups; None where there are neither.

    Settings are those of the sample of rollouts that findings look at. The digest is of the set of ``group_id``: two
    dumps with another one are of other groups, and one with the same may still have other prompts under the same ids.
    """
    settings = {name: _values(tokens.frame[name]) for name in SETTINGS if name in tokens.frame.columns}
    found: Figures = {name: [*values] for name, values in settings.items() if values}
    if "group_id" in ledger.rows.columns:
        ids = ledger.rows["group_id"].drop_nulls().unique().cast(pl.String).sort().to_list()
        if ids:
            found["groups"] = {"count": len(ids), "digest": digest(ids)}
    return found or None


def digest(names: list[str]) -> str:
    """Return a digest of sorted names, 16 hexadecimal digits: the same on every machine and version."""
    found = hashlib.sha256()
    for name in names:
        data = name.encode()
        found.update(len(data).to_bytes(8, "little") + data)
    return found.hexdigest()[:16]


def _values(column: pl.Series) -> list[float | int | str]:
    """The distinct values; float32 ones as they were written."""
    values = column.drop_nulls().unique().to_list()
    plain = {_plain(value) for value in values[:_MOST]} if len(values) <= _MOST else set()
    return sorted(plain, key=str)


def _plain(value: object) -> float | int | str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return str(value)
    return value if isinstance(value, int) else float(f"{value:.6g}")
