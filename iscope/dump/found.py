"""What a dump says of the tokens of one rollout."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from iscope.dump.ragged import values_of

_NULL = "it is null for this rollout"


@dataclass(frozen=True)
class Found:
    """What a dump says of the tokens of one rollout.

    Attributes:
        ids: Arrow integers [T]; None where there are none.
        ids_why: why there are none.
        texts: Arrow strings [T], one per token; None where there are none, or text was not asked for.
        completion: the rollout's text; None where there is none, or text was not asked for.
        text_why: why there is neither.
    """

    ids: pa.Array | None = None
    ids_why: str = ""
    texts: pa.Array | None = None
    completion: str | None = None
    text_why: str = ""

    def without(self, columns: Collection[str], why: str) -> Found:
        """Return it with the reason why some columns (``token_ids``, ``token_texts``, ``completion``) are missing."""
        made = replace(self, ids_why=why) if "token_ids" in columns else self
        return replace(made, text_why=why) if {"token_texts", "completion"} & set(columns) else made

    def filled(self, arrays: Mapping[str, pa.Array]) -> Found:
        """Return it with what the columns [1] of its row hold."""
        there = {name: array for name, array in arrays.items() if array.null_count == 0}
        made = self.without([name for name in arrays if name not in there], _NULL)
        if "token_ids" in there:
            made = replace(made, ids=values_of(there["token_ids"]))
        if "token_texts" in there:
            made = replace(made, texts=values_of(there["token_texts"]))
        if "completion" in there:
            made = replace(made, completion=_whole(there["completion"]))
        return made

    def ids_at(self, tokens: Sequence[int]) -> list[int | None]:
        """Return the ids of some tokens, given by their places in the rollout."""
        return [] if self.ids is None else self.ids.take(pa.array(tokens, pa.int64())).to_pylist()

    def texts_at(self, tokens: Sequence[int]) -> list[str | None]:
        """Return the texts of some tokens, given by their places in the rollout."""
        return [] if self.texts is None else _strings(self.texts.take(pa.array(tokens, pa.int64())))


def _strings(values: pa.Array) -> list[str | None]:
    """Strings, whatever bytes a writer put into them: what is no UTF-8 becomes U+FFFD."""
    found: list[Any] = values.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
    return [None if value is None else value.decode("utf-8", "replace") for value in found]


def _whole(column: pa.Array) -> str:
    """One text: a string as it is, messages one after the other."""
    if not pa.types.is_nested(column.type):
        return _strings(column)[0] or ""
    messages = values_of(column)
    return "\n".join(text for text in _strings(messages.field("content")) if text)
