"""The space check: are two routes' vectors for the same texts points of one vector space?

The measure is noise over separation: the mean distance between the two routes' unit vectors for the same text, divided
by the mean distance between different texts in the reference. Plain cosine does not do: in an anisotropic space
unrelated texts may lie at 0.8. Measured for MiniLM and e5: other weights precision 0.02 or less, 3 % noise 0.05, a
"query: " prefix 0.29 to 0.56, cut dimensions 0.57 to 0.79, other pooling 0.68, another model 1.0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from itertools import combinations
from statistics import fmean, median

import msgspec

from shim._core.space_probes import FINGERPRINT, LONG_PROBE, PROBES
from shim._core.vectors_rows import pack, unpack

__all__ = [
    "LONG_PROBE",
    "PROBES",
    "Comparison",
    "Reading",
    "Ruling",
    "compare",
    "dump",
    "endpoint",
    "fingerprint",
    "key_of",
    "load",
    "self_check",
]


def key_of(family: str, length: int | None, input_type: str | None) -> str:
    """The name of a space: what must be the same for two vectors to be comparable at all."""
    return f"{family} {length or 'native'} {input_type or 'any'}"


def endpoint(base_url: str, model: str) -> str:
    """What must be the same for a kept ruling to hold: where a route lives and its model."""
    return f"{base_url} {model}"


ACCEPT_NOISE = 0.05
WARN_NOISE = 0.15
WORST_NOISE = 0.5
"""A single text this far off lies about as near to other texts as to itself, and a mean over sixteen would hide it."""
NORM_RATIOS = (0.9, 1.1)
MIN_SEPARATION = 1e-3
"""Unit vectors of different texts closer than this on average are one vector with rounding noise."""

Vector = tuple[float, ...]


class Ruling(str, Enum):
    """What follows from a comparison: the route joins, joins with a warning, or is refused."""

    ACCEPT = "accept"
    WARN = "warn"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Reading:
    """One route's vectors of the probes: all in one request, each in a request of its own, and the long probe if it was
    taken.
    """

    batch: tuple[Vector, ...]
    singles: tuple[Vector, ...]
    long: Vector | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The figures of a comparison and what follows. `noise` and `long_noise` are over separation, `norm_ratio` is a
    median.
    """

    noise: float
    long_noise: float | None
    norm_ratio: float
    ruling: Ruling
    message: str


def self_check(reading: Reading) -> Comparison:
    """Compares a route's batched vectors with the same route's single ones: some servers answer garbage from the second
    text on.
    """
    return _compared(reading.singles, reading.batch, None, "batched calls give other vectors than single ones")


def compare(reference: Reading, candidate: Reading) -> Comparison:
    """Compares a candidate's vectors with the kept reference of its family.

    The singles decide; `self_check` answers for the batch. The long probe is compared apart, and warns but never
    refuses: where it alone differs, short texts are safe and long ones are cut at another length.
    """
    return _compared(
        reference.singles, candidate.singles, _long_pair(reference, candidate), "not the same vector space"
    )


def _long_pair(reference: Reading, candidate: Reading) -> tuple[Vector, Vector] | None:
    if reference.long is None or candidate.long is None:
        return None
    return reference.long, candidate.long


def _compared(
    reference: Sequence[Vector], candidate: Sequence[Vector], long_pair: tuple[Vector, Vector] | None, refusal: str
) -> Comparison:
    misshapen = _miscounted(reference, candidate) or _misshapen(
        [*reference, *(long_pair or ())[:1]], [*candidate, *(long_pair or ())[1:]]
    )
    if misshapen:
        return Comparison(math.inf, None, math.nan, Ruling.REFUSE, f"{refusal}: {misshapen}")
    ours, theirs = [_unit(vector) for vector in reference], [_unit(vector) for vector in candidate]
    separation = fmean(math.dist(one, other) for one, other in combinations(ours, 2))
    if not separation > MIN_SEPARATION:
        return Comparison(math.inf, None, math.nan, Ruling.REFUSE, "the reference gives one vector for different texts")
    noises = [math.dist(one, other) / separation for one, other in zip(ours, theirs, strict=True)]
    long_noise = math.dist(_unit(long_pair[0]), _unit(long_pair[1])) / separation if long_pair else None
    ratio = median(_ratio(one, other) for one, other in zip(reference, candidate, strict=True))
    ruling, message = _ruled(fmean(noises), max(noises), long_noise, ratio, refusal)
    return Comparison(fmean(noises), long_noise, ratio, ruling, message)


