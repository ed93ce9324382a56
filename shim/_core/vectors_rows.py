"""Checks on the rows of an embeddings answer: their order, their length, and whether the numbers can be vectors.

Plausibility. A component of 2**21 or more, or a row wholly below 2**-63, is not an embedding: hosted models give norms
between 0.6 and about 110 (DashScope's first generation), integer ones up to 127 per component. Such numbers are what
big-endian float32, float64 and int8 payloads look like when they are read as little-endian float32. Over a few hundred
components of full precision that finds them all; a short or coarse vector may slip through, which is why a family's
length and its probe texts are checked as well.
"""

from __future__ import annotations

import math
import struct
import sys
from array import array
from collections.abc import Sequence
from types import NoneType

from msgspec import UnsetType

from shim._core.outcome import Judgement
from shim._core.vectors_faults import misfit, spoilt
from shim._core.vectors_wire import Index

LARGEST = 2.0**21
SMALLEST = 2.0**-63

# The most significant byte of a float32 holds its sign and all but the last bit of its exponent: enough for both
# bounds, and a slice of every fourth byte is looked through in C without making a single float.
_USUAL_TOPS = bytes(top for top in range(256) if top & 0x7F < 0x4A)
_TINY_TOPS = bytes(top for top in range(256) if top & 0x7F < 0x20)
_FLOAT64_TRACE_MIN = 16


def order(indexes: Sequence[Index]) -> Sequence[int] | Judgement:
    """For each row as written, the position of its input. Rows that all lack an index are in input order; strings of
    digits are read.

    An index that repeats, starts at one, is a float or a boolean makes the pairing a guess, and a guess attaches
    vectors to the wrong texts in silence: that is judged, not mended. A single row needs no index.
    """
    count = len(indexes)
    kinds = set(map(type, indexes))
    if count == 1 or kinds <= {NoneType, UnsetType}:
        return range(count)
    places: list[int] = []
    for position, index in enumerate(indexes):
        place = (
            int(index) if isinstance(index, str) and index.isascii() and index.isdigit() and len(index) < 10 else index
        )
        if type(place) is not int or len(kinds) > 1:
            return spoilt("bad_index", f"row {position} has index {_shown(index)}, not a whole number in every row")
        places.append(place)
    if sorted(places) != list(range(count)):
        return spoilt("bad_index", f"the indexes are not 0 to {count - 1}, each once (they begin {places[:8]})")
    return places


def _shown(index: Index) -> str:
    return "missing" if isinstance(index, UnsetType) else "null" if index is None else repr(index)[:40]


def check_lengths(lengths: Sequence[int], unit: str) -> Judgement | None:
    """Judges rows of unequal length. `unit` names what was counted: bytes or components."""
    if len(set(lengths)) <= 1:
        return None
    other = next(position for position, length in enumerate(lengths) if length != lengths[0])
    return spoilt("ragged", f"row 0 has {lengths[0]} {unit} and row {other} has {lengths[other]}")


def check_payload(payload: bytes, dimensions: int | None) -> Judgement | None:
    """Judges the length of base64 payloads (all as long as this one) as float32; float64 and int8 are recognised by
    name.
    """
    size = len(payload)
    if dimensions is None:
        if size % 4:
            return spoilt("undecodable", f"each vector is {size} bytes, which is no whole number of float32 components")
        return _float64(payload) if _has_float64_trace(payload) else None
    if size == 4 * dimensions:
        return None
    if size == 8 * dimensions and looks_like_float64(payload):
        return _float64(payload)
    if size == dimensions:
        return misfit(
            f"each vector is {size} bytes where {dimensions} float32 components need {4 * dimensions}: "
            "this looks like int8, one byte per component; set the route to int8, or ask the provider for floats"
        )
    if size % 4:
        return spoilt("undecodable", f"each vector is {size} bytes, which is no whole number of float32 components")
    return wrong_length(size // 4, dimensions)


def wrong_length(got: int, wanted: int) -> Judgement:
    """The judgement of vectors that are well formed and of another length than the family's."""
    return misfit(
        f"the vectors have {got} components and must have {wanted}: another model, or another `dimensions`, answered"
    )


def _float64(payload: bytes) -> Judgement:
    return misfit(
        f"the base64 holds float64 ({len(payload) // 8} components), "
        f"which readers take for {len(payload) // 4} components of float32; old vLLM servers do so: "
        "ask this route for encoding_format='float'"
    )


def _has_float64_trace(payload: bytes) -> bool:
    """float64 made from coarse floats has empty low words: every second float32 is zero and no other one is."""
    row = unpack(payload)
    return len(row) >= _FLOAT64_TRACE_MIN and not any(row[0::2]) and all(row[1::2]) and looks_like_float64(payload)


def looks_like_float64(payload: bytes) -> bool:
    """True if the bytes are a plausible vector when they are read as little-endian float64."""
    return len(payload) % 8 == 0 and _is_plausible(struct.unpack(f"<{len(payload) // 8}d", payload))


def _is_plausible(row: Sequence[float]) -> bool:
    return any(row) and all(component == 0 or SMALLEST < abs(component) < LARGEST for component in row)


def check_matrix(matrix: bytes, dimensions: int) -> Judgement | None:
    """Judges packed float32 rows: not finite, all zero, or implausible (see the top of this module)."""
    tops = matrix[3::4]
    is_suspect = bool(tops.translate(None, _USUAL_TOPS))
    for position in range(len(tops) // dimensions):
        start = position * dimensions
        if is_suspect or not tops[start : start + dimensions].lstrip(_TINY_TOPS):
            payload = matrix[4 * start : 4 * (start + dimensions)]
            fault = check_row(unpack(payload), position, payload)
            if fault:
                return fault
    return None


def check_row(row: Sequence[float], position: int, payload: bytes = b"") -> Judgement | None:
    """Judges one row of floats. `payload` are the bytes it was read from, if any: they tell what was misread."""
    norm = math.hypot(*row)
    if SMALLEST < norm < LARGEST:
        return None
    if not all(map(math.isfinite, row)):
        return spoilt("not_finite", f"row {position} holds a NaN or an infinity")
    if not any(row):
        return spoilt("zero_vector", f"row {position} is all zeros")
    if payload and looks_like_float64(payload):
        return _float64(payload)
    is_swapped = bool(payload) and _is_plausible(struct.unpack(f">{len(row)}f", payload))
    guess = "; the bytes are big-endian float32" if is_swapped else ""
    return spoilt("implausible", f"row {position} has norm {norm:.2g}, which no embedding has{guess}")


def unpack(packed: bytes) -> array[float]:
    """Little-endian float32 bytes as an array of floats."""
    row = array("f", packed)
    if sys.byteorder == "big":
        row.byteswap()
    return row


def pack(row: Sequence[float]) -> bytes:
    """Floats as little-endian float32 bytes."""
    packed = array("f", row)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
