"""One circuit breaker: a pure state machine. Everything that moves its state is in this file.

closed --(`failures` in a row, or `failure_rate` of a full window)--> open
open --(cooldown over)--> half-open, `probes` permits at a time
half-open --(probe answered)--> closed;  --(probe failed)--> open for twice as long
any --force_open()--> forced open --reset()--> closed

A permit carries the generation in which it was given. An outcome from an older generation moves nothing: it tells of a
time before the breaker last moved. A released permit (a cancelled attempt) counts for nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from shim.events import BreakerState

FOREVER = float("inf")
LOOK_AGAIN = 0.25
"""Seconds after which to ask again while a probe is out: its answer decides, and nobody knows when it comes."""
_BUCKETS = 12


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """When a breaker opens and for how long; all times in seconds."""

    failures: int = 3
    failure_rate: float = 0.5
    window: float = 60.0
    window_min: int = 10
    cooldown: float = 10.0
    max_cooldown: float = 300.0
    probes: int = 1


class Permit(NamedTuple):
    """Leave to make one attempt."""

    generation: int
    is_probe: bool


class Breaker:
    """Give every permit back exactly once: `success`, `failure`, `neutral` or `release`."""

    __slots__ = ("_buckets", "_generation", "_openings", "_probes_out", "_streak", "open_until", "rules", "state")

    def __init__(self, rules: BreakerRules) -> None:
        self.rules = rules
        self.state = BreakerState.CLOSED
        self.open_until = 0.0
        self._generation = 0
        self._streak = 0
        self._openings = 0
        self._probes_out = 0
        self._buckets: list[tuple[int, int, int]] = []  # (bucket number, outcomes, failures), newest last

    def ready_at(self, now: float) -> float:
        """When to ask for the next permit: `now` or earlier when at once, infinity while only an operator can help."""
        match self.state:
            case BreakerState.CLOSED:
                return now
            case BreakerState.OPEN:
                return self.open_until
            case BreakerState.HALF_OPEN:
                return now + LOOK_AGAIN if self._is_probed else self.open_until
            case BreakerState.FORCED_OPEN:
                return FOREVER

    def probe_at(self, now: float) -> float:
        """When a probe would be due; infinity also while those that it lets through are out."""
        return FOREVER if self.state is BreakerState.HALF_OPEN and self._is_probed else self.ready_at(now)

    def acquire(self, now: float, *, early: bool = False) -> Permit | None:
        """A permit, or None. `early` lets a probe through an open breaker before its cooldown is over."""
        if self.state is BreakerState.CLOSED:
            return Permit(self._generation, False)
        if self.state is BreakerState.OPEN and (early or now >= self.open_until):
            self._move(BreakerState.HALF_OPEN)
        # An early probe that was cancelled leaves it half-open with the rest of the cooldown to go.
        is_due = early or now >= self.open_until
        if self.state is BreakerState.HALF_OPEN and is_due and not self._is_probed:
            self._probes_out += 1
            return Permit(self._generation, True)
        return None

    def success(self, permit: Permit, now: float) -> None:
        """The attempt brought a valid answer."""
        if permit.generation != self._generation:
            return
        self._streak = 0
        if permit.is_probe:
            self._close()
        else:
            self._count(now, failed=0)

    def proved(self, permit: Permit) -> Permit:
        """The attempt brought content and goes on, as a stream does: a probe has shown what it was to show, and others
        need not wait for its end. Its permit from now on."""
        if permit.generation != self._generation or not permit.is_probe:
            return permit
        self._close()
        return Permit(self._generation, False)

    def neutral(self, permit: Permit) -> None:
        """The attempt was answered, but says nothing of the route's health (a 400): a probe proved the server up."""
        if permit.generation == self._generation and permit.is_probe:
            self._close()

    def failure(self, permit: Permit, now: float, jitter: float) -> None:
        """The attempt failed. `jitter` in [0, 1) spreads the cooldowns of a breaker that opens again by +-10 %."""
        if permit.generation != self._generation:
            return
        self._streak += 1
        self._count(now, failed=1)
        if permit.is_probe or self._streak >= self.rules.failures or self._rate_is_over(now):
            self._open(now, jitter)

    def release(self, permit: Permit) -> None:
        """The attempt was cancelled: the permit comes back, nothing is counted."""
        if permit.generation == self._generation and permit.is_probe:
            self._probes_out -= 1

    def take_over(self, other: Breaker) -> None:
        """Be as `other` is, as after a rehearsal. Permits that are out move nothing any more."""
        self._generation += 1
        self.state = other.state
        self.open_until = other.open_until
        self._streak = other._streak
        self._openings = other._openings
        self._probes_out = 0
        self._buckets = list(other._buckets)

    def force_open(self) -> None:
        """Take the route out until `reset`."""
        self._move(BreakerState.FORCED_OPEN)

    def reset(self) -> None:
        """Close and forget."""
        self._close()

    @property
    def _is_probed(self) -> bool:
        """Whether as many probes are out as it lets through at a time."""
        return self._probes_out >= self.rules.probes

    def _open(self, now: float, jitter: float) -> None:
        self._openings += 1
        cooldown = min(self.rules.max_cooldown, self.rules.cooldown * 2.0 ** min(self._openings - 1, 60))
        if self._openings > 1:
            cooldown = min(self.rules.max_cooldown, cooldown * (0.9 + 0.2 * jitter))
        self.open_until = now + cooldown
        self._move(BreakerState.OPEN)

    def _close(self) -> None:
        self._openings = 0
        self._move(BreakerState.CLOSED)

    def _move(self, state: BreakerState) -> None:
        self.state = state
        self._generation += 1
        self._streak = 0
        self._probes_out = 0
        if state is BreakerState.CLOSED:
            self._buckets = []

    def _count(self, now: float, *, failed: int) -> None:
        number = int(now / (self.rules.window / _BUCKETS))
        buckets = self._buckets
        if buckets and buckets[-1][0] == number:
            _, outcomes, failures = buckets[-1]
            buckets[-1] = (number, outcomes + 1, failures + failed)
            return
        buckets.append((number, 1, failed))
        if len(buckets) > _BUCKETS:
            del buckets[0]

    def _rate_is_over(self, now: float) -> bool:
        oldest = int(now / (self.rules.window / _BUCKETS)) - _BUCKETS + 1
        recent = [bucket for bucket in self._buckets if bucket[0] >= oldest]
        outcomes = sum(bucket[1] for bucket in recent)
        failures = sum(bucket[2] for bucket in recent)
        return outcomes >= self.rules.window_min and failures >= self.rules.failure_rate * outcomes
