"""httpx clients whose requests are routed: thin faces of the engine for libraries that take only an httpx client."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from shim._http.engine import Engine
from shim._http.flavour import flavour_of
from shim._http.pools import Pools
from shim._run.bounds import Options


def _module() -> Any:
    """The library that the installed openai uses: httpx2 where there is one."""
    try:
        return importlib.import_module("httpx2")
    except ImportError:
        return importlib.import_module("httpx")


def options_of(request: Any) -> Options:
    """What the request's own timeout asks of the call."""
    timeout = request.extensions.get("timeout") or {}
    read = timeout.get("read")
    return Options(deadline=read, read_timeout=read, connect_timeout=timeout.get("connect"))


def sync_client(engine: Engine, base_url: str, settings: dict[str, Any]) -> Any:
    """A sync client whose requests go through the engine."""
    return _classes(_module())[0](engine, base_url, settings)


def async_client(engine: Engine, base_url: str, settings: dict[str, Any]) -> Any:
    """An async client whose requests go through the engine."""
    return _classes(_module())[1](engine, base_url, settings)


@cache
def _classes(module: Any) -> tuple[Any, Any]:
    class RoutedClient(module.Client):  # type: ignore[misc]
        def __init__(self, engine: Engine, base_url: str, settings: dict[str, Any]) -> None:
            inner = module.Client(**settings)
            super().__init__(base_url=base_url, **settings)
            self._engine, self._inner = engine, inner
            pools = Pools(inner, module.URL, None)
            self._sender: Any = engine.sender(flavour_of(inner), pools, is_async=False)  # type: ignore[arg-type]

        def send(self, request: Any, *, stream: bool = False, **rest: Any) -> Any:
            own = str(self.base_url).rstrip("/")
            answer = self._engine.send(request, self._sender, own, options_of(request))
            if answer is None:
                return super().send(request, stream=stream, **rest)
            if not stream:
                answer.read()
            return answer

        def close(self) -> None:
            self._inner.close()
            super().close()

        def __exit__(self, *error: Any) -> None:
            self._inner.close()  # the library's own leaves a `with` without calling `close`
            super().__exit__(*error)

    class RoutedAsyncClient(module.AsyncClient):  # type: ignore[misc]
        def __init__(self, engine: Engine, base_url: str, settings: dict[str, Any]) -> None:
            inner = module.AsyncClient(**settings)
            super().__init__(base_url=base_url, **settings)
            self._engine, self._inner = engine, inner
            pools = Pools(inner, module.URL, None)
            self._sender: Any = engine.sender(flavour_of(inner), pools, is_async=True)  # type: ignore[arg-type]

        async def send(self, request: Any, *, stream: bool = False, **rest: Any) -> Any:
            own = str(self.base_url).rstrip("/")
            answer = await self._engine.async_send(request, self._sender, own, options_of(request))
            if answer is None:
                return await super().send(request, stream=stream, **rest)
            if not stream:
                await answer.aread()
            return answer

        async def aclose(self) -> None:
            await self._inner.aclose()
            await super().aclose()

        async def __aexit__(self, *error: Any) -> None:
            await self._inner.aclose()
            await super().__aexit__(*error)

    return RoutedClient, RoutedAsyncClient
