"""Reads what LiteLLM says about routing (`router_settings`, `litellm_settings`) into a policy and chat fallbacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Table = dict[str, Any]
Note = Callable[[str], None]

STRATEGIES = {
    "simple-shuffle": "weighted",
    "least-busy": "least_busy",
    "latency-based-routing": "fastest",
}
NO_STRATEGY = {
    "usage-based-routing": "headroom",
    "usage-based-routing-v2": "headroom",
    "cost-based-routing": "cheapest",
}


def router_settings(document: Mapping[str, object], families: Mapping[str, Table], note: Note) -> Table:
    """The [policy] that the settings amount to. Fallbacks and aliases go into `families`; the rest is noted."""
    policy: Table = {"order": STRATEGIES["simple-shuffle"]}
    for section in ("litellm_settings", "router_settings"):  # the router's own win: it is read last
        settings = document.get(section)
        for key, value in settings.items() if isinstance(settings, Mapping) else ():
            _setting(f"{section}.{key}", str(key), value, policy, families, note)
    return policy


def _setting(path: str, key: str, value: Any, policy: Table, families: Mapping[str, Table], note: Note) -> None:
    breaker: Table = policy.get("breaker", {})
    match key:
        case "routing_strategy":
            _strategy(path, str(value), policy, note)
        case "num_retries":
            policy["max_retries"] = value
        case "timeout" | "request_timeout":
            policy["attempt_timeout"] = value
        case "stream_timeout":
            policy["first_chunk_timeout"] = value
        case "allowed_fails" if isinstance(value, int):
            policy["breaker"] = {**breaker, "failures": value + 1}  # LiteLLM opens when the count is passed
        case "cooldown_time" if isinstance(value, int | float):
            policy["breaker"] = {**breaker, "cooldown": value, "max_cooldown": max(300.0, value)}
        case "fallbacks" if isinstance(value, list):
            _fallbacks(path, value, families, note)
        case "model_group_alias" if isinstance(value, Mapping):
            _aliases(path, value, families, note)
        case _:
            note(f"{path}: not carried over")


def _strategy(path: str, strategy: str, policy: Table, note: Note) -> None:
    if strategy in STRATEGIES:
        policy["order"] = STRATEGIES[strategy]
    elif strategy in NO_STRATEGY:
        note(
            f"{path}: '{strategy}' would be order '{NO_STRATEGY[strategy]}', "
            "which is not available yet; weighted stands in"
        )
    else:
        note(f"{path}: '{strategy}' has no counterpart; weighted stands in")


def _fallbacks(path: str, value: list[Any], families: Mapping[str, Table], note: Note) -> None:
    for name, others in (pair for entry in value if isinstance(entry, Mapping) for pair in entry.items()):
        if name not in families:
            note(f"{path}: '{name}' is not carried over; it is not in model_list")
        elif families[name]["kind"] == "embedding":
            note(f"{path}: '{name}' is not carried over; embeddings of another family are of another vector space")
        elif families[name]["kind"] != "chat":
            note(f"{path}: '{name}' is not carried over; only chat families may fall back")
        else:
            families[name]["fallback"] = _known_chat(path, others, families, note)


def _known_chat(path: str, others: Any, families: Mapping[str, Table], note: Note) -> list[str]:
    known: list[str] = []
    for other in others if isinstance(others, list) else []:
        if families.get(str(other), {}).get("kind") == "chat":
            known.append(str(other))
        else:
            note(f"{path}: '{other}' is not carried over; it is no chat model of model_list")
    return known


def _aliases(path: str, value: Mapping[str, Any], families: Mapping[str, Table], note: Note) -> None:
    for alias, target in value.items():
        name = target.get("model") if isinstance(target, Mapping) else target
        if isinstance(name, str) and name in families and alias not in families:
            families[name].setdefault("aliases", []).append(alias)
        elif alias != name:
            note(f"{path}: '{alias}' is not carried over; '{name}' is not in model_list")
