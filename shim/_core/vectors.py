"""Strict reading of an embeddings answer: vectors in input order, or the judgement that says why there are none.

The official client checks nothing here: not the count, the indexes, the length, nor whether the numbers are numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from shim._core.outcome import Judgement
from shim._core.vectors_faults import spoilt
from shim._core.vectors_rows import (
    check_lengths,
    check_matrix,
    check_payload,
    check_row,
    order,
    pack,
    unpack,
    wrong_length,
)
from shim._core.vectors_wire import Answer, parse


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the answer must look like.

    `count` None takes any number of vectors. `dimensions` is the exact length of every vector as the provider sends it;
    None takes any one length. `truncate_to` cuts each vector to its first components and scales it to unit length
    again: only for Matryoshka families. `int8` says that base64 payloads hold one signed byte per component
    (Perplexity's do); they come back as floats of the same value, not scaled.
    """

    count: int | None
    dimensions: int | None = None
    truncate_to: int | None = None
    int8: bool = False


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of an answer, in input order.

    `reordered` says that the provider sent them in another order. `intact` says that the provider's own body can be
    passed on untouched: the official client reads the same vectors from it in the same order. `base64` says that every
    row came as base64, not as numbers. `dimensions` of no vectors is what was asked for, 0 where nothing was.
    `input_tokens` is None where the provider did not count.
    """

    count: int
    dimensions: int
    input_tokens: int | None
    model: str | None
    reordered: bool
    intact: bool
    base64: bool
    matrix: bytes | None = field(repr=False)
    rows: Sequence[list[float]] = field(repr=False)

    def floats(self) -> list[list[float]]:
        """Lists of Python floats: float32 values from base64, the JSON's own doubles from lists, as officially.

        Rows that came as lists are handed out, not copied: a copy costs a fifth of the parsing.
        """
        if self.matrix is None:
            return list(self.rows)
        width = 4 * self.dimensions
        return [unpack(self.matrix[at : at + width]).tolist() for at in range(0, len(self.matrix), width)]

    def packed(self) -> bytes:
        """count x dimensions little-endian float32, row after row: `np.frombuffer(packed, "<f4").reshape(count,
        dimensions)`.
        """
        return b"".join(map(pack, self.rows)) if self.matrix is None else self.matrix

    def body(self, *, model: str, base64: bool) -> bytes:
        """A canonical OpenAI answer naming `model`, with base64 or float rows; `usage` only where it is known."""
        rows: Sequence[object] = self._payloads() if base64 else self.floats()
        answer: dict[str, object] = {
            "object": "list",
            "data": [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(rows)],
            "model": model,
        }
        if self.input_tokens is not None:
            answer["usage"] = {"prompt_tokens": self.input_tokens, "total_tokens": self.input_tokens}
        return msgspec.json.encode(answer)  # bytes are written as base64

    def _payloads(self) -> list[memoryview]:
        view = memoryview(self.packed())
        width = 4 * self.dimensions
        return [view[place * width : (place + 1) * width] for place in range(self.count)]


@dataclass(frozen=True, slots=True)
class _Block:
    """Checked rows: packed float32 where all came so, else lists."""

    dimensions: int
    matrix: bytes | None = None
    rows: Sequence[list[float]] = ()


Reader = Callable[[bytes, Wanted], Embedded | Judgement]
"""What `read` below does, by whatever means."""


def read(body: bytes, wanted: Wanted) -> Embedded | Judgement:
    """The vectors of `body` in input order, or a judgement if they are not exactly what was asked for.

    No vectors are a good answer to no inputs.

    Transient (reasons `malformed`, `no_vectors`, `short_answer`, `long_answer`, `bad_index`, `null_vector`, `ragged`,
    `undecodable`, `token_matrix`, `not_finite`, `zero_vector`, `implausible`): the next attempt may be good. Broken
    (`wrong_length`): every vector has the same other length, or is float64 or int8; the route is misconfigured.
    """
    answer = parse(body)
    if isinstance(answer, Judgement):
        return answer
    count = len(answer.data) if wanted.count is None else wanted.count
    if len(answer.data) != count:
        reason = "short_answer" if len(answer.data) < count else "long_answer"
        reason = reason if answer.data else "no_vectors"
        return spoilt(reason, f"{len(answer.data)} vectors for {count} inputs")
    if count == 0:
        return _embedded(answer, _Block(wanted.truncate_to or wanted.dimensions or 0), (), wanted)
    places = order([row.index for row in answer.data])
    if isinstance(places, Judgement):
        return places
    rows = _filled(answer)
    if isinstance(rows, Judgement):
        return rows
    # Rows are checked as written and sorted after, so that a message names the row that one finds in the body.
    block = _block(rows, wanted)
    if isinstance(block, Judgement):
        return block
    return _embedded(answer, block, places, wanted)


def _embedded(answer: Answer, block: _Block, places: Sequence[int], wanted: Wanted) -> Embedded:
    is_ordered = all(place == position for position, place in enumerate(places))
    is_base64 = bool(answer.data) and all(isinstance(row.embedding, bytes) for row in answer.data)
    is_intact = is_ordered and _is_readable(answer) and wanted.truncate_to is None and not (wanted.int8 and is_base64)
    block = block if is_ordered else _sorted(block, places)
    return Embedded(
        count=len(answer.data),
        dimensions=block.dimensions,
        input_tokens=answer.input_tokens(),
        model=answer.model_name(),
        reordered=not is_ordered,
        intact=is_intact,
        base64=is_base64,
        matrix=block.matrix,
        rows=block.rows,
    )


def _filled(answer: Answer) -> list[bytes | list[float]] | Judgement:
    rows: list[bytes | list[float]] = []
    for position, row in enumerate(answer.data):
        if not row.embedding:
            what = "null or missing" if row.embedding is None else "empty"
            return spoilt("null_vector", f"the embedding of row {position} is {what}")
        rows.append(row.embedding)
    return rows


def _is_readable(answer: Answer) -> bool:
    """True if the official client gives the same vectors and `index` attributes for the provider's own body."""
    has_indexes = all(type(row.index) is int and row.index == position for position, row in enumerate(answer.data))
    return answer.strict and has_indexes and len({type(row.embedding) for row in answer.data}) <= 1


