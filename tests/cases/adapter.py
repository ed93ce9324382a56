"""Maps the neutral configuration of the fault cases to ours: one function, `make_client`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from shim import AsyncOpenAI, OpenAI, Router

FAMILY = "fam"
MODELS = {"embedding": "emb-small", "chat": "chat-a"}
_TIMES = {
    "attempt_timeout_s": "attempt_timeout",
    "first_chunk_timeout_s": "first_chunk_timeout",
    "idle_timeout_s": "idle_timeout",
    "total_timeout_s": "deadline",
}


def _policy(config: Mapping[str, Any]) -> dict[str, Any]:
    # The space check needs its own requests, and these cases count every request.
    policy: dict[str, Any] = {"space_check": False, "max_retries": 0, "mode": config.get("mode", "sequential")}
    for theirs, ours in _TIMES.items():
        if theirs in config:
            policy[ours] = config[theirs]
    if "attempt_timeout_s" in config:
        policy.setdefault("first_chunk_timeout", config["attempt_timeout_s"])
    if "hedge_after_s" in config:
        policy["hedge_delay"] = config["hedge_after_s"]
        policy["hedge_budget"] = 1.0
    if policy["mode"] == "race":
        policy["race_width"] = 3
    breaker = config.get("breaker")
    if breaker:
        policy["breaker"] = {
            "failures": breaker["failures"],
            "cooldown": breaker["cooldown_s"],
            "probes": breaker.get("probe_max", 1),
            "window_min": 1000,
        }
    return policy


def _provider(given: Mapping[str, Any]) -> dict[str, Any]:
    provider: dict[str, Any] = {"base_url": given["base_url"]}
    if given.get("api_key"):
        provider["api_key"] = given["api_key"]
    extra = given.get("extra") or {}
    for name in ("headers", "query"):
        if extra.get(f"default_{name}"):
            provider[name] = extra[f"default_{name}"]
    return provider


def _family(kind: str, providers: Sequence[Mapping[str, Any]], family: Mapping[str, Any]) -> dict[str, Any]:
    routes = [
        {"provider": one["name"], "model": one.get("model") or MODELS[kind], "priority": rank}
        for rank, one in enumerate(providers)
    ]
    made: dict[str, Any] = {"kind": kind, "routes": routes}
    if kind == "embedding" and family.get("dims"):
        made["dimensions"] = family["dims"]
    known = {route["model"] for route in routes}
    made["aliases"] = [name for name in dict.fromkeys((MODELS[kind], family.get("name"))) if name and name not in known]
    return made


def configuration(providers: Sequence[Mapping[str, Any]], config: Mapping[str, Any]) -> dict[str, Any]:
    """Our configuration for the providers of a case: one embedding and one chat family over all of them."""
    family = config.get("family") or {}
    return {
        "providers": {one["name"]: _provider(one) for one in providers},
        "families": {
            FAMILY: _family("embedding", providers, family),
            "chat": _family("chat", providers, {}),
        },
        "policy": _policy(config),
    }


def make_client(kind: str, providers: Sequence[Mapping[str, Any]], config: Mapping[str, Any], *, flavour: Any) -> Any:
    """The client of a case, over `flavour`'s HTTP library, or over the SDK's own HTTP client when that is None."""
    settings: dict[str, Any] = {"router": Router(configuration(providers, config))}
    if config.get("disable_fallback"):
        settings["default_headers"] = {"x-shim-fallback": "off"}
    limits = config.get("max_connections")
    if flavour is not None or limits:
        library = flavour or httpx
        made = library.AsyncClient if kind == "async" else library.Client
        rest = {"limits": library.Limits(max_connections=limits)} if limits else {}
        settings["http_client"] = made(timeout=library.Timeout(600, connect=5.0), **rest)
    return (AsyncOpenAI if kind == "async" else OpenAI)(**settings)
