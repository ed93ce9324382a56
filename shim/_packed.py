"""Reads embeddings answers straight into packed float32, for callers who want no Python number made of them.

Base64 is read by the strict reader as it is. Numbers in JSON go through simdjson where it is installed, else through
NumPy, text slice by text slice. Whatever is not exactly as it should be is left to the strict reader, which names it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from shim._core import vectors
from shim._core.outcome import Judgement
from shim._core.vectors import Embedded, Wanted
from shim._core.vectors_rows import LARGEST, SMALLEST, order
from shim._core.vectors_wire import UNREADABLE, Answer, Index, Row

_NUMBERS = re.compile(rb'"embedding"\s*:\s*\[')
_LOOKED_AT = 4096
"""Bytes at the head of an answer that tell whether it holds numbers: the first row begins there."""

Doubles = NDArray[np.float64]


class _RawRow(msgspec.Struct):
    embedding: msgspec.Raw
    index: Index = msgspec.UNSET


class _RawBody(msgspec.Struct):
    data: list[_RawRow]
    model: object = None
    usage: object = None


_raw_decoder = msgspec.json.Decoder(_RawBody)


def read(body: bytes, wanted: Wanted) -> Embedded | Judgement:
    """As `shim._core.vectors.read`, with `matrix` filled whatever the provider wrote."""
    if wanted.count and _NUMBERS.search(body, 0, _LOOKED_AT):
        found = _numbers(body, wanted)
        if found is not None:
            return found
    return vectors.read(body, wanted)


def _numbers(body: bytes, wanted: Wanted) -> Embedded | None:
    """The vectors of an answer in numbers; None for the strict reader to say what is wrong, or to read more kindly."""
    try:
        answer, rows = _with_simdjson(body) if _simdjson() is not None else _with_numpy(body)
        matrix = np.stack(rows)
    except (*UNREADABLE, ValueError, TypeError, KeyError, RuntimeError, AttributeError, DeprecationWarning):
        return None
    places = order([row.index for row in answer.data])
    if isinstance(places, Judgement) or len(answer.data) != wanted.count or matrix.ndim != 2:
        return None
    if wanted.dimensions is not None and matrix.shape[1] != wanted.dimensions:
        return None
    fitted = _fitted(matrix, wanted.truncate_to)
    if fitted is None:
        return None
    is_ordered = all(place == position for position, place in enumerate(places))
    if not is_ordered:
        sorted_rows = np.empty_like(fitted)
        sorted_rows[list(places)] = fitted
        fitted = sorted_rows
    return Embedded(
        count=len(answer.data),
        dimensions=fitted.shape[1],
        input_tokens=answer.input_tokens(),
        model=answer.model_name(),
        reordered=not is_ordered,
        intact=False,
        base64=False,
        matrix=fitted.tobytes(),
        rows=(),
    )


def _fitted(matrix: Doubles, truncate_to: int | None) -> NDArray[Any] | None:
    """The rows as little-endian float32, cut where the family allows it; None if any row cannot be a vector."""
    norms = np.linalg.norm(matrix, axis=1)
    if not bool(np.all((norms > SMALLEST) & (norms < LARGEST))):  # also false for NaN
        return None
    if truncate_to is None:
        return matrix.astype("<f4")
    cut = matrix[:, :truncate_to]
    norms = np.linalg.norm(cut, axis=1, keepdims=True)
    return (cut / norms).astype("<f4") if cut.shape[1] == truncate_to and bool(np.all(norms > 0)) else None


def _with_numpy(body: bytes) -> tuple[Answer, Sequence[Doubles]]:
    parsed = _raw_decoder.decode(body)
    rows = [_slice(bytes(row.embedding)) for row in parsed.data]
    data = [Row(None, row.index) for row in parsed.data]
    return Answer(data, parsed.model, parsed.usage, strict=True), rows


def _slice(raw: bytes) -> Doubles:
    if raw[:1] != b"[" or not raw[1:-1].strip():
        raise ValueError("no list of numbers")
    text = raw[1:-1]
    found = np.fromstring(text, dtype=np.float64, sep=",")
    if len(found) != text.count(b",") + 1:  # NumPy stops where it cannot read on
        raise ValueError("something else among the numbers")
    return found


def _with_simdjson(body: bytes) -> tuple[Answer, Sequence[Doubles]]:
    document = _simdjson().Parser().parse(body)
    if body.count(b"[") != 1 + len(document["data"]):
        raise ValueError("lists inside a vector, which simdjson would take for one flat list")
    rows: list[Doubles] = []
    data: list[Row] = []
    for item in document["data"]:
        rows.append(np.frombuffer(item["embedding"].as_buffer(of_type="d"), dtype=np.float64))
        data.append(Row(None, item.get("index", msgspec.UNSET)))
    usage = document.get("usage", None)
    model = document.get("model", None)
    return Answer(data, model, _plain(usage), strict=True), rows


def _plain(value: Any) -> object:
    return value.as_dict() if hasattr(value, "as_dict") else value


@cache
def _simdjson() -> Any:
    try:
        import simdjson
    except ImportError:
        return None
    return simdjson
