"""Faults on demand: whom one meets, when, and what it does to an attempt. Data and counting; nothing is carried out.

A `FaultProfile` says that attempts on `subject` (a provider, a route `provider/model`, or "" for all) meet an `Effect`
at the times that `When` tells. An `Injection` holds profiles that are under way and counts:

    profile = FaultProfile(Instead(answer(429, retry_after=30)), "openai", When(times=2))
    injection = Injection([profile], started_at=now)
    met = injection.meet("openai", "gpt-4o-mini", now)  # for each attempt, in the order in which they begin
    if met is not None: ...                             # carry out `met.effect` in place of a plain exchange

`Instead` brings an `Outcome` without asking the provider. `Hang` waits first. `Cut`, `Drip`, `ErrorEvent` and `BadRows`
ask the provider and change what it says: `fault_steps.Tamper` does that, bytes in, steps out. Neither a clock nor
chance is read: time comes in as an argument, and a share of attempts is drawn from a seed. Calls must not overlap:
whoever shares an `Injection` holds a lock around `meet`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b

from shim._core.outcome import Fault, Outcome

MARK = "x-shim-fault"
"""The header of an answer that no provider gave."""


class Rows(str, Enum):
    """What can be wrong with the rows of an embeddings answer that is otherwise whole."""

    SHORT = "short"
    """The last row is missing."""
    REORDERED = "reordered"
    """The rows stand in reverse, their `index` fields are true."""
    MISLABELLED = "mislabelled"
    """The rows stand in order, their `index` fields are reversed."""
    NAN = "nan"
    """A row holds a number that is none."""
    ZERO = "zero"
    """A row is all zeros."""
    LENGTH = "length"
    """Every row has one number less."""


@dataclass(frozen=True, slots=True)
class Instead:
    """The provider is not asked; this came."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Hang:
    """Silence for so many seconds, then the provider's own answer."""

    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds >= 0:
            raise ValueError(f"hang: seconds of at least 0, not {self.seconds!r}")


@dataclass(frozen=True, slots=True)
class Cut:
    """The provider's answer ends after so many bytes of its body: by `fault`, or properly where that is None."""

    after: int
    fault: Fault | None = Fault.RESET


@dataclass(frozen=True, slots=True)
class Drip:
    """The provider's body comes in pieces of `size` bytes, `every` so many seconds."""

    every: float
    size: int = 1

    def __post_init__(self) -> None:
        if not self.every >= 0 or self.size < 1:
            raise ValueError(f"drip: pieces of at least 1 byte, every 0 seconds or more, not {self}")


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """The provider's stream goes on for so many events; then comes an error event, and the end."""

    after: int
    error: str = "The server had an error while processing your request"
    code: str = "server_error"


@dataclass(frozen=True, slots=True)
class BadRows:
    """The provider's embeddings, with one thing wrong. `row` counts from 0; -1 is the last."""

    wrong: Rows
    row: int = -1


Effect = Instead | Hang | Cut | Drip | ErrorEvent | BadRows
"""What an attempt meets."""


@dataclass(frozen=True, slots=True)
class When:
    """Which of a subject's attempts meet a fault: the first `after` do not, then `times` do (None: all).

    `flap`: so many attempts are well, as many meet it, and so on. `share`: each one only with this probability, drawn
    from `seed` and its number. `seconds`: only so long from the start of the injection.
    """

    times: int | None = None
    after: int = 0
    flap: int = 0
    share: float = 1.0
    seed: int = 0
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share: a probability from 0 to 1, not {self.share!r}")
        told = {"times": self.times, "after": self.after, "flap": self.flap, "seconds": self.seconds}
        for name, value in told.items():
            if value is not None and not value >= 0:
                raise ValueError(f"{name}: a number of at least 0, not {value!r}")

    def includes(self, number: int) -> bool:
        """Whether attempt `number`, counted from 0 after the first `after`, may meet the fault."""
        if self.flap and number // self.flap % 2 == 0:
            return False
        return self.share >= 1.0 or _draw(self.seed, number) < self.share


