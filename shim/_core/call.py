"""One call as a pure state machine: what happened goes in, what to do comes out.

The law, whatever the mode:
- lanes (a route with one of its keys) are tried in the order given; a route is tried once, except that a fault of a key
  moves on to the next key of the same route;
- then up to `retries` further attempts, each on the lane that is back soonest, after its cooldown or a backoff, if that
  falls inside the deadline and the retry budget allows it;
- if no lane is ready at the start and some are only out by their breaker, the one due soonest gets one probe;
- no attempt gets more than its fair share of what is left of the deadline; the last route gets all of it;
- at most `width` attempts are in flight; another one is added after `delay` seconds without an answer (None: never);
- the first `ok` or `fatal` verdict ends the call; after that nothing is in flight.

Sequential is `width=1`; hedged is `width=2` with a delay; a race is `delay=0`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, assert_never

from shim.events import Purpose, Scope, Verdict

FOREVER = float("inf")
BACKOFF_FIRST = 0.5  # seconds; the official client's own INITIAL_RETRY_DELAY and MAX_RETRY_DELAY
BACKOFF_MAX = 8.0


class Lane(NamedTuple):
    """One way to serve the call: a route (its place in the plan) with one of its keys."""

    route: int
    key: int
    provider: str
    model: str = ""


class Start(NamedTuple):
    """Begin attempt `number` on `lane`; it has until `until` (an instant). `early` probes an open breaker."""

    number: int
    lane: int
    until: float
    purpose: Purpose
    early: bool = False


class Cancel(NamedTuple):
    """Attempt `number` lost: cancel it and close its connection."""

    number: int


class Wait(NamedTuple):
    """Nothing to do before the instant `until`, then call `on_wake`. An attempt that ends earlier comes first."""

    until: float


class End(str, Enum):
    """How the machine ended."""

    OK = "ok"
    FATAL = "fatal"
    CANNOT = "cannot"  # every route said that it cannot serve this request: the last one's own answer counts
    EXHAUSTED = "exhausted"


class Finish(NamedTuple):
    """The call is over; `number` is the attempt whose answer counts, None when there was none."""

    end: End
    number: int | None
    retry_at: float = FOREVER


Action = Start | Cancel | Wait | Finish


class Health(Protocol):
    """What the machine asks of the shared state; the instants are on the machine's clock."""

    def ready_at(self, lane: int, now: float) -> float:
        """When the lane may be used: `now` or earlier when at once, infinity when not foreseeable."""

    def retry_at(self, lane: int, now: float) -> float:
        """When a retry may use the lane: as `ready_at`, but what we only guessed does not bar it."""

    def probe_at(self, lane: int, now: float) -> float:
        """When its breaker lets a probe through, if the breaker alone keeps it out; else infinity."""

    def take_retry(self) -> bool:
        """Withdraw one retry from the budget."""

    def take_hedge(self) -> bool:
        """Withdraw one hedge from the budget."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The numbers of a call. `deadline` is an instant, the rest are seconds and counts."""

    deadline: float = FOREVER
    attempt_timeout: float = 30.0
    retries: int = 2
    width: int = 1
    delay: float | None = None
    wait_when_exhausted: bool = False