def _miscounted(reference: Sequence[Vector], candidate: Sequence[Vector]) -> str | None:
    if len(reference) == len(candidate) >= 2:
        return None
    return f"{len(candidate)} probe vectors against {len(reference)} in the reference"


def _misshapen(reference: Sequence[Vector], candidate: Sequence[Vector]) -> str | None:
    lengths, others = {len(vector) for vector in reference}, {len(vector) for vector in candidate}
    if lengths != others or len(lengths) != 1:
        return f"vectors of length {_listed(others)} against {_listed(lengths)} in the reference"
    if not all(math.isfinite(math.hypot(*vector)) for vector in (*reference, *candidate)):
        return "a probe vector holds a NaN or an infinity"
    return None


def _listed(lengths: set[int]) -> str:
    return " and ".join(map(str, sorted(lengths)))


def _ruled(noise: float, worst: float, long_noise: float | None, ratio: float, refusal: str) -> tuple[Ruling, str]:
    figure = f"noise over separation is {noise:.2g}"
    # Written so that a NaN, for which every comparison is false, is refused.
    if not noise <= WARN_NOISE:
        return Ruling.REFUSE, f"{refusal}: {figure}, and at most {WARN_NOISE} may be"
    if not worst <= WORST_NOISE:
        return Ruling.REFUSE, f"{refusal}: {figure}, but {worst:.2g} for one text, and at most {WORST_NOISE} may be"
    if not NORM_RATIOS[0] <= ratio <= NORM_RATIOS[1]:
        return Ruling.REFUSE, (
            f"{refusal}: the directions agree ({figure}), but the vectors are {ratio:.2g} times as long as the "
            "reference's; one side scales to unit length and the other does not, which breaks dot products"
        )
    if long_noise is not None and not long_noise <= WARN_NOISE:
        return Ruling.WARN, (
            f"{figure} for short texts and {long_noise:.2g} for a text of 700 words: this route truncates long texts "
            "at another length, so texts beyond its context get other vectors here"
        )
    if noise > ACCEPT_NOISE:
        return Ruling.WARN, f"{figure}, more than {ACCEPT_NOISE}: close, but not the same numbers"
    return Ruling.ACCEPT, f"same vector space: {figure}"


def _unit(vector: Vector) -> Vector:
    norm = math.hypot(*vector)
    return tuple(component / norm for component in vector) if norm > 0 else vector


def _ratio(reference: Vector, candidate: Vector) -> float:
    norm = math.hypot(*reference)
    return math.hypot(*candidate) / norm if norm > 0 else math.inf


class _Kept(msgspec.Struct):
    probes: str
    dimensions: int
    batch: int
    singles: int
    long: bool
    vectors: bytes


def fingerprint(reading: Reading) -> str:
    """Twelve hex digits that stand for the reading as it is kept on the disk."""
    return blake2b(dump(reading), digest_size=6).hexdigest()


def dump(reading: Reading) -> bytes:
    """Compact JSON of a reading for the disk: float32 in base64, and the fingerprint of the probe texts. All vectors
    must be of one length.
    """
    vectors = [*reading.batch, *reading.singles, *([reading.long] if reading.long is not None else [])]
    lengths = {len(vector) for vector in vectors}
    if len(lengths) != 1:
        raise ValueError(f"a reading to be kept needs vectors of one length, not of {_listed(lengths) or 'none'}")
    return msgspec.json.encode(
        _Kept(
            FINGERPRINT,
            lengths.pop(),
            len(reading.batch),
            len(reading.singles),
            reading.long is not None,
            b"".join(map(pack, vectors)),
        )
    )


def load(kept: bytes) -> Reading:
    """The reading in `kept`. Raises ValueError if it is damaged, or was made with other probe texts than these."""
    try:
        record = msgspec.json.decode(kept, type=_Kept)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"the kept reading is damaged ({error}); delete it, and the probes are embedded anew"
        ) from None
    if record.probes != FINGERPRINT:
        raise ValueError(
            f"the kept reading is of other probe texts ({record.probes[:16]!r}); delete it to embed these anew"
        )
    count = record.batch + record.singles + record.long
    if min(record.dimensions, record.batch, record.singles) < 1 or len(record.vectors) != 4 * count * record.dimensions:
        raise ValueError("the kept reading is cut short; delete it, and the probes are embedded anew")
    numbers = unpack(record.vectors)
    vectors = tuple(tuple(numbers[at : at + record.dimensions]) for at in range(0, len(numbers), record.dimensions))
    batch, rest = vectors[: record.batch], vectors[record.batch :]
    return Reading(batch, rest[: record.singles], rest[record.singles] if record.long else None)
