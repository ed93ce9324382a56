"""One text of a test for sync and async clients on both HTTP libraries."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import httpx2

import shim
from tests.support.server import Server

FAMILY = "fam"
MODEL = "alias"
HELLO: list[dict[str, str]] = [{"role": "user", "content": "hi"}]
FLAVOURS = {"httpx2": httpx2, "httpx": httpx}


async def out(value: Any) -> Any:
    """What a sync client returned, or what an async one promised."""
    return await value if inspect.isawaitable(value) else value


async def each(stream: Any) -> AsyncGenerator[Any, None]:
    """The items of a sync or an async iterable."""
    if hasattr(stream, "__aiter__"):
        async for item in stream:
            yield item
    else:
        for item in stream:
            yield item


async def all_of(stream: Any) -> list[Any]:
    return [item async for item in each(stream)]


@dataclass(slots=True)
class Both:
    """An `async with` over a sync or an async context manager."""

    inner: Any

    async def __aenter__(self) -> Any:
        if hasattr(self.inner, "__aenter__"):
            return await self.inner.__aenter__()
        return self.inner.__enter__()

    async def __aexit__(self, *error: Any) -> None:
        if hasattr(self.inner, "__aexit__"):
            await self.inner.__aexit__(*error)
        else:
            self.inner.__exit__(*error)


def configuration(
    kind: str, *servers: Server | str, policy: Mapping[str, object] | None = None, **family: object
) -> dict[str, Any]:
    """One family over the servers, in this order: providers a, b, c with models m-a, m-b, m-c and keys of their own."""
    names = "abcdefgh"[: len(servers)]
    urls = [server if isinstance(server, str) else server.base_url for server in servers]
    return {
        "providers": {
            name: {"base_url": url, "api_key": f"key-of-{name}-0123456789"}
            for name, url in zip(names, urls, strict=True)
        },
        "families": {
            FAMILY: {"kind": kind, "aliases": [MODEL], "routes": [f"{name}/m-{name}" for name in names], **family}
        },
        "policy": {"max_retries": 0, "space_check": False, **(policy or {})},
    }


@dataclass(slots=True)
class Face:
    """Makes clients of one kind over one HTTP library, and closes them."""

    is_async: bool
    flavour: str = "httpx2"
    made: list[Any] = field(default_factory=list)

    @property
    def shim(self) -> Any:
        return shim.AsyncOpenAI if self.is_async else shim.OpenAI

    @property
    def module(self) -> Any:
        return FLAVOURS[self.flavour]

    def http_client(self, **settings: Any) -> Any:
        """A client of the library that the caller owns."""
        return (self.module.AsyncClient if self.is_async else self.module.Client)(**settings)

    def client(self, router: Any, **settings: Any) -> Any:
        """A client over the SDK's own HTTP client for httpx2, over one of the caller's for httpx."""
        if self.flavour == "httpx":
            settings.setdefault("http_client", self.http_client(timeout=httpx.Timeout(600, connect=5.0)))
        made = self.shim(router=router, **settings)
        self.made.append(made)
        return made

    async def close(self) -> None:
        for client in self.made:
            await out(client.close())
