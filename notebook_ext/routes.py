"""The rows of the table: each route as it stands, why it is out and until when."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

from notebook_ext import words
from notebook_ext.fold import Fold
from notebook_ext.model import RouteView, Tone
from shim.config import FamilyConfig, RouteConfig
from shim.events import BreakerState
from shim.router import ProviderStatus, RouteStatus, SpaceStatus

_WORST = (BreakerState.CLOSED, BreakerState.HALF_OPEN, BreakerState.OPEN, BreakerState.FORCED_OPEN)
_TONES: dict[str, Tone] = {"transient": "warn", "broken": "bad", "cannot": "quiet", "fatal": "bad"}


class Standing(NamedTuple):
    """Why a route is out ("" while it serves), and until when (None: at once, or nobody knows)."""

    state: str
    back_at: float | None


def view(
    route: RouteStatus,
    provider: ProviderStatus,
    config: RouteConfig,
    fold: Fold,
    *,
    at: float,
    space: str,
    rehearsed: Collection[str],
) -> RouteView:
    """One row, as of `at` (unix seconds)."""
    breaker, until = _breaker(route, provider, at)
    standing = _standing(route, provider, breaker, until, at)
    failed = sum(count for verdict, count in route.verdicts.items() if verdict != "ok")
    key, key_until = _key(provider, at)
    error, tone = _error(route, fold)
    return RouteView(
        route=words.clean(route.route),
        provider=words.clean(provider.name),
        model=words.clean(config.model),
        breaker=breaker.value,
        until=until,
        is_serving=not standing.state,
        state=standing.state,
        back_at=standing.back_at,
        is_off=route.is_off,
        can_switch=route.enabled and provider.enabled,
        is_pinned=route.is_pinned,
        is_rehearsed=provider.name in rehearsed or route.route in rehearsed or "" in rehearsed,
        in_flight=route.in_flight,
        ok=route.verdicts.get("ok", 0),
        failed=failed,
        p50=route.p50,
        p95=route.p95,
        recent=tuple(round(value, 4) for value in fold.latencies.get((route.family, route.route), ())),
        tokens=route.input_tokens + route.output_tokens,
        cost=route.cost if config.price is not None else None,
        key=key,
        key_until=key_until,
        error=error,
        error_tone=tone,
        space=space,
    )


def spaces_of(family: FamilyConfig, base_urls: Mapping[str, str], spaces: Mapping[str, SpaceStatus]) -> dict[str, str]:
    """How each route of an embedding family stands to its spaces (by length and input type), by `provider/model`.

    The number is the noise over separation that was measured. A route is not compared yet when it is in none.
    """
    said = {}
    for route in family.routes:
        endpoint = f"{base_urls[route.provider]} {route.model}"
        found = {label: word for label, space in spaces.items() if (word := _in_space(endpoint, space))}
        if len(spaces) > 1 and found:
            said[route.route] = ", ".join(f"{word} for {label}" for label, word in found.items())
        else:
            said[route.route] = next(iter(found.values()), "not compared yet" if spaces else "")
    return said


def _in_space(endpoint: str, space: SpaceStatus) -> str:
    if endpoint == space.set_by:
        return "sets the space"
    return f"same space ({space.members[endpoint]:.3f})" if endpoint in space.members else ""


def _breaker(route: RouteStatus, provider: ProviderStatus, at: float) -> tuple[BreakerState, float | None]:
    """The worse of the route's own breaker and its provider's, and when that lets a probe through."""
    worst = max(route.breaker, provider.breaker, key=_WORST.index)
    if worst is not BreakerState.OPEN:
        return worst, None
    left = [one.open_for for one in (route, provider) if one.breaker is BreakerState.OPEN and one.open_for is not None]
    longest = max(left, default=0.0)
    return worst, at + longest if math.isfinite(longest) else None


def _standing(
    route: RouteStatus, provider: ProviderStatus, breaker: BreakerState, until: float | None, at: float
) -> Standing:
    if not (route.enabled and provider.enabled):
        return Standing("off in the configuration", None)
    if route.is_off:
        return Standing("off by hand", None)
    if provider.missing and not provider.keys:
        return Standing(f"no key: set {words.clean(provider.missing)}", None)
    if route.misconfigured:
        return Standing(f"misconfigured: {words.clean(route.misconfigured, 120)}", _instant(at, route.cooldown))
    if breaker is BreakerState.FORCED_OPEN:
        return Standing("forced open, until it is reset", None)
    return _cooling(route, provider, breaker, until, at)


def _cooling(
    route: RouteStatus, provider: ProviderStatus, breaker: BreakerState, until: float | None, at: float
) -> Standing:
    """The longest thing that it waits for."""
    reason = words.clean(route.last_reason or "failures")
    waits = [(route.cooldown, f"cooling: {reason}{', as it was told' if route.told else ''}")]
    waits.append((provider.cooldown, f"the provider is cooling: {reason}"))
    if provider.keys:
        soonest = min(provider.keys, key=lambda key: key.ready_in)
        told = ", as it was told" if soonest.told else ""
        waits.append((soonest.ready_in, f"no key ready: {words.clean(soonest.reason)}{told}"))
    if breaker is BreakerState.OPEN:
        waits.append((math.inf if until is None else until - at, f"breaker open after {reason}"))
    longest, why = max(waits, key=lambda wait: wait[0])
    return Standing(why, _instant(at, longest)) if longest > 0 else Standing("", None)


def _key(provider: ProviderStatus, at: float) -> tuple[str, float | None]:
    keys = provider.keys
    if not keys:
        return (f"missing {words.clean(provider.missing)}" if provider.missing else "none needed"), None
    cooling = [key for key in keys if key.ready_in > 0]
    if not cooling:
        return ("ready" if len(keys) == 1 else f"{len(keys)} ready"), None
    last = max(cooling, key=lambda key: key.ready_in)
    soonest = min(cooling, key=lambda key: key.ready_in)
    ready = f"{len(keys) - len(cooling)} of {len(keys)} ready, " if len(keys) > 1 else ""
    return f"{ready}{words.clean(last.alias)}: {words.clean(last.reason)}", _instant(at, soonest.ready_in)


def _error(route: RouteStatus, fold: Fold) -> tuple[str, Tone]:
    if not route.last_message:
        return "", "quiet"
    reason, message = words.clean(route.last_reason), words.clean(route.last_message, 160)
    verdict = next((verdict.value for verdict, why in fold.troubles if why == route.last_reason), "transient")
    is_told_by_message = not reason or message.startswith(reason)  # `timeout: timed out`
    return message if is_told_by_message else f"{reason}: {message}", _TONES.get(verdict, "warn")


def _instant(at: float, left: float | None) -> float | None:
    return None if left is None or not math.isfinite(left) or left <= 0 else at + left
