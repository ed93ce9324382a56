"""Sorts what went wrong with a batch by what the job can do about it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from shim._core.vectors_faults import SPOILT
from shim.embed.cells import ErrorKind
from shim.events import Attempt, Verdict


class Trouble(str, Enum):
    """What the job can do about a failed batch."""

    LIMITED = "limited"
    """Rate limited: wait, and send less at a time. It says nothing about the batch."""
    BARRED = "barred"
    """The router did not ask the route: its breaker is open, its keys are cooling."""
    DOWN = "down"
    """The route failed, whatever was in the batch: try again, elsewhere first."""
    SPOILT = "spoilt"
    """An answer came and was no good: the batch may be at fault, or the route."""
    UNSUITABLE = "unsuitable"
    """This route cannot serve this batch: too large, too long."""
    UNABLE = "unable"
    """This route cannot serve this job, whatever the text: it does not know a parameter, or ignores `dimensions`."""
    REFUSED = "refused"
    """The batch is at fault: find the row."""
    BROKEN = "broken"
    """The route is misconfigured: its key, its model, its vector length, its space."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A batch that failed. `retry_in` is seconds until the route is back, as the router knows it (None: unknown)."""

    trouble: Trouble
    reason: str
    message: str
    status: int | None
    retry_in: float | None = None
    told: bool = False
    attempts: tuple[Attempt, ...] = ()
    call: str = ""


_BAD_VECTORS = SPOILT | {"wrong_length"}
_ABOUT_THE_BATCH = frozenset(
    {"context_too_long", "too_many_inputs", "request_too_large", "bad_request", "blank_input", "bad_generation"}
)
_FIRST_ROW = re.compile(r"\brow 0\b")
_VALIDATION = re.compile(
    r"validat|must be|must not|should be|not allowed|invalid|malformed|too (?:long|many|large)|cannot be empty|"
    r"unsupported|expected|unprocessable|llama_decode returned -1",
    re.IGNORECASE,
)
_OUTAGES = (502, 503, 504, 520, 521, 522, 523, 524, 529)


def sorted_out(attempt: Attempt) -> Trouble:
    """What the last attempt of a call that was pinned to one route amounts to."""
    match attempt.verdict:
        case None | Verdict.OK:
            return Trouble.DOWN
        case Verdict.FATAL:
            return Trouble.REFUSED
        case Verdict.CANNOT:
            return Trouble.UNSUITABLE if attempt.reason in _ABOUT_THE_BATCH else Trouble.UNABLE
        case Verdict.BROKEN:
            return Trouble.BROKEN
        case Verdict.TRANSIENT:
            pass
    if attempt.status == 429:
        return Trouble.LIMITED
    if attempt.status == 413:
        return Trouble.UNSUITABLE
    if attempt.reason in _BAD_VECTORS:
        return Trouble.SPOILT
    if is_like_validation(attempt.status, attempt.message):
        return Trouble.REFUSED
    return Trouble.DOWN


def is_like_validation(status: int | None, message: str) -> bool:
    """Whether a 500 reads like a complaint about the input: llama.cpp's server answers a null input so."""
    return status == 500 and bool(_VALIDATION.search(message))


def is_outage(status: int | None) -> bool:
    """Whether a status speaks of the service and never of the input."""
    return status is None or status in _OUTAGES


def words_of(failure: Failure) -> str:
    """What is said of a single text that failed: row 0 of its answer is nothing that the user of a column knows."""
    return _FIRST_ROW.sub("this row", failure.message) if failure.reason in _BAD_VECTORS else failure.message


def kind_of(failure: Failure) -> ErrorKind:
    """What a single text that failed for good is called."""
    if failure.reason in _BAD_VECTORS:
        return ErrorKind.BAD_VECTOR
    match failure.trouble:
        case Trouble.UNSUITABLE:
            too_long = "context" in failure.reason or "long" in failure.reason or "token" in failure.message.lower()
            return ErrorKind.OVERSIZE if too_long else ErrorKind.REJECTED
        case Trouble.REFUSED:
            return ErrorKind.REJECTED
        case _:
            return ErrorKind.EXHAUSTED if is_outage(failure.status) else ErrorKind.REJECTED
