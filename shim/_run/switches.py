"""The switches that an operator has: reset, force open, off and on, pin. Observers are told of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from shim._core.breaker import Breaker
from shim._core.health import ProviderHealth, RouteHealth
from shim._core.plan import FamilyState, RouteState
from shim._run.board import Board
from shim._run.records import tell_breaker
from shim.events import BreakerChanged, BreakerState, Switch, Switched


def reset(board: Board, name: str | None) -> None:
    """Close breakers and forget cooldowns. Raises ValueError for an unknown name."""
    routes, providers = _named(board, name)
    with board.lock:
        before = _states(routes, providers)
        for health in [health for route in routes for health in _with_kept(route.health)]:
            health.breaker.reset()
            health.cooldown.clear()
            health.misconfigured = ""
        for provider in {id(one): one for one in (*providers, *(route.health.provider for route in routes))}.values():
            for one in _with_kept(provider):
                _clear(one)
    _tell(board, before)
    _switched(board, name or "all", Switch.RESET)


def force_open(board: Board, name: str) -> None:
    """Take routes out until they are reset. Raises ValueError for an unknown name."""
    routes, providers = _named(board, name)
    with board.lock:
        before = _states(routes, providers)
        for route in routes:
            for health in _with_kept(route.health):
                health.breaker.force_open()
        for provider in providers:
            for its in _with_kept(provider):
                its.breaker.force_open()
    _tell(board, before)
    _switched(board, name, Switch.FORCED_OPEN)


def switch(board: Board, name: str, *, is_off: bool) -> None:
    """Take routes out of every plan, or put them back. Raises ValueError for an unknown name."""
    routes, _ = _named(board, name)
    with board.lock:
        for route in routes:
            route.is_off = is_off
        _forget_plans(board.families.values())
    _switched(board, name, Switch.OFF if is_off else Switch.ON)


def pin(board: Board, family: str, name: str | None) -> None:
    """Send a family's calls to one route or provider alone; None lets them go. Raises ValueError for unknown names."""
    state = board.families.get(family)
    if state is None:
        raise ValueError(f"no family {family!r}; known: {', '.join(board.families) or 'none'}")
    if name is not None and not any(name in (route.health.name, route.health.provider.name) for route in state.routes):
        known = ", ".join(route.health.name for route in state.routes)
        raise ValueError(f"family {family!r} has no route or provider {name!r}; its routes: {known}")
    with board.lock:
        state.pinned = name
        _forget_plans(board.families.values())
    _switched(
        board, family if name is None else f"{family} to {name}", Switch.UNPINNED if name is None else Switch.PINNED
    )


def check(board: Board, name: str) -> None:
    """Raises ValueError for a name that is neither a route nor a provider."""
    _named(board, name)


def _named(board: Board, name: str | None) -> tuple[list[RouteState], list[ProviderHealth]]:
    routes = [route for state in board.families.values() for route in state.routes]
    providers = list(board.providers.values())
    if name is None:
        return routes, providers
    found = [route for route in routes if name in (route.health.name, route.health.provider.name)]
    named = [provider for provider in providers if provider.name == name]
    if not found and not named:
        known = ", ".join(dict.fromkeys([*(route.health.name for route in routes), *board.providers]))
        raise ValueError(f"no route or provider {name!r}; known: {known}")
    return found, named


_Health = TypeVar("_Health", RouteHealth, ProviderHealth)


def _with_kept(health: _Health) -> Iterator[_Health]:
    """What calls see, and what is kept beside it while a rehearsal is under way."""
    yield health
    if health.kept is not None:
        yield health.kept


def _clear(provider: ProviderHealth) -> None:
    provider.breaker.reset()
    provider.cooldown.clear()
    for key in provider.keys:
        for place in (key.own, key.account, *key.models.values()):
            place.clear()


def _forget_plans(families: Iterable[FamilyState]) -> None:
    """Kept plans hold what was switched; a chat family's plan also holds routes of those that it falls back on."""
    for state in families:
        state.fixed.clear()


def _states(routes: list[RouteState], providers: list[ProviderHealth]) -> dict[str, tuple[Breaker, BreakerState]]:
    breakers = {route.health.name: route.health.breaker for route in routes}
    breakers |= {one.name: one.breaker for one in (*providers, *(route.health.provider for route in routes))}
    return {name: (breaker, breaker.state) for name, breaker in breakers.items()}


def _tell(board: Board, before: dict[str, tuple[Breaker, BreakerState]]) -> None:
    at = board.clock.wall()
    for name, (breaker, was) in before.items():
        if breaker.state is not was:
            change = BreakerChanged(name, was, breaker.state, None, at)
            tell_breaker(change)
            board.bus.emit(change)


def _switched(board: Board, subject: str, switch: Switch) -> None:
    board.bus.emit(Switched(subject, switch, board.clock.wall()))
