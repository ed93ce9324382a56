"""A call's view of the health that all calls share, and what it does to it. The board's lock is held."""

from __future__ import annotations

from collections.abc import Sequence

from shim._core.health import Permits, RouteHealth, acquire, prove, settle
from shim._core.outcome import Judgement
from shim._core.plan import FamilyState, Slot
from shim._run.records import Running
from shim._run.system import Clock
from shim.events import BreakerChanged, BreakerState, Purpose


class Shared:
    """What the machine asks; and permits taken and given back, with the breakers that moved by it in `changes`.

    Apart from the flight, so that neither holds the other and both are freed at once.
    """

    __slots__ = ("_clock", "_slots", "_state", "changes")

    def __init__(self, slots: Sequence[Slot], state: FamilyState, clock: Clock) -> None:
        self._slots = slots
        self._state = state
        self._clock = clock
        self.changes: list[BreakerChanged] = []

    # -- what the machine asks

    def ready_at(self, lane: int, now: float) -> float:
        slot = self._slots[lane]
        return slot.route.health.ready_at(slot.key, now)

    def retry_at(self, lane: int, now: float) -> float:
        slot = self._slots[lane]
        return slot.route.health.retry_at(slot.key, now)

    def probe_at(self, lane: int, now: float) -> float:
        slot = self._slots[lane]
        return slot.route.health.probe_at(slot.key, now)

    def take_retry(self) -> bool:
        return self._state.retry_budget.withdraw()

    def take_hedge(self) -> bool:
        return self._state.hedge_budget.withdraw()

    # -- what a call does

    def earn(self) -> None:
        """A call begins: it earns a share of a retry and of a hedge."""
        self._state.retry_budget.deposit()
        self._state.hedge_budget.deposit()

    def refund(self, purpose: Purpose) -> None:
        """Give back what an attempt took from a budget before it turned out that it could not start."""
        if purpose is Purpose.HEDGE:
            self._state.hedge_budget.refund()
        elif purpose is Purpose.RETRY:
            self._state.retry_budget.refund()

    def take_permits(self, slot: Slot, now: float, *, early: bool) -> Permits | None:
        """Leave to try a route, None when it is no longer free."""
        health = slot.route.health
        before = health.breaker.state, health.provider.breaker.state
        permits = acquire(health, slot.key, now, early=early)
        self._notice(health, before, now)
        return permits

    def prove(self, running: Running, now: float) -> None:
        """A stream brought its first content: it may last for minutes, and a probe must not keep all others waiting."""
        health = running.slot.route.health
        before = health.breaker.state, health.provider.breaker.state
        running.permits = prove(health, running.permits)
        self._notice(health, before, now)

    def put_down(self, running: Running, judgement: Judgement, now: float) -> None:
        """What the verdict on an attempt does to the health of its route, key and provider."""
        health = running.slot.route.health
        before = health.breaker.state, health.provider.breaker.state
        seconds = now - running.started
        settle(
            health,
            running.slot.key,
            running.permits,
            judgement,
            seconds,
            now,
            self._clock.jitter(),
            is_rehearsal=running.is_rehearsal,
        )
        self._notice(health, before, now)

    def moved(self) -> list[BreakerChanged]:
        """The breakers that moved since this was asked last."""
        changes, self.changes = self.changes, []
        return changes

    def _notice(self, health: RouteHealth, before: tuple[BreakerState, BreakerState], now: float) -> None:
        if before == (health.breaker.state, health.provider.breaker.state):
            return
        wall = self._clock.wall()
        breakers = ((health.name, health.breaker), (health.provider.name, health.provider.breaker))
        for (subject, breaker), was in zip(breakers, before, strict=True):
            if breaker.state is not was:
                until = wall + (breaker.open_until - now) if breaker.state is BreakerState.OPEN else None
                is_rehearsal = health.kept is not None
                self.changes.append(BreakerChanged(subject, was, breaker.state, until, wall, is_rehearsal))
