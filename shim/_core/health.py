"""What is known of the health of providers, keys and routes, and what a verdict does to it. Pure; the board locks it.

A cooldown that a provider told (Retry-After, a daily reset) is authoritative: a guess never shortens it, and nobody
probes before it is over. A cooldown that we guessed may be replaced by a later one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import assert_never

from shim._core.breaker import Breaker, Permit
from shim._core.outcome import Judgement
from shim.events import Scope, Verdict

FOREVER = float("inf")
_LATENCIES = 256  # answers that the percentiles of a route look back on
_GUESS_CAP = 300.0  # seconds; longest guess for a rate limit that named no time


@dataclass(slots=True)
class Cooldown:
    """Until when something is left alone, and who said so. `until` is on the machine's clock."""

    until: float = 0.0
    told: bool = False
    reason: str = ""
    guesses: int = 0
    is_firm: bool = False
    """Not our guess: the provider told it, or something is misconfigured. Never shortened, never probed early."""

    def put(self, until: float, told: bool, reason: str, now: float, *, is_firm: bool = False) -> None:
        """A new cooldown; a firm one stays at least as long as it was set."""
        is_firm = is_firm or told
        if self.is_firm and self.until > now and until < self.until:
            return
        # A longer guess on top keeps the authority, or a shorter one after it would undo what was told.
        still = self.until > now
        self.told = told or (self.told and still)
        self.is_firm = is_firm or (self.is_firm and still)
        self.until, self.reason = until, reason

    @property
    def firm_until(self) -> float:
        return self.until if self.is_firm else 0.0

    def clear(self) -> None:
        self.until, self.told, self.reason, self.guesses, self.is_firm = 0.0, False, "", 0, False


@dataclass(slots=True)
class KeyHealth:
    """One key of a provider: its own cooldown, its account's, and one per model."""

    alias: str
    own: Cooldown
    account: Cooldown
    models: dict[str, Cooldown] = field(default_factory=dict)

    def ready_at(self, model: str) -> float:
        at = max(self.own.until, self.account.until)
        per_model = self.models.get(model)
        return at if per_model is None or per_model.until < at else per_model.until

    def firm_until(self, model: str) -> float:
        per_model = self.models.get(model)
        at = max(self.own.firm_until, self.account.firm_until)
        return at if per_model is None else max(at, per_model.firm_until)


@dataclass(slots=True)
class ProviderHealth:
    """A provider: a breaker for faults of the connection, its keys, and a cooldown for all of it."""

    name: str
    breaker: Breaker
    keys: list[KeyHealth]
    cooldown: Cooldown = field(default_factory=Cooldown)
    last_message: str = ""
    kept: ProviderHealth | None = None
    """What it is for real, while a rehearsal acts on this one."""


@dataclass(slots=True)
class RouteHealth:
    """A route: a breaker, a cooldown for its model, and figures."""

    name: str
    model: str
    provider: ProviderHealth
    breaker: Breaker
    cooldown: Cooldown = field(default_factory=Cooldown)
    misconfigured: str = ""
    in_flight: int = 0
    latencies: deque[float] = field(default_factory=lambda: deque(maxlen=_LATENCIES))
    attempts: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    last_message: str = ""
    last_reason: str = ""
    last_way: str | None = None
    """How the last failure looked to the official client: a status as text, `timeout` or `connection`."""
    next_key: int = 0
    dropped: set[str] = field(default_factory=set)
    kept: RouteHealth | None = None
    """What it is for real, while a rehearsal acts on this one."""

    def benched_until(self, key: int) -> float:
        """When no cooldown stands in the way of this route with that key; breakers left aside."""
        provider = self.provider
        at = max(self.cooldown.until, provider.cooldown.until)
        if provider.keys:
            at = max(at, provider.keys[key].ready_at(self.model))
        return at

    def barred_until(self, key: int) -> float:
        """When no firm cooldown stands in the way: what a call that has nothing else left may retry on."""
        provider = self.provider
        at = max(self.cooldown.firm_until, provider.cooldown.firm_until)
        if provider.keys:
            at = max(at, provider.keys[key].firm_until(self.model))
        return at

    def retry_at(self, key: int, now: float) -> float:
        """When a retry may use the route: after its breaker and firm cooldowns. A guess bars first choices alone."""
        return max(self.barred_until(key), self.breaker_until(now))

    def breaker_until(self, now: float) -> float:
        """When the breakers of the route and of its provider let an attempt through."""
        return max(self.breaker.ready_at(now), self.provider.breaker.ready_at(now))

    def probe_at(self, key: int, now: float) -> float:
        """When its breakers let a probe through, if they alone keep it out; else infinity."""
        if self.benched_until(key) > now:
            return FOREVER
        return max(self.breaker.probe_at(now), self.provider.breaker.probe_at(now))

    def ready_at(self, key: int, now: float) -> float:
        return max(self.benched_until(key), self.breaker_until(now))

    def percentile(self, share: float) -> float | None:
        """A percentile of the latencies of valid answers, in seconds; None before the first answer."""
        if not self.latencies:
            return None
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True, slots=True)
class Permits:
    """Leave to try a route: from its own breaker and from its provider's."""

    route: Permit
    provider: Permit


