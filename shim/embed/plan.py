"""Sets a job up: its family, its routes as lanes, its space, its store; and says what it would take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shim._core.catalog import Catalog, Resolution
from shim.config import Config, FamilyConfig, RouteConfig
from shim.embed.errors import SourceError
from shim.embed.identity import SpaceIdentity
from shim.embed.intake import Intake, Measure, Tally
from shim.embed.lanes import Lane
from shim.embed.limits import Limits
from shim.embed.prices import RoutePrice, price_of
from shim.embed.settings import Settings
from shim.embed.store import Store, folder_for
from shim.embed.summary import Estimate, RouteEstimate
from shim.embed.tokens import Counter, is_bundled
from shim.events import Kind


@dataclass(frozen=True, slots=True)
class Setup:
    """What is settled before the first row is read. `prices` by route; None where nobody knows one."""

    family: FamilyConfig
    routes: Sequence[RouteConfig]
    prices: Mapping[str, RoutePrice | None]
    space: SpaceIdentity
    settings: Settings

    @property
    def counter(self) -> Counter:
        return Counter.of([route.model for route in self.routes])

    def lanes(self) -> list[Lane]:
        """The routes with nothing in flight."""
        made = []
        for route in self.routes:
            price = self.prices[route.route]
            limits = Limits.of(route, self.settings.batch_size)
            cost = None if price is None else price.per_token
            made.append(Lane(route.route, route.priority, route.weight, limits, self.settings.concurrency, cost))
        return made

    def measure(self, *, is_counted: bool) -> Measure:
        """The strictest limit on a text among the routes, so that each can serve it; rooms of the widest."""
        limits = [Limits.of(route, self.settings.batch_size) for route in self.routes]
        room = max(one.request_tokens / one.inputs for one in limits)
        longest = min((one.input_tokens for one in limits if one.input_tokens is not None), default=None)
        return Measure(self.counter, longest, room, is_counted)

    def open_store(self) -> Store:
        """The store of this space; with `fresh`, an empty one (what was there is kept aside)."""
        folder = folder_for(self.space, self.settings.store)
        if self.settings.fresh and folder.exists():
            number = 1
            while folder.with_name(f"{folder.name}.old-{number}").exists():
                number += 1
            folder.rename(folder.with_name(f"{folder.name}.old-{number}"))
        return Store(folder, self.space)


def set_up(router: Any, family: str | None, settings: Settings) -> Setup:
    """The family and all that follows from it. Raises SourceError for what cannot be, naming what could."""
    if router is None:
        raise SourceError(
            "embed needs a configuration: give the client `router=...`, or write a shim.toml (`shim init` makes one)"
        )
    config: Config = router.config
    resolved = resolved_family(config, family)
    found = resolved.family
    usable = [route for route in found.routes if route.enabled and config.providers[route.provider].is_usable]
    if resolved.pinned is not None:
        usable = [route for route in usable if resolved.pinned in (route.provider, route.route)]
    if not usable:
        missing = [config.providers[route.provider].missing for route in found.routes]
        named = ", ".join(dict.fromkeys(name for name in missing if name))
        raise SourceError(f"no enabled route of family {found.name!r} has a key" + (f": set {named}" if named else ""))
    if settings.dimensions is not None and found.dimensions == settings.dimensions:
        settings = _replaced(settings, dimensions=None)  # the family's own length is one space, however it is asked for
    prices = {route.route: price_of(route, config.providers[route.provider]) for route in usable}
    if settings.limit_usd is not None and (unknown := [name for name, price in prices.items() if price is None]):
        raise SourceError(
            f"limit_usd: the price of {', '.join(unknown)} is not known: set `price = {{ input = ... }}` (US dollars "
            "per million tokens) on the route"
        )
    space = SpaceIdentity(
        family=found.name,
        dimensions=settings.dimensions,
        normalised=settings.normalise,
        input_type=settings.input_type,
        oversize=settings.oversize,
    )
    return Setup(found, usable, prices, space, settings)


def _replaced(settings: Settings, **changes: Any) -> Settings:
    from dataclasses import replace

    return replace(settings, **changes)


def resolved_family(config: Config, name: str | None) -> Resolution:
    """The family that a name means, as for a call: its name, an alias, a route's model, `family/provider`."""
    embedding = [family.name for family in config.families.values() if family.kind is Kind.EMBEDDING]
    shown = ", ".join(embedding) or "no embedding family"
    wanted = name or config.default_embedding or (embedding[0] if len(embedding) == 1 else None)
    if wanted is None:
        raise SourceError(f"family: which one? The configuration has: {shown}")
    found = Catalog(config).resolve(wanted, Kind.EMBEDDING)
    if found is None:
        raise SourceError(f"family: there is no embedding family {wanted!r}; the configuration has: {shown}")
    return found


def estimate(setup: Setup, intake: Intake, rows: int, latencies: Mapping[str, float | None], store: str) -> Estimate:
    """What a job would take. All pieces have gone through `intake`; nothing was sent."""
    tally = intake.tally
    routes = {route.route: _on_one_route(setup, route, tally, latencies.get(route.route)) for route in setup.routes}
    best = min(setup.routes, key=lambda route: route.priority)
    first = routes[best.route]
    counter = setup.counter
    words = "counted with the model's own vocabulary" if counter.is_exact else "estimated, a little high"
    return Estimate(
        family=setup.family.name,
        rows=rows,
        bad=tally.bad,
        errors=dict(tally.errors),
        duplicates=tally.duplicates,
        cached=tally.cached,
        oversize=tally.oversize,
        to_embed=tally.unique,
        tokens=tally.tokens,
        tokens_are=words if is_bundled() else "bounded by bytes: too high (install openai-shim[embed] to count)",
        requests=first.requests,
        cost=first.cost,
        seconds=first.seconds,
        routes=routes,
        store=store,
        reasons=tuple(tally.reasons.values()),
    )


def _on_one_route(setup: Setup, route: RouteConfig, tally: Tally, latency: float | None) -> RouteEstimate:
    limits = Limits.of(route, setup.settings.batch_size)
    requests = max(math.ceil(tally.unique / limits.inputs), math.ceil(tally.tokens / limits.request_tokens))
    price = setup.prices[route.route]
    seconds = None if latency is None else math.ceil(requests / setup.settings.concurrency) * latency
    return RouteEstimate(
        route=route.route,
        requests=requests,
        cost=None if price is None else price.per_token * tally.tokens,
        price_source="" if price is None else price.source,
        seconds=seconds,
    )