class Machine:
    """Feed it `begin` once, then `on_verdict`, `on_denied` and `on_wake` as things happen, until a `Finish` comes."""

    __slots__ = (
        "_cannot_only",
        "_dead",
        "_done",
        "_flying",
        "_health",
        "_hedge_at",
        "_is_owed",
        "_jitter",
        "_lanes",
        "_last",
        "_limits",
        "_rest_until",
        "_retries",
        "_started",
        "_tried",
    )

    def __init__(
        self, lanes: Sequence[Lane], limits: Limits, health: Health, jitter: Callable[[], float] = lambda: 0.5
    ) -> None:
        self._lanes = lanes
        self._limits = limits
        self._health = health
        self._jitter = jitter
        self._dead: set[int] = set()  # lanes that cannot serve this call at all
        self._tried: set[int] = set()  # lanes whose turn in the first pass is over
        self._flying: dict[int, int] = {}  # attempt number -> lane
        self._started = 0
        self._retries = 0
        self._last: int | None = None
        self._cannot_only = True
        self._hedge_at = FOREVER
        self._rest_until = 0.0
        self._is_owed = False  # the next attempt follows a wait for a cooldown and spends no retry
        self._done = False

    def begin(self, now: float) -> list[Action]:
        """The first actions of the call."""
        lane = self._next_lane(now)
        early = lane is None
        if lane is None:
            lane = self._soonest_probe(now)
        if lane is None:
            return self._again(now)
        actions: list[Action] = [self._start(lane, now, Purpose.FIRST, early=early)]
        if self._limits.delay == 0.0:
            while (extra := self._free_lane(now)) is not None:
                actions.append(self._start(extra, now, Purpose.RACE))
        return actions + self._watch()

    def on_verdict(
        self, number: int, verdict: Verdict, scope: Scope, now: float, *, again: bool = False
    ) -> list[Action]:
        """Attempt `number` was judged. Late news of a call that is over brings no actions.

        `again` asks the same lane once more at once: the request was written anew for what the route rejected in it.
        """
        lane = self._flying.pop(number, None)
        if self._done or lane is None:
            return []
        self._last = number
        if again and now < self._limits.deadline:
            return [self._start(lane, now, Purpose.RETRY), *self._watch()]
        match verdict:
            case Verdict.OK:
                return self._finish(End.OK, number)
            case Verdict.FATAL:
                return self._finish(End.FATAL, number)
            case Verdict.TRANSIENT:
                self._cannot_only = False
            case Verdict.BROKEN:
                self._cannot_only = False
                self._dead.update(self._alike(lane, scope))
            case Verdict.CANNOT:
                self._dead.update(self._alike(lane, Scope.MODEL))
                if scope is Scope.MODEL:
                    self._dead.update(self._same_model(lane))
            case _:
                assert_never(verdict)
        self._tried.update(self._alike(lane, scope))
        return self._go_on(now)

    def on_denied(self, number: int, now: float) -> list[Action]:
        """The lane was no longer free when attempt `number` was to begin: no exchange took place."""
        lane = self._flying.pop(number, None)
        if self._done or lane is None:
            return []
        self._tried.add(lane)
        return self._go_on(now)

    def on_wake(self, now: float) -> list[Action]:
        """An instant that a `Wait` named has come."""
        if self._done:
            return []
        if now >= self._limits.deadline:
            return self._finish(End.EXHAUSTED, self._last, self._soonest_lane(now)[1])
        if not self._flying:
            return self._again(now) if now >= self._rest_until else [Wait(self._rest_until)]
        actions: list[Action] = []
        if now >= self._hedge_at:
            lane = self._free_lane(now)
            if lane is not None and self._health.take_hedge():
                actions.append(self._start(lane, now, Purpose.HEDGE))
            else:
                self._hedge_at = FOREVER
        return actions + self._watch()

    @property
    def in_flight(self) -> tuple[int, ...]:
        """Numbers of the attempts that have begun and not ended."""
        return tuple(self._flying)

    # -- what comes next

    def _go_on(self, now: float) -> list[Action]:
        """An attempt failed: the next lane of the first pass, or what the others in flight bring, or a retry."""
        actions: list[Action] = []
        lane = self._free_lane(now) if now < self._limits.deadline else None
        if lane is not None:
            actions.append(self._start(lane, now, Purpose.FALLBACK))
        if self._flying:
            return actions + self._watch()
        self._rest_until = now + self._backoff()
        return self._again(now)

    def _again(self, now: float) -> list[Action]:
        """The first pass is over and nothing is in flight: retry, wait, or give up."""
        limits = self._limits
        lane, back_at = self._soonest_lane(now)
        at = max(back_at, self._rest_until)
        waits = limits.wait_when_exhausted and (back_at > now or self._retries >= limits.retries)
        spent = self._retries >= limits.retries and not (waits or self._is_owed)
        if lane is None or at >= limits.deadline or spent:
            # A lane that was never asked might still serve it: only when all said so is it the request's own fault.
            cannot = self._cannot_only and self._last is not None and len(self._dead) == len(self._lanes)
            end = End.CANNOT if cannot else End.EXHAUSTED
            return self._finish(end, self._last, back_at)
        if at > now:
            self._is_owed = waits
            self._rest_until = at
            return [Wait(at)]
        if not (self._is_owed or waits):
            if self._started and not self._health.take_retry():
                return self._finish(End.EXHAUSTED, self._last, back_at)
            self._retries += 1
        self._is_owed = False
        purpose = Purpose.RETRY if self._started else Purpose.FIRST
        return [self._start(lane, now, purpose, early=self._health.ready_at(lane, now) > now), *self._watch()]

    def _watch(self) -> list[Action]:
        """While attempts are in flight: wake for the next hedge or at the deadline."""
        if self._limits.width == 1:
            return []  # the one attempt ends by itself: its own limit is within the deadline
        full = len(self._flying) >= self._limits.width
        at = min(FOREVER if full else self._hedge_at, self._limits.deadline)
        return [Wait(at)] if at < FOREVER else []

    # -- lanes

    def _free_lane(self, now: float) -> int | None:
        return self._next_lane(now) if len(self._flying) < self._limits.width else None

    def _next_lane(self, now: float) -> int | None:
        """The first lane of the first pass that is ready and whose route is not in flight."""
        flying = {self._lanes[lane].route for lane in self._flying.values()} if self._flying else ()
        for lane, this in enumerate(self._lanes):
            if lane in self._tried or lane in self._dead or this.route in flying:
                continue
            if self._health.ready_at(lane, now) <= now:
                return lane
        return None

    def _soonest_probe(self, now: float) -> int | None:
        due = [(self._health.probe_at(lane, now), lane) for lane in range(len(self._lanes))]
        at, lane = min(due, default=(FOREVER, 0))
        return lane if at < FOREVER else None

    def _soonest_lane(self, now: float) -> tuple[int | None, float]:
        due = [(max(self._back_at(lane, now), now), lane) for lane in range(len(self._lanes)) if lane not in self._dead]
        at, lane = min(due, default=(FOREVER, 0))
        return (lane, at) if at < FOREVER else (None, FOREVER)

    def _back_at(self, lane: int, now: float) -> float:
        """A call that has asked somebody may retry on a guess; one that asked nobody waits as for a first choice."""
        return self._health.retry_at(lane, now) if self._started else self._health.ready_at(lane, now)

    def _alike(self, lane: int, scope: Scope) -> list[int]:
        """The lanes that a failure of this scope speaks for, besides what the shared state makes of it."""
        this = self._lanes[lane]
        match scope:
            case Scope.KEY | Scope.KEY_MODEL | Scope.ACCOUNT:
                return [lane]
            case Scope.MODEL | Scope.REQUEST:
                return [i for i, other in enumerate(self._lanes) if other.route == this.route]
            case Scope.PROVIDER:
                return [i for i, other in enumerate(self._lanes) if other.provider == this.provider]
            case _:
                assert_never(scope)

    def _same_model(self, lane: int) -> list[int]:
        """Lanes of other hosts of the same model: what is beyond the model itself is beyond them all."""
        model = self._lanes[lane].model
        return [i for i, other in enumerate(self._lanes) if other.model == model]

    def _start(self, lane: int, now: float, purpose: Purpose, *, early: bool = False) -> Start:
        self._started += 1
        self._flying[self._started] = lane
        delay = self._limits.delay
        self._hedge_at = FOREVER if not delay else now + delay
        return Start(self._started, lane, now + self._share(lane, now), purpose, early)

    def _share(self, lane: int, now: float) -> float:
        """Seconds that an attempt may take: its fair share of what is left, all of it for the last route.

        Racers run side by side and share by rounds; a hedge is not certain to start, so a hedged call shares by routes.
        """
        limits = self._limits
        left = limits.deadline - now
        if left >= limits.attempt_timeout * len(self._lanes):
            return min(limits.attempt_timeout, left)
        flying = {self._lanes[lane].route, *(self._lanes[other].route for other in self._flying.values())}
        waiting = {
            other.route
            for i, other in enumerate(self._lanes)
            if other.route not in flying
            and i not in self._tried
            and i not in self._dead
            and self._health.ready_at(i, now) <= now
        }
        abreast = limits.width if limits.delay == 0.0 else 1
        rounds = -(-(len(waiting) + 1) // abreast)
        return min(limits.attempt_timeout, left / rounds)

    def _backoff(self) -> float:
        return min(BACKOFF_MAX, BACKOFF_FIRST * 2.0**self._retries) * (1.0 - 0.25 * self._jitter())

    def _finish(self, end: End, number: int | None, retry_at: float = FOREVER) -> list[Action]:
        self._done = True
        actions: list[Action] = [Cancel(other) for other in self._flying]
        self._flying.clear()
        actions.append(Finish(end, number, retry_at))
        return actions
