"""The stage of the demonstration: three HTTP servers on loopback before one real model, two of which can fall ill."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from shim import Router
from shim.local.models import WORDLLAMA
from shim.local.provider import LocalProvider
from shim.local.server import Handler, LocalServer, Sick, hanging, rate_limited, serve

FAMILY = "demo"
BUSY, SLOW, HEALTHY = "busy", "slow", "healthy"
ATTEMPT_TIMEOUT = 0.8
RETRY_AFTER = 3.0
BREAKER_COOLDOWN = 1.0
_HANGS_FOR = 60.0  # far longer than any attempt may take; a server that closes frees what hangs


@dataclass(frozen=True, slots=True)
class Stage:
    """The servers by provider, and the two illnesses, to be switched on and off."""

    servers: dict[str, LocalServer]
    busy: Sick
    slow: Sick

    def router(self, mode: str) -> Router:
        """A router with fresh health over the three servers."""
        return Router(self.configuration(mode))

    def configuration(self, mode: str) -> dict[str, object]:
        """The configuration, as a user would write it: `busy` first, then `slow`, then `healthy`."""
        return {
            "providers": {name: {"base_url": server.base_url} for name, server in self.servers.items()},
            "families": {
                FAMILY: {
                    "kind": "embedding",
                    "dimensions": WORDLLAMA.dimensions,
                    "routes": [f"{name}/{WORDLLAMA.name}" for name in self.servers],
                    "policy": {
                        "mode": mode,
                        "attempt_timeout": ATTEMPT_TIMEOUT,
                        "breaker": {"failures": 2, "cooldown": BREAKER_COOLDOWN},
                    },
                }
            },
        }


@contextmanager
def stage() -> Iterator[Stage]:
    """Servers that run until the end of the block. `busy` refuses its first request, `slow` hangs on its first two."""
    model = LocalProvider().handle_http
    busy, slow = rate_limited(model, 1, RETRY_AFTER), hanging(model, 2, _HANGS_FOR)
    with ExitStack() as stack:
        stack.enter_context(_own_cache())
        handlers: dict[str, Handler] = {BUSY: busy, SLOW: slow, HEALTHY: model}
        servers = {name: stack.enter_context(serve(handler)) for name, handler in handlers.items()}
        yield Stage(servers, busy, slow)


@contextmanager
def _own_cache() -> Iterator[None]:
    """References of this demonstration are shared by its routers and gone after it, not kept among the user's."""
    before = os.environ.get("SHIM_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="shim-demo-") as folder:
        os.environ["SHIM_CACHE_DIR"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["SHIM_CACHE_DIR"]
            else:
                os.environ["SHIM_CACHE_DIR"] = before


def direct_vectors(texts: tuple[str, ...]) -> list[list[float]]:
    """What the model itself says, without any router or server between: the truth to compare with."""
    body = json.dumps({"model": WORDLLAMA.name, "input": list(texts)}).encode()
    status, _, answer = LocalProvider().handle("POST", "/embeddings", body)
    document = json.loads(answer)
    if status != 200:
        raise RuntimeError(f"the local model answered {status}: {document['error']['message']}")
    return [row["embedding"] for row in document["data"]]
