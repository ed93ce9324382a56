"""Rehearsals: attempts meet faults that no provider made, through the whole machine; then health is as before."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, assert_never

from shim._core import faults
from shim._core.aside import bring_back, set_aside
from shim._core.budget import Budget
from shim._core.faults import FaultProfile, Hang, Injection, Instead, When
from shim._core.health import ProviderHealth, RouteHealth
from shim._core.outcome import Fault, Outcome
from shim._run.exchange import Pause, Reply
from shim._run.records import tell_breaker
from shim._run.system import Clock
from shim.events import BreakerChanged, BreakerState, Switch, Switched

if TYPE_CHECKING:
    from shim._run.board import Board
    from shim._run.records import Running

FAULTS = {
    "timeout": Fault.TIMEOUT,
    "connection": Fault.CONNECT,
    "reset": Fault.RESET,
    "tls": Fault.TLS,
}
_LIMITS = (Fault.TIMEOUT, Fault.FIRST_CHUNK_TIMEOUT, Fault.STALL)


@dataclass(frozen=True, slots=True)
class RehearsalStatus:
    """A rehearsal under way: whom it is about ("" for all), what they meet, how many attempts have met it and how many
    more will (None: all), and when it ends (unix seconds, None: when it is ended)."""

    subject: str
    what: str
    met: int
    left: int | None
    ends_at: float | None


class Rehearsal:
    """Made by `Router.rehearse`. From `begin` to `end`, or inside `with`, attempts on its subject meet a fault.

    They are judged, counted on breakers and told as real ones would be, and marked as rehearsal wherever they are told.
    When it ends, breakers and cooldowns are what they were before, moved only by what real attempts did meanwhile.
    """

    def __init__(self, board: Board, profile: FaultProfile) -> None:
        self._board = board
        self._profile = profile
        self._injection: Injection | None = None
        self._ends_at: float | None = None
        self._budgets: list[tuple[Budget, float]] = []

    @property
    def subject(self) -> str:
        """The route or provider that it is about."""
        return self._profile.subject

    @property
    def what(self) -> str:
        """What attempts meet, in words."""
        return self._profile.name

    @property
    def met(self) -> int:
        """How many attempts met it."""
        return 0 if self._injection is None else self._injection.met[0]

    @property
    def is_under_way(self) -> bool:
        """Whether it has begun and not ended."""
        end_due(self._board)
        return self in self._board.rehearsals

    def begin(self) -> Self:
        """From now on. A rehearsal that is under way begins anew."""
        self.end()
        board, now = self._board, self._board.clock.now()
        seconds = self._profile.when.seconds
        with board.lock:
            self._injection = Injection([self._profile], now)
            self._ends_at = None if seconds is None else now + seconds
            for provider, routes in _affected(board, self.subject):
                set_aside(provider, routes)
            budgets = [one for state in board.families.values() for one in (state.retry_budget, state.hedge_budget)]
            self._budgets = [(budget, budget.tokens) for budget in budgets]
            board.rehearsals = (*board.rehearsals, self)
        board.bus.emit(Switched(self.subject, Switch.REHEARSAL, board.clock.wall()))
        return self

    def end(self) -> None:
        """Health is again what it was. Does nothing when it is not under way."""
        board = self._board
        with board.lock:
            if self not in board.rehearsals:
                return
            board.rehearsals = tuple(other for other in board.rehearsals if other is not self)
            still = {id(provider) for other in board.rehearsals for provider, _ in _affected(board, other.subject)}
            over = [pair for pair in _affected(board, self.subject) if id(pair[0]) not in still]
            before = [_states(*pair) for pair in over]
            for provider, routes in over:
                bring_back(provider, routes)
            for budget, tokens in self._budgets:  # what it spent on retries and hedges is given back
                budget.tokens = max(budget.tokens, tokens)
            after = [_states(*pair) for pair in over]
        at = board.clock.wall()
        for was, now in zip(before, after, strict=True):
            for name, state in now.items():
                if was[name] is not state:
                    change = BreakerChanged(name, was[name], state, None, at, is_rehearsal=True)
                    tell_breaker(change)
                    board.bus.emit(change)
        board.bus.emit(Switched(self.subject, Switch.REHEARSAL_OVER, at))

    def is_due(self, now: float) -> bool:
        """Whether its time is over."""
        return self._ends_at is not None and now >= self._ends_at

    def meet(self, running: Running, now: float) -> FaultProfile | None:
        """What an attempt meets. The board's lock is held."""
        route = running.slot.route.config
        return None if self._injection is None else self._injection.meet(route.provider, route.model, now)

    def status(self) -> RehearsalStatus:
        """As it stands."""
        times = self._profile.when.times
        clock = self._board.clock
        ends_at = None if self._ends_at is None else clock.wall() + (self._ends_at - clock.now())
        return RehearsalStatus(self.subject, self.what, self.met, None if times is None else times - self.met, ends_at)

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(self, *error: object) -> None:
        self.end()

    def __repr__(self) -> str:
        state = "under way" if self.is_under_way else "not under way"
        return f"<shim rehearsal of {self.subject or 'all'}: {self.what}; {state}, met by {self.met} attempts>"


