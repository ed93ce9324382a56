"""Puts scripted providers where the network would be, for every client of httpx and httpx2 in this process.

A client chooses a transport by the URL of a request; while a provider is mounted, its own transport is chosen for its
host. What is mounted comes before any cassette.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from shim._core.fault_steps import Break, Rest
from shim._core.outcome import Fault
from shim._http.flavour import Flavour
from shim.testing.answers import Answer
from shim.testing.provider import FakeProvider
from shim.testing.recording import Asked

_SLICE = 0.05  # seconds between looks at whether a blocking wait was ended from outside
_NOTHING_LEFT = 1e-6  # seconds: what is left of an exchange that is over, or was ended from outside
_CHOICE = "_transport_for_url"
_lock = threading.Lock()
_mounted: dict[str, FakeProvider] = {}
_originals: list[tuple[Any, Any]] = []


def mount(provider: FakeProvider) -> None:
    """Answer requests to its host. Raises `ValueError` where another one of that name is mounted."""
    host = _host(provider)
    with _lock:
        known = _mounted.setdefault(host, provider)
        if known is not provider:
            raise ValueError(f"FakeProvider: another one is named {provider.name!r} already; give it another name")
        if not _originals:
            _patch()


def unmount(provider: FakeProvider) -> None:
    """Let requests to its host go to the network again."""
    with _lock:
        if _mounted.get(_host(provider)) is provider:
            del _mounted[_host(provider)]
        if not _mounted:
            while _originals:
                owner, original = _originals.pop()
                setattr(owner, _CHOICE, original)


def _host(provider: FakeProvider) -> str:
    return urlsplit(provider.base_url).hostname or ""


def _patch() -> None:
    for name in ("httpx2", "httpx"):
        with suppress(ImportError):
            module = import_module(name)
            for owner in (module.Client, module.AsyncClient):
                original = getattr(owner, _CHOICE)
                _originals.append((owner, original))
                setattr(owner, _CHOICE, _choosing(original, Flavour(module)))


def _choosing(original: Any, flavour: Flavour) -> Any:
    def transport_for_url(self: Any, url: Any) -> Any:
        provider = _mounted.get(url.host)
        if provider is None:
            return original(self, url)
        sync_transport, async_transport = _transports(flavour)
        return (async_transport if hasattr(self, "aclose") else sync_transport)(provider)

    return transport_for_url


class _Exchange:
    """One request to a scripted provider: its answer, carried out on a library's own classes."""

    def __init__(self, flavour: Flavour, provider: FakeProvider, request: Any, body: bytes) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.flavour = flavour
        self.request = request
        self.clock = provider.clock
        limits = request.extensions.get("timeout") or {}
        limits.get("connect")  # as a new connection would: without it a reset looks like a kept one gone stale
        self.answer: Answer = provider(Asked(request.method, str(request.url), headers, body))

    def response(self, stream: Any) -> Any:
        if self.answer.status is None:
            first = self.answer.parts[0] if self.answer.parts else Break(Fault.RESET)
            assert isinstance(first, Break)
            raise self.error(first.fault or Fault.RESET)
        return self.flavour.module.Response(
            self.answer.status, headers=list(self.answer.headers), stream=stream, request=self.request
        )

    def error(self, fault: Fault) -> Exception:
        return self.flavour.error(fault, self.request, "scripted fault")

    def limit(self) -> float:
        """Seconds that a read may take now. Asked again and again: an exchange that is ended from outside says none."""
        limits = self.request.extensions.get("timeout") or {}
        read = limits.get("read")
        return float("inf") if read is None else float(read)

    def rest(self, seconds: float) -> None:
        allowed, passed = self.limit(), 0.0
        while passed < seconds:
            if passed >= allowed or self.limit() <= _NOTHING_LEFT:
                raise self.error(Fault.TIMEOUT)
            step = min(seconds - passed, allowed - passed, _SLICE)
            self.clock.wait(step)
            passed += step

    async def async_rest(self, seconds: float) -> None:
        limit = self.limit()
        await self.clock.async_wait(min(seconds, limit))
        if seconds > limit:
            raise self.error(Fault.TIMEOUT)

    def parts(self) -> Iterator[bytes | Rest]:
        """The bytes and rests up to the end; raises what the library would where it breaks."""
        for part in self.answer.parts:
            if isinstance(part, Break):
                if part.fault is not None:
                    raise self.error(part.fault)
                return
            yield part


@cache
def _transports(flavour: Flavour) -> tuple[Any, Any]:
    hx: Any = flavour.module

    class SyncBody(hx.SyncByteStream):  # type: ignore[misc]
        def __init__(self, exchange: _Exchange) -> None:
            self._exchange = exchange

        def __iter__(self) -> Iterator[bytes]:
            for part in self._exchange.parts():
                if isinstance(part, Rest):
                    self._exchange.rest(part.seconds)
                else:
                    yield part

    class AsyncBody(hx.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, exchange: _Exchange) -> None:
            self._exchange = exchange

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for part in self._exchange.parts():
                if isinstance(part, Rest):
                    await self._exchange.async_rest(part.seconds)
                else:
                    yield part

    class SyncTransport(hx.BaseTransport):  # type: ignore[misc]
        def __init__(self, provider: FakeProvider) -> None:
            self._provider = provider

        def handle_request(self, request: Any) -> Any:
            exchange = _Exchange(flavour, self._provider, request, request.read())
            exchange.rest(exchange.answer.delay)
            return exchange.response(SyncBody(exchange))

    class AsyncTransport(hx.AsyncBaseTransport):  # type: ignore[misc]
        def __init__(self, provider: FakeProvider) -> None:
            self._provider = provider

        async def handle_async_request(self, request: Any) -> Any:
            exchange = _Exchange(flavour, self._provider, request, await request.aread())
            await exchange.async_rest(exchange.answer.delay)
            return exchange.response(AsyncBody(exchange))

    return SyncTransport, AsyncTransport
