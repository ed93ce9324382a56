"""How much work each route takes just now: additive increase, halving on a rate limit, pauses. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from shim.embed.limits import Limits
from shim.embed.trouble import Failure, Trouble

FIRST_IN_FLIGHT = 4
_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.5, 30.0
_SPOILT_FREELY = 8
"""Failures in a row that are put down to what was in the batches, before a route that gets nothing right slows down."""
_BROKEN_AT_MOST = 8


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a provider's rate-limit headers leave: how many requests and tokens, and in how many seconds all is back."""

    requests: int | None = None
    request_reset: float | None = None
    tokens: int | None = None
    token_reset: float | None = None

    def pause(self, in_flight: int, tokens_each: int) -> float:
        """Seconds to wait before another request of this size: 0 while there is room for what is in flight too."""
        waits = [0.0]
        if self.requests is not None and self.request_reset and self.requests <= in_flight:
            waits.append(
                self.request_reset / max(1, in_flight - self.requests + 1) if self.requests else self.request_reset
            )
        if self.tokens is not None and self.token_reset and self.tokens < tokens_each * (in_flight + 1):
            waits.append(self.token_reset)
        return max(waits)


@dataclass(slots=True)
class Lane:
    """One route as the job sees it. Instants are seconds on the job's clock.

    `tier` is the route's priority: a higher number serves when no lower one can. `price` is US dollars a token.
    """

    route: str
    tier: int
    weight: float
    limits: Limits
    most: int
    price: float | None = None
    window: float = field(init=False)
    in_flight: int = 0
    paused_until: float = 0.0
    pause_is_told: bool = False
    failures_in_a_row: int = 0
    spoilt_in_a_row: int = 0
    last_ok_at: float | None = None
    is_out: bool = False
    trouble: str = ""
    rows: int = 0

    def __post_init__(self) -> None:
        self.window = float(min(FIRST_IN_FLIGHT, self.most))

    def can_take(self, now: float) -> bool:
        """Whether a request may start."""
        return not self.is_held(now) and self.in_flight < int(self.window)

    def is_held(self, now: float) -> bool:
        """Whether the provider, not our own modesty, keeps it from taking work."""
        return self.is_out or now < self.paused_until

    @property
    def headroom(self) -> float:
        """How much more it would take, by weight."""
        return (int(self.window) - self.in_flight) * self.weight

    def succeeded(self, now: float) -> None:
        """One more may be in flight after about as many good answers as are in flight now."""
        self.window = min(float(self.most), self.window + 1 / self.window)
        self.forgive()
        self.last_ok_at = now
        self.trouble = ""

    def forgive(self) -> None:
        """The job got on, be it by giving up a text that was at fault."""
        self.failures_in_a_row = self.spoilt_in_a_row = 0

    def failed(self, failure: Failure, now: float, jitter: float, *, is_the_batchs: bool = False) -> None:
        """Slow down, pause or leave, as the failure asks; at first not for one that is the batch's own."""
        self.trouble = failure.message
        if is_the_batchs or failure.trouble is Trouble.SPOILT:
            if now >= self.paused_until:
                self.spoilt_in_a_row += 1
            if self.spoilt_in_a_row > _SPOILT_FREELY:
                self._back_off(self.spoilt_in_a_row - _SPOILT_FREELY, now, jitter)
            return
        match failure.trouble:
            case Trouble.LIMITED:
                if now >= self.paused_until:  # those in flight together meet the same limit: it counts once
                    self.window = max(1.0, self.window / 2)
                self._pause(now, failure.retry_in if failure.retry_in is not None else 1.0, told=failure.told)
            case Trouble.BARRED:
                if failure.retry_in is None:
                    self.is_out = True
                else:
                    self._pause(now, failure.retry_in, told=failure.told)
            case Trouble.DOWN:
                if now >= self.paused_until:  # those in flight together fail together
                    self.failures_in_a_row += 1
                if failure.reason == "timeout":
                    self.window = max(1.0, self.window / 2)
                self._back_off(self.failures_in_a_row, now, jitter)
                if failure.told and failure.retry_in is not None:  # a 503 with Retry-After
                    self._pause(now, failure.retry_in, told=True)
            case Trouble.BROKEN:
                self.failures_in_a_row += 1
                # All that were in flight on a key that was withdrawn fail together; the next ones have another key.
                self.is_out = self.is_out or self.failures_in_a_row >= max(_BROKEN_AT_MOST, 2 * self.most)
            case Trouble.UNABLE:
                self.is_out = True
            case Trouble.UNSUITABLE | Trouble.REFUSED:
                pass  # about the batch

    def _back_off(self, times: int, now: float, jitter: float) -> None:
        backoff = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2 ** min(max(times, 1) - 1, 10))
        self._pause(now, backoff * (0.5 + jitter / 2), told=False)

    def _pause(self, now: float, seconds: float, *, told: bool) -> None:
        until = now + max(0.0, seconds)
        if until > self.paused_until:  # what was told holds, whatever is guessed on top of it
            self.pause_is_told = told or (self.pause_is_told and now < self.paused_until)
            self.paused_until = until

    def paced(self, allowance: Allowance, tokens_each: int, now: float) -> None:
        """Keep within what the provider says is left."""
        wait = allowance.pause(self.in_flight, tokens_each)
        if wait:
            self._pause(now, wait, told=True)