def _block(rows: Sequence[bytes | list[float]], wanted: Wanted) -> _Block | Judgement:
    payloads = [row for row in rows if isinstance(row, bytes)]
    fault = check_lengths([len(payload) for payload in payloads], "bytes")
    if fault:
        return fault
    is_int8 = wanted.int8 and bool(payloads) and wanted.dimensions in (None, len(payloads[0]))
    if payloads and not is_int8:
        fault = check_payload(payloads[0], wanted.dimensions)
        if fault:
            return fault
        if len(payloads) == len(rows):
            return _packed_block(payloads, wanted)
    listed = [row if isinstance(row, list) else _floats(row, is_int8) for row in rows]
    return _listed_block(listed, wanted)


def _floats(payload: bytes, is_int8: bool) -> list[float]:
    return [float(component) for component in memoryview(payload).cast("b")] if is_int8 else unpack(payload).tolist()


def _packed_block(payloads: Sequence[bytes], wanted: Wanted) -> _Block | Judgement:
    matrix = b"".join(payloads)
    dimensions = len(payloads[0]) // 4
    fault = check_matrix(matrix, dimensions)
    if fault:
        return fault
    if wanted.truncate_to is None:
        return _Block(dimensions, matrix)
    listed = [unpack(payload[: 4 * wanted.truncate_to]).tolist() for payload in payloads]
    cut = _cut(listed, wanted.truncate_to)
    return cut if isinstance(cut, Judgement) else _Block(wanted.truncate_to, b"".join(map(pack, cut)))


def _listed_block(listed: Sequence[list[float]], wanted: Wanted) -> _Block | Judgement:
    fault = check_lengths([len(row) for row in listed], "components")
    if fault:
        return fault
    dimensions = len(listed[0])
    if wanted.dimensions is not None and dimensions != wanted.dimensions:
        return wrong_length(dimensions, wanted.dimensions)
    for position, row in enumerate(listed):
        fault = check_row(row, position)
        if fault:
            return fault
    if wanted.truncate_to is None:
        return _Block(dimensions, rows=listed)
    cut = _cut(listed, wanted.truncate_to)
    return cut if isinstance(cut, Judgement) else _Block(wanted.truncate_to, rows=cut)


def _cut(rows: Sequence[list[float]], length: int) -> list[list[float]] | Judgement:
    """The first `length` components of each row, at unit length."""
    cut: list[list[float]] = []
    for position, row in enumerate(rows):
        if len(row) < length:
            return wrong_length(len(row), length)
        norm = math.hypot(*row[:length])
        if norm == 0:
            return spoilt("zero_vector", f"the first {length} components of row {position} are all zeros")
        cut.append([component / norm for component in row[:length]])
    return cut


def _sorted(block: _Block, places: Sequence[int]) -> _Block:
    """The rows by the position of their inputs: row k as written belongs to input `places[k]`."""
    written_at = sorted(range(len(places)), key=places.__getitem__)
    if block.matrix is None:
        return _Block(block.dimensions, rows=[block.rows[at] for at in written_at])
    width = 4 * block.dimensions
    return _Block(block.dimensions, b"".join(block.matrix[at * width : (at + 1) * width] for at in written_at))