def profile_of(
    subject: str,
    *,
    status: int | None,
    retry_after: float | None,
    fault: str | None,
    delay: float | None,
    times: int | None,
    seconds: float | None,
) -> FaultProfile:
    """The fault that arguments of `Router.rehearse` name. Raises ValueError for what means nothing."""
    if sum(given is not None for given in (status, fault, delay)) != 1:
        raise ValueError("rehearse: name one of status (429), fault ('timeout') and delay (seconds)")
    for name, value in (("retry_after", retry_after), ("delay", delay), ("seconds", seconds), ("times", times)):
        if value is not None and not value > 0:
            raise ValueError(f"rehearse: {name} must be above 0, is {value!r}")
    if retry_after is not None and status is None:
        raise ValueError("rehearse: retry_after goes with a status")
    when = When(times=times, seconds=seconds)
    if delay is not None:
        return FaultProfile(Hang(delay), subject, when, f"{delay:g} s late")
    if fault is not None:
        if fault not in FAULTS:
            raise ValueError(f"rehearse: no fault {fault!r}; known: {', '.join(FAULTS)}")
        return FaultProfile(Instead(Outcome(fault=FAULTS[fault], detail="rehearsal")), subject, when, fault)
    assert status is not None
    if not 400 <= status <= 599:
        raise ValueError(f"rehearse: status must be an error from 400 to 599, is {status}")
    outcome = faults.answer(status, retry_after=retry_after, message=f"rehearsal of HTTP {status}")
    told = "" if retry_after is None else f", retry after {retry_after:g} s"
    return FaultProfile(Instead(outcome), subject, when, f"HTTP {status}{told}")


def end_due(board: Board) -> None:
    """End the rehearsals whose time is over. Nobody waits for that: whoever looks or calls next does it."""
    if board.rehearsals:
        now = board.clock.now()
        for rehearsal in board.rehearsals:
            if rehearsal.is_due(now):
                rehearsal.end()


def meet(board: Board, running: Running) -> FaultProfile | None:
    """What the next exchange of an attempt meets, None for the provider itself."""
    now = board.clock.now()
    with board.lock:
        for rehearsal in board.rehearsals:
            met = None if rehearsal.is_due(now) else rehearsal.meet(running, now)
            if met is not None:
                return met
    return None


def carry_out(met: FaultProfile, until: float, clock: Clock) -> Generator[Pause, object, Reply | None]:
    """The reply that a rehearsed attempt gets; None where the provider is asked after all. A limit is waited for, as
    it would be for real."""
    effect = met.effect
    left = max(0.0, until - clock.now())
    match effect:
        case Instead(outcome=outcome):
            if outcome.fault in _LIMITS:
                yield Pause(left)
            return Reply(outcome)
        case Hang(seconds=seconds):
            yield Pause(min(seconds, left))
            return Reply(Outcome(fault=Fault.TIMEOUT, detail="rehearsal")) if seconds >= left else None
        case faults.Cut() | faults.Drip() | faults.ErrorEvent() | faults.BadRows():
            return None  # `profile_of` makes none of these
        case _:
            assert_never(effect)


def _affected(board: Board, subject: str) -> list[tuple[ProviderHealth, list[RouteHealth]]]:
    """The providers that a rehearsal may touch, each with all of its routes: a key's cooldown concerns them all."""
    found = []
    for provider in board.providers.values():
        routes = [
            route.health
            for state in board.families.values()
            for route in state.routes
            if route.health.provider is provider
        ]
        if subject in ("", provider.name, *(route.name for route in routes)):
            found.append((provider, routes))
    return found


def _states(provider: ProviderHealth, routes: list[RouteHealth]) -> dict[str, BreakerState]:
    return {provider.name: provider.breaker.state, **{route.name: route.breaker.state for route in routes}}