@dataclass(frozen=True, slots=True)
class FaultProfile:
    """One thing that goes wrong. `name` is what records and messages call it."""

    effect: Effect
    subject: str = ""
    when: When = field(default_factory=When)
    name: str = ""

    def is_about(self, provider: str, model: str) -> bool:
        """Whether attempts on this route may meet it."""
        return self.subject in ("", provider, f"{provider}/{model}")


@dataclass(slots=True)
class _Count:
    seen: int = 0
    met: int = 0


class Injection:
    """Fault profiles under way. The first one that is due is the one that an attempt meets."""

    __slots__ = ("_counts", "_started_at", "profiles")

    def __init__(self, profiles: Iterable[FaultProfile], started_at: float = 0.0) -> None:
        self.profiles = tuple(profiles)
        self._started_at = started_at
        self._counts = [_Count() for _ in self.profiles]

    def meet(self, provider: str, model: str, now: float) -> FaultProfile | None:
        """What the next attempt on a route meets; None for nothing. Counts it."""
        for profile, count in zip(self.profiles, self._counts, strict=True):
            if not profile.is_about(provider, model) or self._is_spent(profile.when, count, now):
                continue
            number = count.seen - profile.when.after
            count.seen += 1
            if number >= 0 and profile.when.includes(number):
                count.met += 1
                return profile
        return None

    @property
    def met(self) -> tuple[int, ...]:
        """How many attempts met each profile, in their order."""
        return tuple(count.met for count in self._counts)

    def is_over(self, now: float) -> bool:
        """Whether no attempt can meet anything any more."""
        return all(
            self._is_spent(profile.when, count, now) for profile, count in zip(self.profiles, self._counts, strict=True)
        )

    def _is_spent(self, when: When, count: _Count, now: float) -> bool:
        if when.seconds is not None and now - self._started_at >= when.seconds:
            return True
        return when.times is not None and count.met >= when.times


# -- what a provider would say

_ERRORS: dict[int, tuple[str, str, str | None]] = {
    400: ("The request is malformed.", "invalid_request_error", None),
    401: ("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
    402: ("Insufficient credits.", "insufficient_quota", "insufficient_quota"),
    403: ("You are not allowed to use this model.", "invalid_request_error", None),
    404: ("The model does not exist or you do not have access to it.", "invalid_request_error", "model_not_found"),
    408: ("The request took too long to arrive.", "timeout", None),
    422: ("The request is well formed and means nothing.", "invalid_request_error", None),
    429: ("Rate limit reached for requests", "requests", "rate_limit_exceeded"),
    503: ("The server is overloaded or not ready yet.", "server_error", None),
}


def answer(
    status: int,
    *,
    retry_after: float | None = None,
    message: str | None = None,
    code: str | None = None,
    headers: Iterable[tuple[str, str]] = (),
    body: bytes | None = None,
) -> Outcome:
    """An error answer of that status in OpenAI's shape; `retry_after` in seconds becomes its header.

    With a `body` that is sent as it is. Raises `ValueError` for what is no HTTP status.
    """
    if not 100 <= status <= 999:
        raise ValueError(f"status: an HTTP status has three digits, got {status!r}")
    said, kind, known = _ERRORS.get(status, (f"The server answered {status}.", "server_error", None))
    error = {"message": message or said, "type": kind, "param": None, "code": code or known}
    found = {"content-type": "application/json", MARK: str(status)}
    if retry_after is not None:
        found["retry-after"] = f"{retry_after:g}"
    found.update((name.lower(), value) for name, value in headers)
    return Outcome(status, found, json.dumps({"error": error}).encode() if body is None else body)


def page(status: int, title: str = "Bad gateway") -> Outcome:
    """What a proxy in front of a provider says: a page in HTML."""
    html = f"<!DOCTYPE html><html><head><title>{title}</title></head><body><h1>{status} {title}</h1></body></html>"
    return Outcome(status, {"content-type": "text/html; charset=utf-8", MARK: str(status)}, html.encode())


def broken(fault: Fault) -> Outcome:
    """No answer at all: the connection failed, was reset, or ran into a limit."""
    return Outcome(fault=fault, detail="injected fault")


def _draw(seed: int, number: int) -> float:
    """A number in [0, 1) that looks like chance and is the same each time."""
    digest = blake2b(f"{seed}:{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
