"""Responses with logprobs, as vLLM and OpenAI-style servers give them: the inference side of a dump.

Three shapes: chat completions (``choices[].logprobs.content[].logprob``), completions
(``choices[].logprobs.token_logprobs``) and vLLM's own outputs (``outputs[].logprobs[]``, one map from token id to
logprob per position, of which only the sampled token's entry counts, wherever it stands).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from iscope.dump.importers.formats import Rows
from iscope.dump.importers.pieces import Record

_LISTS = ("choices", "outputs")
_OWN = (*_LISTS, "logprobs", "prompt_logprobs", "prompt_token_ids", "usage", "object", "id", "request_id", "index")
_TOKEN_ID = "token_id:"


def recognises(record: Mapping[str, Any]) -> bool:
    """Return whether a record is a response, or an output or choice of one."""
    return any(_is_list_of_maps(record.get(name)) for name in _LISTS) or _is_structure(record.get("logprobs"))


def rollouts(records: Iterator[tuple[str, dict[str, Any]]], path: str, say: Callable[[str], None]) -> Rows:
    """Yield each output of each response."""
    for index, (place, values) in enumerate(records):
        if index == 0:
            say("Responses of an engine hold its logprobs alone: they are the inference side.")
        outputs = next((values[name] for name in _LISTS if _is_list_of_maps(values.get(name))), None)
        if outputs is None:
            yield place, _columns(Record(path, place, values), values, None)
            continue
        for number, output in enumerate(outputs):
            where = f"{place}, output {number + 1}"
            yield where, _columns(Record(path, where, output), values, len(outputs))


def _columns(output: Record, response: Mapping[str, Any], outputs: int | None) -> dict[str, Any]:
    logprobs, ids, texts = _logprobs(output)
    request = response.get("request_id", response.get("id"))
    index = output.get("index")
    own = {name: value for name, value in response.items() if name not in _OWN}
    if outputs is not None:
        own |= {name: value for name, value in output.values.items() if name not in _OWN}
    named = own.get("rollout_id", request)
    several = outputs is not None and outputs > 1
    return own | {
        "inference_logprobs": logprobs,
        "token_ids": ids,
        "token_texts": texts,
        "rollout_id": f"{named}/{index}" if several and named is not None else named,
        "group_id": own.get("group_id", request if several else None),
        "finish_reason": output.get("finish_reason"),
    }


def _logprobs(output: Record) -> tuple[list[Any], list[Any] | None, list[str | None] | None]:
    """The sampled tokens' logprobs [T], ids [T] and texts [T]; None where the response does not hold them."""
    found, ids = output.get("logprobs"), output.tokens("token_ids")
    if found is None:
        raise output.wrong("it has no 'logprobs'; ask the engine for them (logprobs=1 or logprobs=true).")
    if isinstance(found, Mapping):
        return _openai(output, found, ids)
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise output.wrong("'logprobs' must be a list or an object.")
    if ids is None and all(isinstance(entry, Mapping) and "logprob" in entry for entry in found):
        return _openai(output, {"content": found}, None)
    if ids is None:
        raise output.wrong("'logprobs' maps token ids, but there are no 'token_ids' to say which were sampled.")
    output.same_lengths({"token_ids": ids, "logprobs": found})
    pairs = list(zip(found, ids, strict=True))
    texts = _texts([_own(entry, token).get("decoded_token") for entry, token in pairs])
    return [_sampled(entry, token) for entry, token in pairs], list(ids), texts


def _sampled(entry: Any, token: Any) -> Any:
    """The logprob of the sampled token: the map's first entry may be a likelier token."""
    if not isinstance(entry, Mapping):
        return entry if isinstance(entry, float | int) and not isinstance(entry, bool) else None
    own = _own(entry, token)
    return _number(own["logprob"] if "logprob" in own else entry.get(str(token)))


def _own(entry: Any, token: Any) -> Mapping[str, Any]:
    """What a position says of its sampled token, where that is more than a number."""
    own = entry.get(str(token)) if isinstance(entry, Mapping) else None
    return own if isinstance(own, Mapping) else {}


def _texts(found: Sequence[Any]) -> list[str | None] | None:
    """The texts of tokens; None where there is none, or they are ids."""
    texts = [text if isinstance(text, str) and not text.startswith(_TOKEN_ID) else None for text in found]
    return texts if any(text is not None for text in texts) else None


def _openai(
    output: Record, found: Mapping[str, Any], ids: Any
) -> tuple[list[Any], list[Any] | None, list[str | None] | None]:
    content = found.get("content")
    if isinstance(content, Sequence) and not isinstance(content, str):
        entries = [entry if isinstance(entry, Mapping) else {} for entry in content]
        texts = [entry.get("token") for entry in entries]
        values = [_number(entry.get("logprob")) for entry in entries]
        own = [entry.get("token_id") for entry in entries]
    elif isinstance(found.get("token_logprobs"), Sequence):
        values = [_number(value) for value in found["token_logprobs"]]
        texts, own = list(found.get("tokens") or ()), []
    else:
        raise output.wrong("'logprobs' has neither 'content' nor 'token_logprobs'.")
    if ids is not None:
        output.same_lengths({"token_ids": ids, "logprobs": values})
        return values, list(ids), _texts(texts)
    if own and all(isinstance(token, int) for token in own):
        return values, own, _texts(texts)
    return values, _ids_of(texts), _texts(texts)


def _ids_of(texts: Sequence[Any]) -> list[int] | None:
    """Token ids that vLLM writes in place of the text, as ``token_id:123``, on request."""
    numbers = [text.removeprefix(_TOKEN_ID) for text in texts if isinstance(text, str) and text.startswith(_TOKEN_ID)]
    whole = len(numbers) == len(texts) and all(number.isascii() and number.isdecimal() for number in numbers)
    return [int(number[:18]) for number in numbers] if whole else None


def _number(value: Any) -> Any:
    return value if isinstance(value, float | int) and not isinstance(value, bool) else None


def _is_list_of_maps(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(item, Mapping) for item in value)


def _is_structure(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "content" in value or "token_logprobs" in value
    return isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value)
