"""Keeps the health of a provider beside what a rehearsal does to it, and brings it back. Pure; the board locks it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from shim._core.health import ProviderHealth, RouteHealth


def set_aside(provider: ProviderHealth, routes: Sequence[RouteHealth]) -> None:
    """From now on `kept` holds what the provider and its `routes` are for real. A second time changes nothing."""
    if provider.kept is not None:
        return
    kept, kept_routes = deepcopy((provider, list(routes)))
    provider.kept = kept
    for route, its in zip(routes, kept_routes, strict=True):
        route.kept = its


def bring_back(provider: ProviderHealth, routes: Sequence[RouteHealth]) -> None:
    """The provider and its routes are what `kept` holds. Figures of real attempts, and attempts in flight, stay."""
    kept, provider.kept = provider.kept, None
    if kept is not None:
        provider.breaker.take_over(kept.breaker)
        provider.cooldown = kept.cooldown
        provider.keys[:] = kept.keys
        provider.last_message = kept.last_message
    for route in routes:
        its, route.kept = route.kept, None
        if its is not None:
            route.breaker.take_over(its.breaker)
            route.cooldown = its.cooldown
            route.misconfigured = its.misconfigured
            route.last_message, route.last_reason, route.last_way = its.last_message, its.last_reason, its.last_way
