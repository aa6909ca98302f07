"""The prompts of a dump as a number and a digest, so that two dumps of the same prompts can be told."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import polars as pl

from iscope.dump.dump import Dump
from iscope.dump.identity import PROMPTS
from iscope.dump.pairing import Pairing
from iscope.dump.resolve import is_list
from iscope.dump.table import Part, Table

_BATCH_TOKENS = 2**20


def prompts_of(dump: Dump) -> tuple[int, str] | None:
    """Return how many different prompts a dump has and a digest of the set of them, 16 hexadecimal digits.

    None where a file of it has no column of prompts (``prompt_token_ids``, ``prompt``, ...); batches in memory have
    none. The text of prompts and their token ids give different digests, and so does another tokenizer.
    """
    parts = _parts(dump)
    seen: set[bytes] = set()
    for part in parts:
        name = next((name for name in PROMPTS if name in part.source.schema.names), None)
        if name is None:
            return None
        for column in _columns(part, name):
            seen |= _hashes(column)
    if not seen:
        return None
    return len(seen), hashlib.sha256(b"".join(sorted(seen))).hexdigest()[:16]


def _parts(dump: Dump) -> tuple[Part, ...]:
    if isinstance(dump.content, Pairing):
        sides = [table.parts for table in dump.content.tables.values()]
        with_prompts = (parts for parts in sides if any(set(PROMPTS) & set(part.source.schema.names) for part in parts))
        return tuple(next(with_prompts, ()))
    return tuple(dump.content.parts) if isinstance(dump.content, Table) and not dump.ready else ()


def _columns(part: Part, name: str) -> Iterator[pl.Series]:
    schema = part.source.schema
    anchor = next(column for column in part.columns.values() if is_list(schema.field(column).type))
    for _, arrays in part.source.read({"prompt": name}, anchor, _BATCH_TOKENS):
        yield pl.Series(arrays["prompt"])


def _hashes(prompts: pl.Series) -> set[bytes]:
    """A stable hash of each different prompt; polars' own, which is not stable, only tells them apart."""
    frame = pl.DataFrame({"prompt": prompts, "hash": prompts.hash(seed=0)}).drop_nulls("prompt")
    different = frame.unique("hash")["prompt"].to_list()
    return {hashlib.sha256(json.dumps(prompt, default=str).encode()).digest() for prompt in different}
