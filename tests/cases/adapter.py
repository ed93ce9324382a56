"""Maps the neutral configuration of the fault cases to ours: one function, `make_client`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np

from shim import AsyncOpenAI, OpenAI, Router
from shim.embed import EmbeddingStoppedError

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


@dataclass(frozen=True, slots=True)
class Dataset:
    """What a dataset case looks at: `vectors` with None where there is none, `failed` rows with the reason, and
    `missing` rows, which were blank or never reached."""

    vectors: list[list[float] | None]
    failed: dict[int, str]
    missing: list[int]


def _dataset(job: Any) -> Dataset:
    """The rows of a job; blank cells are missing rather than failed."""
    matrix = job.vectors
    errors = {row.index: row for row in job.errors.itertuples(index=False)}
    blank = [row for row, error in errors.items() if error.kind in ("null", "empty")]
    rows = [None if np.isnan(vector).any() else vector.tolist() for vector in matrix]
    if not matrix.shape[1]:
        rows = [None] * len(rows)
    failed = {row: error.message for row, error in errors.items() if row not in blank}
    missing = [row for row, vector in enumerate(rows) if vector is None and row not in failed]
    return Dataset(rows, failed, missing)


class Datasets:
    """The client of a dataset case."""

    def __init__(self, client: Any, is_async: bool, store: str, concurrency: int) -> None:
        self._client, self._is_async = client, is_async
        self._choices = {"store": store, "concurrency": concurrency, "patience": 3.0, "progress": False}

    def embed_dataset(self, model: str, rows: list[Any], batch_size: int) -> Dataset:
        """Embed the rows; what is raised carries what there is as `partial`."""
        choices = {"family": model, "batch_size": batch_size, **self._choices}
        try:
            if self._is_async:
                return _dataset(asyncio.run(self._awaited(rows, choices)))
            return _dataset(self._client.embed(rows, **choices))
        except EmbeddingStoppedError as error:
            error.partial = _dataset(error.job)  # type: ignore[attr-defined]
            raise

    async def _awaited(self, rows: list[Any], choices: dict[str, Any]) -> Any:
        async with self._client:
            return await self._client.embed(rows, **choices)

    def close(self) -> None:
        if not self._is_async:
            self._client.close()


def make_dataset_client(
    kind: str, providers: Sequence[Mapping[str, Any]], config: Mapping[str, Any], *, store: str, is_async: bool
) -> Datasets:
    """The client of a dataset case, sync or async, with a store of its own."""
    # A short cooldown: what a breaker does is looked at by the other cases.
    config = {"breaker": {"failures": 3, "cooldown_s": 0.1}, **config}
    client = make_client("async" if is_async else "sync", providers, config, flavour=None)
    return Datasets(client, is_async, store, int(config.get("concurrency", 4)))


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
