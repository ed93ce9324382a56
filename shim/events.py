"""The public records: what an attempt and a call were, and the events that observers get.

All records are frozen. Instants (`*_at`) are unix seconds, durations are float seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Kind(str, Enum):
    """What a family of models does; decided by the path of the request."""

    EMBEDDING = "embedding"
    CHAT = "chat"
    IMAGE = "image"
    SPEECH = "speech"
    TRANSCRIPTION = "transcription"
    MODERATION = "moderation"
    RERANK = "rerank"


class Verdict(str, Enum):
    """The judgement of an attempt. What each means is told in `docs/verdicts.md`."""

    OK = "ok"
    TRANSIENT = "transient"
    CANNOT = "cannot"
    BROKEN = "broken"
    FATAL = "fatal"


class Scope(str, Enum):
    """Whom a verdict is about, narrowest first: what is left alone while it lasts."""

    REQUEST = "request"
    KEY_MODEL = "key+model"
    KEY = "key"
    ACCOUNT = "account"
    MODEL = "model"
    PROVIDER = "provider"


class BreakerState(str, Enum):
    """States of a circuit breaker, as resilience4j and Polly name them."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"
    FORCED_OPEN = "forced open"


class Purpose(str, Enum):
    """Why an attempt was made."""

    FIRST = "first"
    FALLBACK = "fallback"
    RETRY = "retry"
    HEDGE = "hedge"
    RACE = "race"
    SPACE_CHECK = "space check"


class Ending(str, Enum):
    """How a call ended."""

    OK = "ok"
    EXHAUSTED = "exhausted"
    REFUSED = "refused"
    """The request itself was at fault: the provider's own error reached the caller."""
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    """A stream failed after its first content had reached the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One HTTP exchange on one route.

    `verdict` is None for an attempt that was cancelled: nobody's failure. `key` is an alias, never a key.
    `first_byte` and `duration` are seconds since the attempt began. `cost` is US dollars where the route has a price.
    `is_rehearsal` says that it met a fault of `Router.rehearse`: it counts in no figure.
    `retry_at` is the unix time at which the route is back, `is_told` whether the provider itself said so.
    """

    number: int
    family: str
    provider: str
    model: str
    key: str
    purpose: Purpose
    verdict: Verdict | None
    scope: Scope | None
    reason: str
    message: str
    status: int | None
    started_at: float
    duration: float
    first_byte: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    breaker: BreakerState = BreakerState.CLOSED
    retry_at: float | None = None
    is_rehearsal: bool = False
    is_told: bool = False

    @property
    def route(self) -> str:
        """The short form `provider/model`, as the configuration writes it."""
        return f"{self.provider}/{self.model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The user's request, however many attempts it took. `winner` is the number of the attempt that was returned.

    `mode` is the policy's, or `job` for a batch of a dataset: what fails there is asked for again by the job.
    """

    id: str
    family: str
    kind: Kind
    mode: str
    ending: Ending
    started_at: float
    duration: float
    attempts: tuple[Attempt, ...]
    winner: int | None = None
    retry_at: float | None = None


@dataclass(frozen=True, slots=True)
class CallStarted:
    call_id: str
    family: str
    kind: Kind
    at: float


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    call_id: str
    number: int
    family: str
    route: str
    purpose: Purpose
    at: float


@dataclass(frozen=True, slots=True)
class AttemptFinished:
    call_id: str
    attempt: Attempt
    then: str
    """What happens next, in words: `next: lab/bge-m3`, `retry in 0.50 s`, `answer`, `exhausted`, `raise`."""


@dataclass(frozen=True, slots=True)
class BreakerChanged:
    subject: str
    """`provider/model` of a route, or the name of a provider."""
    before: BreakerState
    after: BreakerState
    until: float | None
    at: float
    is_rehearsal: bool = False
    """A rehearsal is under way on it: when that ends, it is as it was before."""


@dataclass(frozen=True, slots=True)
class CallFinished:
    call: Call


class JobState(str, Enum):
    """Where a dataset job is."""

    RUNNING = "running"
    WAITING = "waiting"
    """No route takes work just now: rate limited, or out. `JobProgress.waiting_until` says until when."""
    DONE = "done"
    STOPPED = "stopped"
    """At a limit, or because no route is left. What is done is kept, and running it again goes on from there."""
    CANCELLED = "cancelled"
    """By the user: the stop button, Ctrl-C, a cancelled task. What is done is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """How far a dataset job is: told to observers a few times a second, and once at its end.

    `rows` is None while the length of the source is unknown. `done` counts rows that have their vector, of which
    `cached` came from the store and `duplicates` share another row's; `failed` counts error rows. `tokens` and `cost`
    (US dollars, None where no route has a price) are of this run. `elapsed` and `eta` are seconds, `rate` rows per
    second. `shares` holds rows embedded in this run by route.
    """

    job_id: str
    family: str
    state: JobState
    rows: int | None
    done: int
    failed: int
    cached: int
    duplicates: int
    requests: int
    tokens: int
    cost: float | None
    elapsed: float
    rate: float
    eta: float | None
    in_flight: int
    shares: Mapping[str, int]
    message: str
    """What it waits for, why it stopped, how to resume; "" while it simply runs."""
    waiting_until: float | None
    at: float


class Switch(str, Enum):
    """What an operator did."""

    RESET = "reset"
    FORCED_OPEN = "forced open"
    OFF = "off"
    ON = "on"
    PINNED = "pinned"
    UNPINNED = "unpinned"
    REHEARSAL = "rehearsal"
    REHEARSAL_OVER = "rehearsal over"


@dataclass(frozen=True, slots=True)
class Switched:
    """An operator used a switch of the router. `subject` is a route, a provider, `all`, or `family to route`."""

    subject: str
    switch: Switch
    at: float


Event = CallStarted | AttemptStarted | AttemptFinished | BreakerChanged | CallFinished | JobProgress | Switched


class Observer(Protocol):
    """Anything that is called with each event. What it raises is logged once and never reaches a call."""

    def __call__(self, event: Event, /) -> None: ...
