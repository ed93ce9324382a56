"""Small configurations, requests and health states for the tests of the core."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from shim._core.breaker import Breaker, BreakerRules
from shim._core.budget import Budget
from shim._core.health import Cooldown, KeyHealth, ProviderHealth, RouteHealth
from shim._core.plan import FamilyState, RouteState
from shim._core.prepare import Writer
from shim._core.request import Request, read_fields, sort_headers, text_of
from shim.config import Config
from shim.events import Kind
from shim.loading import load

OWN_BASE = "https://own.example/v1"


def providers(*names: str, **tables: Mapping[str, object]) -> dict[str, object]:
    """A provider of that name at `https://NAME.example/v1` with the key `sk-NAME`; `tables` add to it or override."""
    return {
        name: {"base_url": f"https://{name}.example/v1", "api_key": f"sk-{name}", **tables.get(name, {})}
        for name in (*names, *(name for name in tables if name not in names))
    }


def config(
    providers: Mapping[str, object],
    families: Mapping[str, object],
    environ: Mapping[str, str] | None = None,
    **more: object,
) -> Config:
    """A configuration, built without looking at the environment of the process."""
    return load({"providers": dict(providers), "families": dict(families), **more}, environ=environ or {})


def embedding(routes: Sequence[object], **more: object) -> dict[str, object]:
    """An embedding family of 8 dimensions."""
    return {"kind": "embedding", "dimensions": 8, "routes": list(routes), **more}


def chat(routes: Sequence[object], **more: object) -> dict[str, object]:
    """A chat family."""
    return {"kind": "chat", "routes": list(routes), **more}


def key(alias: str = "k", account: Cooldown | None = None) -> KeyHealth:
    """The health of a key with its own account, or that of another key."""
    return KeyHealth(alias, Cooldown(), account or Cooldown())


def provider_health(name: str = "alpha", keys: int = 1, rules: BreakerRules | None = None) -> ProviderHealth:
    """A healthy provider with that many keys, each an account of its own."""
    return ProviderHealth(name, Breaker(rules or BreakerRules()), [key(f"k{i}") for i in range(1, keys + 1)])


def route_health(provider: ProviderHealth, model: str = "m", rules: BreakerRules | None = None) -> RouteHealth:
    """A healthy route."""
    return RouteHealth(f"{provider.name}/{model}", model, provider, Breaker(rules or BreakerRules()))


def states(built: Config) -> dict[str, FamilyState]:
    """Fresh states of all families of a configuration, with the health of their providers shared."""
    health = {name: provider_health(name, len(given.keys)) for name, given in built.providers.items()}
    result = {}
    for name, family in built.families.items():
        routes = [
            RouteState(
                route,
                built.providers[route.provider],
                route_health(health[route.provider], route.model),
                Writer(family, route, built.providers[route.provider]),
            )
            for route in family.routes
        ]
        result[name] = FamilyState(family, routes, Budget(share=0.2, reserve=10), Budget(share=0.05, reserve=2))
    return result


def request(
    body: Mapping[str, object] | bytes | None = None,
    *,
    kind: Kind = Kind.EMBEDDING,
    path: str = "/embeddings",
    headers: Sequence[tuple[str, str]] = (),
    query: str = "",
    content_type: str = "application/json",
    own_base: str = OWN_BASE,
    is_stream: bool = False,
) -> Request:
    """A caller's request as the engine hands it to the core."""
    raw = body if isinstance(body, bytes) else json.dumps(body or {"model": "m", "input": "hi"}).encode()
    fields = read_fields(raw) or {}
    pairs = [(name.encode(), value.encode()) for name, value in headers]
    if not any(name.lower() == b"content-type" for name, _ in pairs):
        pairs.append((b"Content-Type", content_type.encode()))
    return Request(
        method="POST",
        path=path,
        endpoint=path,
        kind=kind,
        headers=sort_headers(pairs),
        body=raw,
        query=query.encode(),
        own_base=own_base,
        fields=fields,
        model=text_of(fields.get("model")) or "",
        is_stream=is_stream,
    )
