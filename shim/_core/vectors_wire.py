"""The JSON of an embeddings answer, read into rows of bytes or floats; what cannot be read is named."""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass

import msgspec
from msgspec import UNSET, Struct, UnsetType

from shim._core.outcome import Judgement
from shim._core.vectors_faults import spoilt, token_matrix

Index = int | float | str | bool | UnsetType | None

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What the decoder raises for a body that is no JSON, or not of the expected shape."""

_NOT_A_NUMBER = re.compile(rb"[\[,:]\s*-?(?:NaN|nan|Infinity|Inf|inf)\s*[,\]}]")


class Row(Struct):
    """One item of `data`. `embedding` is the decoded base64 payload, or the floats, or None where it was null."""

    embedding: bytes | list[float] | None = None
    index: Index = UNSET


class _Body(Struct):
    data: list[Row]
    model: object = None
    usage: object = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An embeddings answer. `strict` is False if the official client could not have read the rows as they stand."""

    data: list[Row]
    model: object
    usage: object
    strict: bool

    def input_tokens(self) -> int | None:
        """Tokens that the provider counted; None if unknown. A server that does not count says 0: unknown too."""
        usage = self.usage if isinstance(self.usage, dict) else {}
        for name in ("prompt_tokens", "total_tokens", "input_tokens"):
            count = usage.get(name)
            if type(count) is int and count > 0:
                return count
        return None

    def model_name(self) -> str | None:
        """The model that the provider says it used."""
        return self.model if isinstance(self.model, str) and self.model else None


_decoder = msgspec.json.Decoder(_Body)


def parse(body: bytes) -> Answer | Judgement:
    """The rows of `body`, in the order written, or a transient judgement that names what is wrong with it.

    The typed decoder turns base64 into bytes as it goes. Only what it refuses is looked at again piece by piece: base64
    without padding is accepted then, everything else gets its name.
    """
    try:
        answer = _decoder.decode(body)
    except UNREADABLE:
        return _parse_slowly(body)
    return Answer(answer.data, answer.model, answer.usage, strict=True)


def unreadable(body: bytes, error: Exception) -> Judgement:
    """The judgement of a body that is no JSON: NaN tokens and over-large numbers are told from broken or cut text."""
    token = _NOT_A_NUMBER.search(body)
    if token and body.lstrip()[:1] in (b"{", b"["):
        return spoilt("not_finite", f"the JSON holds a bare {token[0].decode().strip('[,:]} ')} where a number belongs")
    if "out of range" in str(error):
        return spoilt("not_finite", f"a number in the answer is beyond what a float holds ({error})")
    if not body.strip():
        return spoilt("malformed", "the answer is empty")
    return spoilt("malformed", f"the answer is not readable JSON ({error})")


def _parse_slowly(body: bytes) -> Answer | Judgement:
    try:
        plain: object = msgspec.json.decode(body)
    except UNREADABLE as error:
        return unreadable(body, error)
    if not isinstance(plain, dict):
        return spoilt("malformed", f"the answer is a JSON {_kind(plain)}, not an object with a 'data' list")
    data = plain.get("data")
    if not isinstance(data, list):
        what = f"'data' is {_kind(data)}" if "data" in plain else f"there is no 'data' (keys: {_keys(plain)})"
        return spoilt("malformed", f"the answer has no list of vectors: {what}")
    rows: list[Row] = []
    for position, item in enumerate(data):
        row = _row(position, item)
        if isinstance(row, Judgement):
            return row
        rows.append(row)
    return Answer(rows, plain.get("model"), plain.get("usage"), strict=False)


def _row(position: int, item: object) -> Row | Judgement:
    if not isinstance(item, dict):
        return spoilt("malformed", f"row {position} is a JSON {_kind(item)}, not an object with an 'embedding'")
    index = item.get("index", UNSET)
    if not (index is UNSET or index is None or isinstance(index, (int, float, str))):
        index = _kind(index)
    embedding = item.get("embedding")
    if embedding is None:
        return Row(None, index)
    if isinstance(embedding, list):
        fault = _fault_of_list(position, embedding)
        return fault or Row([float(component) for component in embedding], index)
    if not isinstance(embedding, str):
        return spoilt(
            "undecodable", f"row {position} holds a JSON {_kind(embedding)} instead of base64 or a list of numbers"
        )
    payload = _base64(embedding)
    if payload is None:
        return spoilt("undecodable", f"row {position} is a string of {len(embedding)} characters that is not base64")
    return Row(payload, index)


def _fault_of_list(position: int, components: list[object]) -> Judgement | None:
    for place, component in enumerate(components):
        if type(component) is float or type(component) is int:
            continue
        if isinstance(component, list):
            return token_matrix(position)
        if component is None:
            return spoilt("null_vector", f"component {place} of row {position} is null (a NaN, most likely)")
        return spoilt("undecodable", f"component {place} of row {position} is a JSON {_kind(component)}, not a number")
    return None


def _base64(text: str) -> bytes | None:
    """Standard base64 with or without padding; None if it is something else."""
    bare = "".join(text.split()).rstrip("=")
    try:
        return binascii.a2b_base64((bare + "=" * (-len(bare) % 4)).encode("ascii"), strict_mode=True)
    except ValueError:  # binascii.Error and UnicodeEncodeError are both
        return None


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _keys(plain: dict[object, object]) -> str:
    return ", ".join(str(key)[:40] for key in list(plain)[:5]) or "none"
