"""What a router shows of itself: the plan of a call and the state of everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

import msgspec

from shim._core import space
from shim._core.breaker import Breaker
from shim._core.health import FOREVER, Cooldown, ProviderHealth, RouteHealth
from shim._core.plan import FamilyState, RouteState, make_plan
from shim._core.request import Headers, Raw, Request
from shim._run.board import Board
from shim._run.rehearsal import RehearsalStatus, end_due
from shim.config import RouteConfig
from shim.events import BreakerState, Kind

_ENDPOINTS = {
    Kind.EMBEDDING: "/embeddings",
    Kind.CHAT: "/chat/completions",
    Kind.IMAGE: "/images/generations",
    Kind.SPEECH: "/audio/speech",
    Kind.TRANSCRIPTION: "/audio/transcriptions",
    Kind.MODERATION: "/moderations",
    Kind.RERANK: "/rerank",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One route of a plan. `ready_in` is seconds until it may be used (0 at once, None not foreseeable)."""

    route: str
    family: str
    keys: tuple[str, ...]
    ready_in: float | None
    note: str
    price_input: float | None
    price_output: float | None


@dataclass(frozen=True, slots=True)
class Skip:
    """A route that will not be used, and why."""

    route: str
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The plan for a call. `family` is None when the model belongs to none: the call passes through to the client's
    own base URL. `most_requests` is the largest number of attempts that the call may make."""

    model: str
    kind: Kind
    family: str | None
    mode: str
    steps: tuple[Step, ...]
    skipped: tuple[Skip, ...]
    most_requests: int
    suggestions: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.family is None:
            nearest = f"; nearest: {', '.join(self.suggestions)}" if self.suggestions else ""
            return f"{self.model!r} belongs to no {self.kind.value} family: it passes through{nearest}"
        most = "1 request" if self.most_requests == 1 else f"{self.most_requests} requests"
        lines = [f"{self.kind.value} family {self.family}, {self.mode}, at most {most}"]
        lines += [
            f"  {i}. {step.route}{f' ({step.note})' if step.note else ''}" for i, step in enumerate(self.steps, 1)
        ]
        lines += [f"  -  {skip.route}: {skip.reason}" for skip in self.skipped]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class KeyStatus:
    """A key by its alias. `ready_in` seconds until it may be used, 0 at once; `reason` why not."""

    alias: str
    ready_in: float
    reason: str
    told: bool


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """One provider as it stands."""

    name: str
    enabled: bool
    missing: str
    breaker: BreakerState
    open_for: float | None
    keys: tuple[KeyStatus, ...]
    cooldown: float
    last_message: str


@dataclass(frozen=True, slots=True)
class RouteStatus:
    """One route as it stands. Times are seconds; `p50` and `p95` are of valid answers, None before the first.

    `is_off` says that `Router.disable` switched it or its provider off, `is_pinned` that its family is pinned to it.
    """

    family: str
    route: str
    enabled: bool
    breaker: BreakerState
    open_for: float | None
    cooldown: float
    told: bool
    misconfigured: str
    in_flight: int
    attempts: int
    verdicts: Mapping[str, int]
    p50: float | None
    p95: float | None
    input_tokens: int
    output_tokens: int
    cost: float
    last_reason: str
    last_message: str
    is_off: bool = False
    is_pinned: bool = False


@dataclass(frozen=True, slots=True)
class Status:
    """Everything that a router knows, as of `at` (unix seconds)."""

    at: float
    providers: tuple[ProviderStatus, ...]
    routes: tuple[RouteStatus, ...]
    dimensions: Mapping[str, int | None]
    calls: int
    rehearsals: tuple[RehearsalStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class SpaceStatus:
    """One vector space: its key (family, length, input type), the endpoint whose probe vectors are the reference, and
    for each endpoint in it the noise over separation that was measured (accepted up to 0.15)."""

    key: str
    set_by: str
    members: Mapping[str, float]
    fingerprint: str
    """Twelve hex digits of the reference vectors: equal where the space is the very same."""


def spaces(board: Board) -> tuple[SpaceStatus, ...]:
    """The spaces in memory and on disk."""
    board.references.load_all()
    return tuple(
        SpaceStatus(key, known.set_by, dict(known.members), space.fingerprint(known.reading))
        for key, known in board.references.known().items()
    )


def explain(board: Board, model: str, kind: str | None, fields: Mapping[str, object]) -> Explanation:
    """The plan for a call to `model`, without sending anything."""
    its_kind = _kind_of(board, model) if kind is None else _kind_named(kind)
    found = board.catalog.resolve(model, its_kind)
    if found is None:
        nearest = tuple(board.catalog.closest(model, its_kind))
        return Explanation(model, its_kind, None, "pass-through", (), (), 1, nearest)
    end_due(board)
    endpoint = _ENDPOINTS[its_kind]
    raw = {name: Raw(msgspec.json.encode(value)) for name, value in fields.items()}
    request = Request("POST", endpoint, endpoint, its_kind, Headers(), b"", fields=raw, model=model)
    now = board.clock.now()
    with board.lock:
        turns = [(state, state.turn) for state in board.families_for(found.family)]
        keys = [(route.health, route.health.next_key) for state, _ in turns for route in state.routes]
        plan = make_plan(request, [state for state, _ in turns], board.clock.jitter, pinned=found.pinned)
        for state, turn in turns:
            state.turn = turn
        for health, next_key in keys:
            health.next_key = next_key
        steps: dict[str, Step] = {}
        for slot in plan.slots:
            ready = slot.route.health.ready_at(slot.key, now)
            config = slot.route.config
            known = steps.get(config.route)
            aliases = (*(known.keys if known else ()), slot.key_alias)
            soonest = ready if known is None or known.ready_in is None else min(ready, known.ready_in + now)
            steps[config.route] = _step(slot.family.config.name, config, aliases, soonest, now, slot.route.health)
    policy = found.family.policy
    most = len(plan.slots) + policy.max_retries if plan.slots else 0
    skipped = tuple(Skip(skip.route, skip.reason) for skip in plan.skipped)
    return Explanation(model, its_kind, found.family.name, policy.mode, tuple(steps.values()), skipped, most)


def _kind_of(board: Board, model: str) -> Kind:
    """The first kind that knows this model, else the first that knows a name like it."""
    knowing = [kind for kind in Kind if board.catalog.resolve(model, kind) is not None]
    return next(iter(knowing or [kind for kind in Kind if board.catalog.closest(model, kind)]), Kind.EMBEDDING)


def _kind_named(name: str) -> Kind:
    if name not in {kind.value for kind in Kind}:
        names = [kind.value for kind in Kind]
        near = "".join(f"; did you mean {word!r}?" for word in get_close_matches(name, names, n=1))
        raise ValueError(f"kind: unknown kind {name!r}{near} (known: {', '.join(names)})")
    return Kind(name)


def _step(
    family: str, config: RouteConfig, aliases: tuple[str, ...], ready: float, now: float, health: RouteHealth
) -> Step:
    ready_in = None if ready == FOREVER else max(0.0, ready - now)
    note = ""
    if ready_in is None:
        note = "out until it is reset"
    elif ready_in > 0:
        note = f"back in {ready_in:.0f} s: {health.last_reason or health.breaker.state.value}"
    price = config.price
    return Step(
        config.route,
        family,
        tuple(alias for alias in aliases if alias),
        ready_in,
        note,
        None if price is None else price.input,
        None if price is None else price.output,
    )


def status(board: Board) -> Status:
    """A frozen picture of the board."""
    end_due(board)
    now, wall = board.clock.now(), board.clock.wall()
    with board.lock:
        providers = tuple(_provider(board, health, now) for health in board.providers.values())
        routes = tuple(_route(state, route, now) for state in board.families.values() for route in state.routes)
        lengths = {
            name: state.config.dimensions or state.locked
            for name, state in board.families.items()
            if state.config.kind is Kind.EMBEDDING
        }
        rehearsals = tuple(rehearsal.status() for rehearsal in board.rehearsals)
        return Status(wall, providers, routes, lengths, len(board.calls), rehearsals)


def _left(until: float, now: float) -> float:
    return max(0.0, until - now)


def _open_for(breaker: Breaker, now: float) -> float | None:
    return _left(breaker.open_until, now) if breaker.state is BreakerState.OPEN else None


def _provider(board: Board, health: ProviderHealth, now: float) -> ProviderStatus:
    config = board.config.providers[health.name]
    keys = []
    for key in health.keys:
        places: list[Cooldown] = [key.own, key.account, *key.models.values()]
        worst = max(places, key=lambda place: place.until)
        left = _left(worst.until, now)
        keys.append(KeyStatus(key.alias, left, worst.reason if left else "", worst.told and left > 0))
    return ProviderStatus(
        health.name,
        config.enabled,
        config.missing,
        health.breaker.state,
        _open_for(health.breaker, now),
        tuple(keys),
        _left(health.cooldown.until, now),
        health.last_message,
    )


def _route(family: FamilyState, route: RouteState, now: float) -> RouteStatus:
    health = route.health
    return RouteStatus(
        family=family.config.name,
        route=health.name,
        enabled=route.config.enabled,
        breaker=health.breaker.state,
        open_for=_open_for(health.breaker, now),
        cooldown=_left(health.cooldown.until, now),
        told=health.cooldown.told,
        misconfigured=health.misconfigured if health.cooldown.until > now else "",
        in_flight=health.in_flight,
        attempts=health.attempts,
        verdicts=dict(health.verdicts),
        p50=health.percentile(0.5),
        p95=health.percentile(0.95),
        input_tokens=health.input_tokens,
        output_tokens=health.output_tokens,
        cost=health.cost,
        last_reason=health.last_reason,
        last_message=health.last_message,
        is_off=route.is_off,
        is_pinned=family.pinned is not None and family.pinned in (health.name, health.provider.name),
    )