def acquire(route: RouteHealth, key: int, now: float, *, early: bool) -> Permits | None:
    """Permits for one attempt, or None when the route or the key is not free any more."""
    if (route.barred_until(key) if early else route.benched_until(key)) > now:
        return None
    of_provider = route.provider.breaker.acquire(now, early=early)
    if of_provider is None:
        return None
    of_route = route.breaker.acquire(now, early=early)
    if of_route is None:
        route.provider.breaker.release(of_provider)
        return None
    route.in_flight += 1
    return Permits(of_route, of_provider)


def prove(route: RouteHealth, permits: Permits) -> Permits:
    """The attempt brought content and goes on: its permits from now on."""
    return Permits(route.breaker.proved(permits.route), route.provider.breaker.proved(permits.provider))


def release(route: RouteHealth, permits: Permits) -> None:
    """The attempt was cancelled: nobody's failure."""
    route.in_flight -= 1
    route.breaker.release(permits.route)
    route.provider.breaker.release(permits.provider)


def settle(
    route: RouteHealth,
    key: int,
    permits: Permits,
    judgement: Judgement,
    seconds: float,
    now: float,
    jitter: float,
    *,
    is_rehearsal: bool = False,
) -> None:
    """What a verdict does to the health of the route, its key and its provider. That of a rehearsed attempt is in no
    figure; that of a real one while others rehearse also moves what is kept beside."""
    if is_rehearsal and route.kept is None:  # it ends after its rehearsal did
        release(route, permits)
        return
    route.in_flight -= 1
    if not is_rehearsal:
        route.attempts += 1
        route.verdicts[judgement.verdict.value] = route.verdicts.get(judgement.verdict.value, 0) + 1
        if judgement.verdict is Verdict.OK:
            route.latencies.append(seconds)
        kept = route.kept
        if kept is not None and (real := acquire(kept, key, now, early=True)) is not None:
            _move(kept, key, real, judgement, now, jitter)
    _move(route, key, permits, judgement, now, jitter)


def _move(route: RouteHealth, key: int, permits: Permits, judgement: Judgement, now: float, jitter: float) -> None:
    own, shared = route.breaker, route.provider.breaker
    if judgement.moot:
        own.release(permits.route)
        shared.release(permits.provider)
        return
    if judgement.verdict is Verdict.OK:
        own.success(permits.route, now)
        shared.success(permits.provider, now)
        _forget_guesses(route, key)
        return
    route.last_message = route.provider.last_message = judgement.message
    route.last_reason = judgement.reason
    if judgement.counts and judgement.scope is Scope.PROVIDER:
        own.release(permits.route)
        shared.failure(permits.provider, now, jitter)
    elif judgement.counts:
        own.failure(permits.route, now, jitter)
        shared.neutral(permits.provider)
    else:
        own.neutral(permits.route)
        shared.neutral(permits.provider)
    _bench(route, key, judgement, now)


def _forget_guesses(route: RouteHealth, key: int) -> None:
    route.cooldown.guesses = route.provider.cooldown.guesses = 0
    if route.provider.keys:
        health = route.provider.keys[key]
        per_model = health.models.get(route.model)
        health.own.guesses = health.account.guesses = 0
        if per_model is not None:
            per_model.guesses = 0


def _bench(route: RouteHealth, key: int, judgement: Judgement, now: float) -> None:
    """Put the cooldown where the scope says. Without a figure only what does not count on a breaker is guessed."""
    if judgement.verdict in (Verdict.CANNOT, Verdict.FATAL) or judgement.scope is Scope.REQUEST:
        return
    if judgement.cooldown is None and judgement.counts:
        return
    place = _place(route, key, judgement.scope)
    seconds = judgement.cooldown
    if seconds is None:
        rules = route.breaker.rules
        seconds = min(rules.cooldown * 2.0 ** min(place.guesses, 20), max(_GUESS_CAP, rules.cooldown))
        place.guesses += 1
    if judgement.verdict is Verdict.BROKEN and judgement.scope is Scope.MODEL:
        route.misconfigured = judgement.message
    is_firm = judgement.verdict is Verdict.BROKEN
    place.put(now + seconds, judgement.told, judgement.reason, now, is_firm=is_firm)


def _place(route: RouteHealth, key: int, scope: Scope) -> Cooldown:
    """Where a cooldown of this scope is kept. A provider without keys is its own key and account."""
    provider = route.provider
    match scope:
        case Scope.MODEL | Scope.REQUEST:
            return route.cooldown
        case Scope.PROVIDER:
            return provider.cooldown
        case Scope.KEY_MODEL:
            if not provider.keys:
                return route.cooldown
            return provider.keys[key].models.setdefault(route.model, Cooldown())
        case Scope.KEY:
            return provider.keys[key].own if provider.keys else provider.cooldown
        case Scope.ACCOUNT:
            return provider.keys[key].account if provider.keys else provider.cooldown
        case _:
            assert_never(scope)
